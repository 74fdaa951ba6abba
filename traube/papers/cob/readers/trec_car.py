"""TREC CAR as COB uses it: the passages of a Wikipedia article, a split, grouped by its sections."""

from pathlib import Path
from typing import Literal

import pandas as pd
from typing_extensions import override

from traube.papers.cob import TASKS
from traube.tasks.source import Source, catalogue_card
from traube.tasks.splitting import make_rng, shuffle, split_by_value
from traube.tasks.task import Subset, TaskCard
from traube.tasks.trec_car import CAR_B, TRAIN, draw_subsets, find_first, read_passages

Level = Literal["coarse", "fine"]

LEVELS: tuple[Level, ...] = ("coarse", "fine")  # the top section; the whole path of sections
SIZES = (30, 35, 40)  # passages of the articles that are trained on (section 4.4.2)
VALIDATION_PAGES = 25


class TrecCar(Source):
    """Benchmark Y1 of TREC CAR as the paper uses it.

    Articles of train.v2.0 with 30, 35 or 40 passages are for training, 25 of benchmarkY1-train for validation, and
    benchmarkY1-test for scoring.

    The training articles are optional: without them the task can be scored, not trained on.
    """

    has_training_splits = True

    def __init__(self, name: str, level: Level) -> None:
        super().__init__(catalogue_card(TASKS, f"{name}_{level}", TaskCard))
        self.level = level

    @override
    def files(self) -> list[Path]:
        test = find_first("benchmarkY1-test/test.pages.cbor", "benchmarkY1-test/test.pages.cbor-paragraphs.cbor")
        return [test, *(path for path in self._optional().values() if path.is_file())]

    def _optional(self) -> dict[Subset, Path]:
        return {"train": find_first(*TRAIN), "validation": find_first(CAR_B)}

    @override
    def read(self) -> pd.DataFrame:
        tables = [read_passages(self.files()[0]).assign(part="test")]
        # an article of several files is tested, or else validated: the training files are of the same Wikipedia
        for subset, path in reversed(self._optional().items()):
            if not path.is_file():
                continue
            seen = {page for earlier in tables for page in earlier["page"].unique()}
            unseen = read_passages(path)
            unseen = unseen[~unseen["page"].isin(seen)]
            if subset == "train":  # of both levels the same articles
                unseen = _clusterable(unseen, "coarse")
                chosen = unseen.groupby("page")["text"].transform("size").isin(SIZES)
            else:
                pages = _clusterable(unseen, self.level)["page"].unique()
                drawn = shuffle(len(pages), make_rng("benchmarkY1-train"))[:VALIDATION_PAGES]
                chosen = unseen["page"].isin({pages[i] for i in drawn})
            tables.append(unseen[chosen].assign(part=subset))
        return _clusterable(pd.concat(tables, ignore_index=True), self.level)

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return a split for each article."""
        return split_by_value(records, "page", self.level)


class Test200(TrecCar):
    """The 200 articles that TREC CAR published as a sample, with random subsets: half trains, an eighth validates."""

    @override
    def files(self) -> list[Path]:
        return [find_first("test200/train.test200.cbor")]

    @override
    def read(self) -> pd.DataFrame:
        records = _clusterable(read_passages(self.files()[0]), self.level)
        return records.assign(part=draw_subsets(records["page"]))


def _clusterable(records: pd.DataFrame, level: Level) -> pd.DataFrame:
    """Return the passages of the articles that are a clustering problem: they have two groups or more."""
    return records[records.groupby("page")[level].transform("nunique") >= 2].reset_index(drop=True)


def sources() -> list[Source]:
    """Return TREC CAR's benchmark and test200, by each level of headings."""
    return [*(TrecCar("trec_car", level) for level in LEVELS), *(Test200("car_test200", level) for level in LEVELS)]
