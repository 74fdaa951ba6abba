"""Labeled texts that are grouped as if they had no labels, by name.

`TUNED` are the nine that the default of `traube cluster` was worked out on. Of `OTHERS`, too, some were looked at when the
window over numbers of clusters was chosen, so none is wholly untouched.
Raw data: TRAUBE_RAW (see `traube tasks`).
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from traube._core import paths
from traube._pipeline.workbench import Workbench
from traube.models import load_model
from traube.models.vectors import Dense
from traube.tasks import get_source

MOST = 3_000  # texts, drawn at random


@dataclass(frozen=True)
class LabeledSet:
    """Texts and their gold labels."""

    name: str
    texts: list[str]
    labels: list[str]

    @property
    def classes(self) -> int:
        return len(set(self.labels))

    def vectors(self, model: str = "minilm") -> Dense:
        """Theirs by a model, float32 [n, d]; kept in TRAUBE_HOME."""
        loaded = load_model(model, precision="auto")
        return np.asarray(Workbench.at(paths.home()).vectors_of_texts(self.texts, loaded).load(), dtype=np.float32)


def _of_task(task: str, label: str, most: int = MOST) -> Callable[[], pd.DataFrame]:
    return lambda: _drawn(get_source(task).read().rename(columns={label: "label"}), most)


def _drawn(records: pd.DataFrame, most: int) -> pd.DataFrame:
    records = records[records["text"].str.strip() != ""].drop_duplicates("text")
    return records.sample(min(most, len(records)), random_state=0).sort_index()[["text", "label"]]


def _newsgroups() -> pd.DataFrame:
    """Of 17 of the 20 groups, without those that hold little but offers and religion's two smaller ones."""
    records = get_source("newsgroups").read().rename(columns={"newsgroup": "label"})
    left_out = {"misc.forsale", "talk.religion.misc", "alt.atheism"}
    return _drawn(records[~records["label"].isin(left_out)], 2_000)


def _few_classes(task: str, label: str, classes: int, most: int) -> Callable[[], pd.DataFrame]:
    def read() -> pd.DataFrame:
        records = get_source(task).read().rename(columns={label: "label"})
        names = np.random.default_rng(0).choice(sorted(records["label"].unique()), classes, replace=False)
        return _drawn(records[records["label"].isin(names)], most)

    return read


def _arxiv_titles(label: str) -> Callable[[], pd.DataFrame]:
    def read() -> pd.DataFrame:
        path = paths.raw() / "arxiv" / "arxiv_qs3m_like_7x500.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as file:
            records = pd.DataFrame([json.loads(line) for line in file])
        records["subtopic"] = records["subject"] + "." + records["subtopic"]
        return _drawn(records.rename(columns={"title": "text", label: "label"}), MOST)

    return read


def _articles(count: int) -> Callable[[], pd.DataFrame]:
    """Passages of Wikipedia by their article."""

    def read() -> pd.DataFrame:
        path = paths.raw() / "trec_car" / "test200" / "passages.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as file:
            records = pd.DataFrame([json.loads(line) for line in file]).rename(columns={"page": "label"})
        return _drawn(records[records["label"].isin(sorted(records["label"].unique())[:count])], MOST)

    return read


TUNED: dict[str, Callable[[], pd.DataFrame]] = {
    "tenkgnad": _of_task("tenkgnad_p2p", "category"),
    "blurbs_genre": _of_task("blurbs_p2p", "coarse"),
    "agnews": _of_task("agnews", "topic"),
    "searchsnippets": _of_task("searchsnippets", "topic"),
    "stackoverflow": _of_task("stackoverflow", "topic"),
    "biomedical": _of_task("biomedical", "topic"),
    "newsgroups_17": _newsgroups,
    "tweet": _of_task("tweet", "topic"),
    "googlenews_t": _of_task("googlenews_t", "topic"),
}
OTHERS: dict[str, Callable[[], pd.DataFrame]] = {
    "pydocs": _of_task("pydocs_s2s", "coarse"),
    "arxiv_titles": _arxiv_titles("subject"),
    "arxiv_titles_fine": _arxiv_titles("subtopic"),
    "blurb_titles_genre": _of_task("blurbs_s2s", "coarse"),
    "googlenews_s": _of_task("googlenews_s", "topic"),
    "car_30_articles": _articles(30),
    "car_articles": _articles(198),
    "stackoverflow_5": _few_classes("stackoverflow", "topic", 5, 1_000),
    "stackoverflow_all": _of_task("stackoverflow", "topic", 20_000),
    "agnews_200": _of_task("agnews", "topic", 200),
    "searchsnippets_200": _of_task("searchsnippets", "topic", 200),
    "stackoverflow_200": _few_classes("stackoverflow", "topic", 6, 200),
}


def load(name: str) -> LabeledSet:
    """The set of a name."""
    records = (TUNED | OTHERS)[name]()
    return LabeledSet(name, records["text"].tolist(), records["label"].tolist())
