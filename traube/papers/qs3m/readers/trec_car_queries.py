"""TREC CAR as QS3M uses it: an article's title is a query, its sections the subtopics.

An article's passages are the results found for the query. See `traube.tasks._sections` for labels, split sets and what
is left out.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from pathlib import Path

import numpy as np
import pandas as pd
from typing_extensions import override

from traube.papers.qs3m import TASKS
from traube.tasks._sections import LEVELS, Level, Page, Passage, draw, get_path, make_records, select_passages
from traube.tasks._source import Source, catalogue_card
from traube.tasks._splitting import make_rng, shuffle
from traube.tasks._task import TaskCard, text_id
from traube.tasks._trec_car import CAR_B, TRAIN, draw_subsets, find_first, read_articles

TRAINING_ARTICLES = 162_000  # of QS3M's similarity metric, section 4


class CarB(Source):
    """The articles of benchmarkY1-train, all to be scored: QS3M trains nothing of them."""

    place = CAR_B

    def __init__(self, name: str, level: Level) -> None:
        super().__init__(catalogue_card(TASKS, f"{name}_{level}", TaskCard))
        self.level = level

    @override
    def files(self) -> list[Path]:
        return [find_first(self.place, f"{self.place}-paragraphs.cbor")]

    @override
    def read(self) -> pd.DataFrame:
        path = self.files()[0]
        return make_records(_pages(read_articles(path)), self.level, path)

    @override
    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        return draw(records, self.level)


class CarA(CarB):
    """The articles of benchmarkY1-test, with those of train.v2.0 to train on.

    The latter are optional: without them the task can be scored, not trained on.
    """

    has_training_splits = True
    place = "benchmarkY1-test/test.pages.cbor"

    @override
    def files(self) -> list[Path]:
        optional = find_first(*TRAIN), find_first(CAR_B)
        return [*super().files(), *(path for path in optional if path.is_file())]

    def read(self) -> pd.DataFrame:
        """Return three passages of each training article, as QS3M takes them; a tenth of the articles validates."""
        tested, train = super().read(), find_first(*TRAIN)
        if train not in self.files():
            return tested
        unseen = [file for file in self.files() if file != train]
        held_out = {passage.page for file in unseen for article in read_articles(file) for passage in article}
        chosen = nsmallest(
            TRAINING_ARTICLES,
            (triple for page in read_articles(train) if (triple := _triple(page, self.level, held_out))),
            key=lambda page: text_id(page[0].page),  # as good as random
        )
        tenth = len(chosen) // 10
        validated = make_records(_pages(chosen[:tenth]), self.level, train, "validation")
        trained = make_records(_pages(chosen[tenth:]), self.level, train, "train")
        return pd.concat([tested, validated, trained], ignore_index=True)


class Test200(CarB):
    """The public sample of 198 articles, with COB's subsets (`trec_car`).

    No article has a text before its first section, so there are no descriptions. The split sets `fold_1` to `fold_5`
    test a fifth of the articles each; a tenth validates.
    """

    has_training_splits = True
    place = "test200/train.test200.cbor"

    @override
    def read(self) -> pd.DataFrame:
        passages = super().read()
        return passages.assign(part=draw_subsets(passages["page"]))

    @override
    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        names = records["page"].drop_duplicates().to_numpy()
        order = shuffle(len(names), make_rng("folds of test200"))
        tables = [records]
        for fold in range(5):
            rest = [i for place, i in enumerate(order) if place % 5 != fold]
            drawn = np.full(len(names), "train", dtype=object)
            drawn[order[fold::5]], drawn[rest[: len(names) // 10]] = "test", "validation"
            subsets = records["page"].map(dict(zip(names, drawn, strict=True)))
            tables.append(records.assign(split_set=f"fold_{fold + 1}", part=subsets))
        return draw(pd.concat(tables, ignore_index=True), self.level)


def _pages(articles: Iterable[list[Passage]]) -> Iterator[Page]:
    return (Page(passages[0].page, passages[0].page, passages) for passages in articles if passages)


def _triple(page: list[Passage], level: Level, held_out: set[str]) -> list[Passage]:
    """Return an article's lead and three random passages, two of one section.

    The result is empty if there are no such passages, or the article is held out.
    """
    if not page or page[0].page in held_out:
        return []
    passages = select_passages(page)
    passages = [passages[i] for i in shuffle(len(passages), make_rng(page[0].page))]
    sections: dict[tuple[str, ...], list[Passage]] = {}
    for passage in passages:
        sections.setdefault(get_path(passage, level), []).append(passage)
    for path, two in sections.items():
        # of no section above or below the two: whether it is of the same subtopic would be a matter of opinion
        related = {other for other in sections if other[: len(path)] == path[: len(other)]}
        others = [passage for passage in passages if get_path(passage, level) not in related]
        if len(two) >= 2 and others:
            return [*(p for p in page if not p.sections), *two[:2], others[0]]
    return []


def sources() -> list[Source]:
    """Return the tasks of TREC CAR with queries, by each level of headings."""
    kinds = ((CarA, "trec_car"), (CarB, "trec_car_b"), (Test200, "car_test200"))
    return [source(name, level) for level in LEVELS for source, name in kinds]
