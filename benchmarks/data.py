"""The splits that the benchmarks run on: 28, drawn as the German Text Embedding Clustering Benchmark draws its Blurbs."""

import gzip
import re
from collections import Counter
from pathlib import Path

import pandas as pd

from traube import paths
from traube.task import Task, TaskCard, index_texts
from traube.tasks import get_source
from traube.tasks.splitting import everything, generator, random_fractions, shuffled

BLURBS = "germeval2019_task1/blurbs_dev.txt.gz"
DRAWN, WITHIN = 10, 8
PYDOCS_TEXTS = 2_000

# The file looks like XML and is none: `&` stands unescaped.
BOOK = re.compile(r"<book\b.*?</book>", re.S)
TITLE = re.compile(r"<title>(.*?)</title>", re.S)
TOPIC = re.compile(r'<topic d="([01])"[^>]*>(.*?)</topic>', re.S)


def load() -> tuple[str, Task]:
    """The benchmark's data in words, and its task: book titles if they are there, else docstrings."""
    path = paths.raw() / BLURBS
    if path.is_file():
        return "GermEval 2019 blurbs (dev), titles", make_task("blurbs_titles", read_blurbs(path))
    return f"{PYDOCS_TEXTS:,} docstring summaries of Python packages", make_task("docstrings", read_pydocs())


def read_blurbs(path: Path) -> pd.DataFrame:
    """Books with one genre and one or two subgenres, as in the benchmark: `text` (the title), `coarse` and `fine`.

    Of two subgenres the rarer one is taken.
    """
    books = [_read_book(match.group()) for match in BOOK.finditer(gzip.decompress(path.read_bytes()).decode())]
    count = Counter(subgenre for _, _, subgenres in books for subgenre in subgenres)
    rows = [
        (title, next(iter(genres)), min(sorted(subgenres), key=count.__getitem__))
        for title, genres, subgenres in books
        if title and len(genres) == 1 and 1 <= len(subgenres) <= 2
    ]
    return pd.DataFrame(rows, columns=["text", "coarse", "fine"])


def _read_book(book: str) -> tuple[str, set[str], set[str]]:
    """Title, genres and subgenres."""
    title = TITLE.search(book)
    topics = TOPIC.findall(book)
    genres, subgenres = ({name.strip() for depth, name in topics if depth == d} for d in "01")
    return " ".join(title.group(1).split()) if title else "", genres, subgenres


def read_pydocs() -> pd.DataFrame:
    """Some of the records of pydocs_s2s_full."""
    records = get_source("pydocs_s2s_full").read()
    return records.iloc[sorted(shuffled(len(records), generator("vs_mteb"))[:PYDOCS_TEXTS])]


def make_task(name: str, records: pd.DataFrame) -> Task:
    """Ten random shares labelled `coarse`, ten labelled `fine`, and the eight largest coarse classes labelled `fine`."""
    corpus, indexed = index_texts(records)
    coarse = random_fractions(indexed, DRAWN, "coarse", prefix="coarse")
    fine = random_fractions(indexed, DRAWN, "fine", prefix="fine")
    classes = indexed.groupby("coarse", sort=False)["fine"].agg(["size", "nunique"])
    largest = classes[classes["nunique"] >= 2].sort_values("size", ascending=False, kind="stable").index[:WITHIN]
    within = [everything(indexed[indexed["coarse"] == c], f"within_{i}", "fine") for i, c in enumerate(largest)]
    return Task(TaskCard(name=name), corpus, pd.concat([*coarse, *fine, *within], ignore_index=True))
