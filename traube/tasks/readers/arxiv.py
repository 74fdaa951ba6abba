"""Abstracts of arXiv by subtopic: a subject is a split, its title the query (QS3M, section 5).

Each subject's abstracts are divided into two folds with the same share of every subtopic. In the
split set `default` the first fold is scored and the second trained on, in `fold_2` the other way
round. The first tenth of the fold that is trained on validates; QS3M trains on it too.

The files are JSONL with `subject`, `subtopic` and `abstract`. An abstract that occurs again is left
out: it would be in both folds, or in two subjects.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from traube.core.errors import TraubeError, unknown
from traube.core.paths import raw
from traube.tasks.reading import Rows, plain_or_gzipped, read_rows
from traube.tasks.source import Source
from traube.tasks.task import Declared, TaskCard, make_split

SUBJECTS = {
    "astro-ph": "Astrophysics",
    "cond-mat": "Condensed Matter",
    "eess": "Electrical Engineering and Systems",
    "nlin": "Nonlinear Systems",
    "q-bio": "Quantitative Biology",
    "q-fin": "Quantitative Finance",
    "stat": "Statistics",
}
COLUMNS = ("subject", "subtopic", "abstract")
SPLIT_SETS = ("default", "fold_2")


class ArxivSubjects(Source):
    """One file of abstracts."""

    has_training_splits = True

    def __init__(self, card: TaskCard, file: str) -> None:
        super().__init__(card)
        self.file = file

    def files(self) -> list[Path]:
        return [plain_or_gzipped(raw() / "arxiv" / self.file)]

    def read(self) -> pd.DataFrame:
        rows = read_rows(self.files()[0])
        table = {name: _filled(rows, name) for name in COLUMNS}
        for subject, place in zip(table["subject"], rows.places, strict=True):
            if subject not in SUBJECTS:
                raise TraubeError(f"{place}: {unknown('subject', subject, SUBJECTS)}")
        found = pd.DataFrame(table, dtype="str").rename(columns={"abstract": "text"})
        found = found.assign(text=found["text"].str.strip(), query=found["subject"].map(SUBJECTS))
        return found.drop_duplicates("text", ignore_index=True)

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Two split sets of a test, a train and a validation split for each subject."""
        splits = []
        for subject, rows in records.groupby("subject", sort=False):
            folds = _folds(rows, f"{self._where()}: subject '{subject}'")
            for name, scored, learnt in zip(SPLIT_SETS, folds, reversed(folds), strict=True):
                tenth = len(learnt) // 10
                splits += [
                    make_split(scored, str(subject), "subtopic", label="subtopic", split_set=name),
                    make_split(
                        learnt[:tenth], f"{subject} (validation)", "subtopic",
                        label="subtopic", part="validation", split_set=name,
                    ),
                    make_split(
                        learnt[tenth:], f"{subject} (train)", "subtopic",
                        label="subtopic", part="train", split_set=name,
                    ),
                ]  # fmt: skip
        return pd.concat(splits, ignore_index=True)


def _filled(rows: Rows, name: str) -> list[str]:
    values = rows.texts(name)
    for value, place in zip(values, rows.places, strict=True):
        if not value or not value.strip():
            raise TraubeError(f"{place}: {name} is empty")
    return [str(value) for value in values]


def _folds(rows: pd.DataFrame, where: str) -> list[pd.DataFrame]:
    """Two halves of a subject's abstracts, stratified by subtopic, in file order."""
    from sklearn.model_selection import StratifiedKFold

    rarest = rows["subtopic"].value_counts().tail(1)
    if rarest.iloc[0] < 2:
        raise TraubeError(f"{where}: there is one abstract only of subtopic '{rarest.index[0]}'; two folds need two")
    return [rows.iloc[fold] for _, fold in StratifiedKFold(2).split(np.empty(len(rows)), rows["subtopic"])]


def sources() -> list[Source]:
    paper = _card("arxiv_subjects", "500 abstracts of arXiv from each of seven subjects", (249, 250))
    pool = _card(
        "arxiv_subjects_full", "Up to 500 abstracts of arXiv from each subtopic of seven subjects", (900, 2500)
    )
    return [
        ArxivSubjects(paper, "arxiv_qs3m_like_7x500.jsonl"),
        ArxivSubjects(pool, "arxiv_pool_500_per_subtopic.jsonl"),
    ]


def _card(name: str, what: str, rows: tuple[int, int]) -> TaskCard:
    return TaskCard(
        name=name,
        family="qs3m",
        description=f"{what}, by subtopic, for the subject's title as query; two folds.",
        language="en",
        licence="CC0 (arXiv's metadata)",
        citation="Kashyapi & Dietz, Query-specific Subtopic Clustering (JCDL 2022); Geiger, arXiv archive (2019)",
        source="https://github.com/staeiou/arxiv_archive (DOI 10.5281/zenodo.1463242), as JSONL of subject, subtopic, abstract",
        main_metric="ari/noise_as_cluster",
        declared=Declared(splits=len(SUBJECTS), rows=rows, classes=(4, 10)),
    )
