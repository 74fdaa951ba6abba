"""Blurbs: German books by genre, from GermEval 2019 Task 1, drawn as the German benchmark draws them (section 2.2).

`coarse` is a book's top genre, `fine` its second-level genre. A text is a title (`blurbs_s2s`), or a title and its
blurb (`blurbs_p2p`); both tasks hold the same books in the same splits.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
from typing_extensions import override

from traube._core.errors import Malformed
from traube._core.paths import raw
from traube.papers.german import TASKS
from traube.tasks._reading import find_file, read_text
from traube.tasks._source import Source, catalogue_card
from traube.tasks._splitting import draw_fractions, split_whole
from traube.tasks._task import TaskCard

Kind = Literal["s2s", "p2p"]

FOLDER = "germeval2019_task1"
FILES = ("blurbs_train.txt", "blurbs_dev.txt", "blurbs_test.txt")  # of a classification task; here one collection
DRAWN = 10  # splits by top genre, and as many by second-level genre

# The files look like XML and are not: `&` stands for itself, and so may `<`. Tags are recognized by their names.
BOOK = re.compile(r"<book\b[^>]*>(.*?)</book>", re.S)
TOPIC = re.compile(r'<topic d="(\d)"[^>]*>(.*?)</topic>', re.S)


@dataclass(frozen=True)
class Book:
    """A book as a file describes it."""

    title: str
    blurb: str
    top: tuple[str, ...]  # names of its genres, each once
    second: tuple[str, ...]  # of those one level below

    @property
    def whole(self) -> str:
        """Title and blurb."""
        return f"{self.title} {self.blurb}".strip()


class Blurbs(Source):
    """Titles, or titles and blurbs, of the books that have one top genre and one or two second-level genres."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(catalogue_card(TASKS, f"blurbs_{kind}", TaskCard))
        self.kind = kind

    def files(self) -> list[Path]:
        """Return the labeled subsets that exist: splits can be drawn from any of them."""
        paths = [find_file(raw() / FOLDER / subset) for subset in FILES]
        return [p for p in paths if p.is_file()] or paths

    @override
    def read(self) -> pd.DataFrame:
        rows = select_books([book for path in self.files() for book in read_books(path)])
        return rows.assign(text=rows["title"] if self.kind == "s2s" else rows["whole"])[["text", "coarse", "fine"]]

    def read_unlabeled(self) -> list[str]:
        """Return the books whose genres were not published; none if their file is absent."""
        path = find_file(raw() / FOLDER / "blurbs_test_nolabel.txt")
        books = [book for book in read_books(path) if book.title] if path.is_file() else []
        return [book.title if self.kind == "s2s" else book.whole for book in books]

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Draw the splits of the German benchmark.

        These are ten random shares by top genre, each top genre by second-level genre, and ten shares by second-level
        genre.
        """
        coarse = draw_fractions(records, DRAWN, "coarse", prefix="coarse")
        fine = draw_fractions(records, DRAWN, "fine", prefix="fine")
        genres = records.groupby("coarse")["fine"].nunique()
        within = []
        for genre in genres.index[genres >= 2]:
            slug = re.sub(r"\W+", "_", genre.lower()).strip("_")
            within.append(split_whole(records[records["coarse"] == genre], f"within_{slug}", "fine"))
        return pd.concat([*coarse, *within, *fine], ignore_index=True)


def read_books(path: Path) -> Iterator[Book]:
    """Yield the books of a file."""
    text = read_text(path)
    whole = {match.start(): match[1] for match in BOOK.finditer(text)}
    for begun in re.finditer(r"<book\b", text):
        content = whole.get(begun.start())
        if content is None or "<book " in content:
            fault = "has no </book>"
        elif not (title := re.search("<title>(.*?)</title>", content, re.S)):
            fault = "has no <title>"
        elif not (body := re.search("<body>(.*?)</body>", content, re.S)):
            fault = "has no <body>"
        else:
            genres: dict[str, list[str]] = {"0": [], "1": []}  # by depth
            for depth, name in TOPIC.findall(content):
                genres.setdefault(depth, []).append(_clean(name))
            top, second = (tuple(dict.fromkeys(genres[depth])) for depth in "01")
            yield Book(_clean(title[1]), _clean(body[1]), top, second)
            continue
        line = text.count("\n", 0, begun.start()) + 1
        raise Malformed(f"{path}:{line}: the book that begins here {fault}")


def _clean(text: str) -> str:
    """Return a text in one line, without soft hyphens, which only mark where a word may be broken."""
    return " ".join(html.unescape(text).replace("\xad", "").split())


def select_books(all_books: list[Book]) -> pd.DataFrame:
    """Return the books with one top genre and one or two second-level ones.

    The columns are title, whole (title and blurb), coarse and fine.

    Of two second-level genres, the one that fewer books have counts.
    """
    frequency = Counter(genre for book in all_books for genre in book.second)
    rows = []
    for book in all_books:
        if len(book.top) == 1 and len(book.second) in (1, 2) and book.title:
            fine = min(book.second, key=lambda genre: (frequency[genre], genre))
            rows.append((book.title, book.whole, book.top[0], fine))
    return pd.DataFrame(rows, columns=["title", "whole", "coarse", "fine"])


def sources() -> list[Source]:
    """Return the tasks of blurbs: titles, and whole texts."""
    return [Blurbs("s2s"), Blurbs("p2p")]
