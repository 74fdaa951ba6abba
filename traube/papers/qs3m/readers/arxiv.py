"""Abstracts of arXiv by subtopic: a subject is a split, its title the query (QS3M, section 5)."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd
from typing_extensions import override

from traube._core.errors import Malformed, TooFew, Unknown, unknown
from traube._core.frames import TEXT
from traube._core.paths import raw
from traube.papers.qs3m import TASKS
from traube.tasks.reading import find_file, read_rows
from traube.tasks.source import Source, catalogue_card
from traube.tasks.task import Subset, TaskCard, make_split

SUBJECTS = {
    "astro-ph": "Astrophysics",
    "cond-mat": "Condensed Matter",
    "eess": "Electrical Engineering and Systems",
    "nlin": "Nonlinear Systems",
    "q-bio": "Quantitative Biology",
    "q-fin": "Quantitative Finance",
    "stat": "Statistics",
}
POOL = "arxiv_pool_500_per_subtopic.jsonl"
SEED = 42


class ArxivSubjects(Source):
    """One file of abstracts: JSONL with `subject`, `subtopic` and `abstract`."""

    has_training_splits = True
    version = "3"

    def __init__(self, name: str, file: str, without: Collection[str] = ()) -> None:
        super().__init__(catalogue_card(TASKS, name, TaskCard))
        self.file, self.without = file, without  # subtopics that are left out, such as eess.SY

    @override
    def files(self) -> list[Path]:
        # others of the pool stand in for what is left out
        return [find_file(raw() / "arxiv" / name) for name in (self.file, *([POOL] if self.without else []))]

    @override
    def read(self) -> pd.DataFrame:
        """Return the abstracts; where subtopics are left out, as many others of the subject are drawn from the pool."""
        sample, *pool = (self._read(file) for file in self.files())
        kept = sample[~self._is_left_out(sample)]
        if pool and len(kept) < len(sample):
            others = pool[0][~self._is_left_out(pool[0]) & ~pool[0]["text"].isin(sample["text"])]
            missing = sample["subject"].value_counts() - kept["subject"].value_counts()
            kept = pd.concat(
                self._refill(rows, others[others["subject"] == subject], missing[subject])
                for subject, rows in kept.groupby("subject", sort=False)
            )
        kept = kept.assign(query=kept["subject"].map(SUBJECTS))
        return kept.drop_duplicates("text", ignore_index=True)  # it would be in both folds, or in two subjects

    def _refill(self, rows: pd.DataFrame, others: pd.DataFrame, number: int) -> pd.DataFrame:
        """Add a number of others to a subject's abstracts, in the shares that its subtopics have, and shuffle.

        What rounding leaves goes to the largest remainders.
        """
        if not number:
            return rows
        wanted = rows["subtopic"].value_counts(normalize=True) * number
        counts = wanted.astype(int)
        counts[(wanted - counts).nlargest(number - counts.sum()).index] += 1
        drawn = [rows]
        for name, count in counts.items():
            some = others[others["subtopic"] == name]
            if len(some) < count:
                subject = f"subject '{rows['subject'].iloc[0]}'"
                fault = f"{len(some)} other abstracts of subtopic '{name}'; {count} are needed for what is left out"
                raise TooFew(f"{self.files()[1]}: {subject}: {fault}")
            drawn.append(some.sample(count, random_state=SEED))
        return pd.concat(drawn).sample(frac=1, random_state=SEED)

    def _is_left_out(self, rows: pd.DataFrame) -> pd.Series:
        return (rows["subject"] + "." + rows["subtopic"]).isin(self.without)

    def _read(self, file: Path) -> pd.DataFrame:
        """Read subject, subtopic and text of a file of abstracts."""
        rows = read_rows(file)
        table = {}
        for name in ("subject", "subtopic", "abstract"):
            table[name] = rows.texts(name)
            for value, place in zip(table[name], rows.places, strict=True):
                if not value or not value.strip():
                    raise Malformed(f"{place}: {name} is empty")
        for subject, place in zip(table["subject"], rows.places, strict=True):
            if subject not in SUBJECTS:
                raise Unknown(f"{place}: {unknown('subject', str(subject), SUBJECTS)}")
        frame = pd.DataFrame(table, dtype=TEXT).rename(columns={"abstract": "text"})
        return frame.assign(text=frame["text"].str.strip())

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return two split sets of a test, a train and a validation split for each subject.

        A subject's abstracts, in file order, are two folds with the same share of every subtopic. In the split set
        `default` the first is scored and the second trained on, in `fold_2` the other way round. The first tenth of the
        fold that is trained on validates; QS3M trains on it too.
        """
        from sklearn.model_selection import StratifiedKFold

        splits = []
        for subject, rows in records.groupby("subject", sort=False):
            rarest = rows["subtopic"].value_counts().tail(1)
            if rarest.iloc[0] < 2:
                fault = f"there is one abstract only of subtopic '{rarest.index[0]}'; two folds need two"
                raise TooFew(f"{self.files()[0]}: subject '{subject}': {fault}")
            folds = [rows.iloc[fold] for _, fold in StratifiedKFold(2).split(np.empty(len(rows)), rows["subtopic"])]
            for split_set, scored, learned in zip(("default", "fold_2"), folds, reversed(folds), strict=True):
                tenth = len(learned) // 10
                subsets: dict[Subset, pd.DataFrame] = {
                    "test": scored,
                    "validation": learned[:tenth],
                    "train": learned[tenth:],
                }
                for subset, chosen in subsets.items():
                    name = str(subject) if subset == "test" else f"{subject} ({subset})"
                    split = make_split(chosen, name, "subtopic", label="subtopic", subset=subset, split_set=split_set)
                    splits.append(split)
        return pd.concat(splits, ignore_index=True)


def sources() -> list[Source]:
    """Return the sources of the tasks of arXiv titles."""
    left_out = ("eess.SY",)  # as in the paper's table 3
    return [
        ArxivSubjects("arxiv_subjects", "arxiv_qs3m_like_7x500.jsonl", left_out),
        ArxivSubjects("arxiv_subjects_full", POOL),
    ]
