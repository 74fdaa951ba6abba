"""10kGNAD: articles of the Austrian newspaper Der Standard in nine categories, as the German benchmark draws them."""

import sqlite3
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pandas as pd
from typing_extensions import override

from traube._core.errors import Malformed
from traube._core.paths import raw
from traube.papers.german import TASKS
from traube.tasks.reading import find_file, read_csv
from traube.tasks.source import Source, catalogue_card
from traube.tasks.splitting import draw_fractions
from traube.tasks.task import TaskCard

Kind = Literal["s2s", "p2p"]

SPLITS = 10
FILES = ("train.csv", "test.csv")  # upstream's classification task; for clustering they are one collection
CATEGORIES = {"Etat", "Inland", "International", "Kultur", "Panorama", "Sport", "Web", "Wirtschaft", "Wissenschaft"}


class TenKGnad(Source):
    """The title of each article (s2s), or title, sub-headline and body (p2p).

    The csv files of 10kGNAD hold sub-headline and body, and no titles. The One Million Posts corpus, from which they
    were made, has them: where its database is there, both tasks are read from it.
    """

    def __init__(self, kind: Kind) -> None:
        super().__init__(catalogue_card(TASKS, f"tenkgnad_{kind}", TaskCard))
        self.kind = kind

    @override
    def files(self) -> list[Path]:
        database = raw() / "one_million_posts" / "corpus.sqlite3"
        csv = [find_file(raw() / "10kgnad" / subset) for subset in FILES]
        there = [p for p in csv if p.is_file()]  # samples can be drawn from either alone
        return [database] if self.kind == "s2s" or database.is_file() else there or csv

    @override
    def missing(self) -> str | None:
        reason = super().missing()
        return f"{reason}; the csv files of 10kGNAD hold no titles" if reason and self.kind == "s2s" else reason

    @override
    def read(self) -> pd.DataFrame:
        path, *others = self.files()
        if path.suffix != ".sqlite3":
            records = [row for file in (path, *others) for _, row in read_csv(file, separator=";", quote="'", width=2)]
            return pd.DataFrame(records, columns=["category", "text"])[["text", "category"]]

        query = "SELECT Path, Title, Body FROM Articles WHERE Path LIKE 'Newsroom/%' ORDER BY Path"
        try:
            with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) as database:
                rows = database.execute(query).fetchall()
        except sqlite3.Error as error:
            raise Malformed(f"{path}: not the database of the One Million Posts corpus ({error})") from None
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
        """Draw ten random samples of at least a tenth of the articles."""
        return pd.concat(draw_fractions(records, SPLITS, "category", prefix="sample"), ignore_index=True)


class _Text(HTMLParser):
    """Parser that collects the visible text of a page."""

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
    """Return the tasks of 10kGNAD: titles, and whole texts."""
    return [TenKGnad("s2s"), TenKGnad("p2p")]
