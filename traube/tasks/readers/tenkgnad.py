"""10kGNAD: articles of the Austrian newspaper Der Standard in nine categories, as the German benchmark draws them."""

import sqlite3
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pandas as pd

from traube.core.errors import TraubeError
from traube.core.paths import raw
from traube.tasks.reading import csv_rows, plain_or_gzipped
from traube.tasks.source import Source
from traube.tasks.splitting import random_fractions
from traube.tasks.task import Declared, TaskCard

Kind = Literal["s2s", "p2p"]

SPLITS = 10
PARTS = ("train.csv", "test.csv")  # upstream's classification task; for clustering they are one collection
TEXTS: dict[Kind, str] = {"s2s": "titles", "p2p": "whole articles"}
CATEGORIES = {"Etat", "Inland", "International", "Kultur", "Panorama", "Sport", "Web", "Wirtschaft", "Wissenschaft"}


class TenKGnad(Source):
    """The title of each article (s2s), or title, sub-headline and body (p2p).

    The csv files of 10kGNAD hold sub-headline and body, and no titles. The One Million Posts corpus, from which they
    were made, has them: where its database is there, both tasks are read from it.
    """

    def __init__(self, kind: Kind) -> None:
        csv = " or https://github.com/tblock/10kGNAD (train.csv and test.csv)"
        card = TaskCard(
            name=f"tenkgnad_{kind}",
            family="german",
            description=f"Ten random samples of German news articles ({TEXTS[kind]}) in nine categories.",
            language="de",
            licence="CC BY-NC-SA 4.0",
            citation="wehrli2023german, schabus2017million",
            source=f"https://ofai.github.io/million-post-corpus/ (corpus.sqlite3){csv if kind == 'p2p' else ''}",
            # Bounds, from a tenth of the test part to all articles: either part may be absent.
            declared=Declared(splits=SPLITS, rows=(103, 10_400), classes=(9, 9)),
        )
        super().__init__(card)
        self.kind = kind

    def files(self) -> list[Path]:
        database = raw() / "one_million_posts" / "corpus.sqlite3"
        csv = [plain_or_gzipped(raw() / "10kgnad" / part) for part in PARTS]
        there = [p for p in csv if p.is_file()]  # samples can be drawn from either alone
        return [database] if self.kind == "s2s" or database.is_file() else there or csv

    def missing(self) -> str | None:
        reason = super().missing()
        return f"{reason}; the csv files of 10kGNAD hold no titles" if reason and self.kind == "s2s" else reason

    def read(self) -> pd.DataFrame:
        path, *others = self.files()
        if path.suffix != ".sqlite3":
            records = [row for file in (path, *others) for _, row in csv_rows(file, separator=";", quote="'", width=2)]
            return pd.DataFrame(records, columns=["category", "text"])[["text", "category"]]

        query = "SELECT Path, Title, Body FROM Articles WHERE Path LIKE 'Newsroom/%' ORDER BY Path"
        try:
            with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) as database:
                rows = database.execute(query).fetchall()
        except sqlite3.Error as error:
            raise TraubeError(f"{path}: not the database of the One Million Posts corpus ({error})") from None
        kept = []
        for place, title, body in rows:
            page = _Text()
            page.feed(body or "")
            page.close()
            category, title = place.split("/")[1], " ".join((title or "").split())
            text = " ".join(" ".join(page.pieces).split())
            if category in CATEGORIES and title and text:
                kept.append((title, f"{title} {text}", category))
        articles = pd.DataFrame(kept, columns=["s2s", "p2p", "category"]).drop_duplicates(ignore_index=True)
        return articles.rename(columns={self.kind: "text"})[["text", "category"]]

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Ten random samples of at least a tenth of the articles."""
        return pd.concat(random_fractions(records, SPLITS, "category", prefix="sample"), ignore_index=True)


class _Text(HTMLParser):
    """Collects what people read of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if self._hidden <= 0:
            self.pieces.append(data)


def sources() -> list[Source]:
    return [TenKGnad(kind) for kind in TEXTS]
