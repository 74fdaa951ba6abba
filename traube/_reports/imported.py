"""Rankings of imported leaderboards, from one score for each split, without replicates."""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from traube._reports.mteb_results import DEFAULT, TEST
from traube._storage import Storage
from traube.comparison._ranking import rank_by_splits
from traube.comparison._verdict import LEVEL
from traube.tasks._stored import get_card, read_task
from traube.tasks._task import Split

PAGE = "imported.html"


@dataclass(frozen=True)
class ImportedRanking:
    """A table of imported results."""

    task: str  # as its source calls it
    split: str  # of the task's data: "test", but for some tasks
    subsets: tuple[str, ...]  # over which scores are means: "default", or languages
    rows: pd.DataFrame  # the best first, with rank_low, rank_high and why: nan where `why` says that there is none
    splits: int  # over which models are compared
    ties: tuple[int, int]  # neighbors in the ranking that are tied, and how many neighbors there are
    first: int  # models that may be the best
    shared: float | None  # mean share of texts that two splits have in common; None where the texts are not here

    @property
    def title(self) -> str:
        """Return the task, and the split of its data unless that is the test split."""
        return self.task if self.split == TEST else f"{self.task}, {self.split}"

    @property
    def found(self) -> str:
        """Return a sentence on which ranks are ties."""
        if not self.splits:
            return "No result has a score for each split, so nothing says which ranks are ties."
        best = "1 model" if self.first == 1 else f"{self.first} models"
        return (
            f"{self.ties[0]} of {self.ties[1]} neighbors in rank are tied, and {best} may be the best (paired "
            f"t-tests over {self.splits} splits, corrected for all pairs)."
        )

    @property
    def basis(self) -> str:
        """Return sentences on what the ranking rests on."""
        sentences = []
        if len(self.subsets) > 1:
            more = f" and {len(self.subsets) - 5} more" if len(self.subsets) > 5 else ""
            names = ", ".join(self.subsets[:5]) + more
            sentences.append(f"A score is the mean over {len(self.subsets)} subsets of the data: {names}.")
        if self.splits and self.shared is None:
            sentences.append(
                "The texts of these splits are not here: splits count as independent, and where they share texts the "
                "ranks are narrower than the data allow."
            )
        elif self.splits and self.shared is not None:
            sentences.append(
                f"Two splits share {100 * self.shared:.0f} % of their texts on average; the tests allow for it."
            )
        return " ".join(sentences)


def rankings(storage: Storage, imported: pd.DataFrame) -> list[ImportedRanking]:
    """Rank the models on each task of imported results (`traube._reports.exchange.imported_results`)."""
    tables = imported.groupby(["task", "split"])
    return [_ranking(storage, str(task), str(split), rows) for (task, split), rows in tables]


def _ranking(storage: Storage, task: str, split: str, rows: pd.DataFrame) -> ImportedRanking:
    table = _average_subsets(rows)
    counts = table["splits"].map(len).to_numpy()
    # the largest group of results on the same number of splits of the same data, with one each
    keys = list(zip(table["subsets"], counts.tolist(), table["dataset_revision"], strict=True))
    given = Counter(key for key in keys if key[1] > 1)
    usual = max(given or keys, key=lambda key: (given[key], len(key[0])))
    comparable = np.array([key == usual and key in given for key in keys])
    other = table["subsets"] != usual[0]
    why = np.select([other, counts == 0], ["other subsets", "no score for each split"], "other splits or data")
    table = table.assign(rank_low=np.nan, rank_high=np.nan, why=why)
    # a mean over other subsets is no higher or lower than this one
    order = table.assign(other=other).sort_values(["other", "mean"], ascending=[True, False], kind="stable").index
    table, comparable = table.loc[order].reset_index(drop=True), comparable[order]
    if comparable.sum() < 2:
        return ImportedRanking(task, split, usual[0], table, 0, (0, 0), 0, None)
    values = np.array(table.loc[comparable, "splits"].tolist(), dtype=np.float64)
    has_one_subset = usual[0] == (DEFAULT,) and split == TEST
    shared = _shared(storage, task, values.shape[1]) if has_one_subset else None
    ranking = rank_by_splits(table.loc[comparable, "model"].tolist(), values, shared or 0.0)
    table.loc[comparable, ["rank_low", "rank_high"]] = ranking.ranks
    table.loc[comparable, "why"] = ""
    tied = np.diag(ranking.p, 1) >= LEVEL
    first = int((table["rank_low"] == 1).sum())
    return ImportedRanking(task, split, usual[0], table, values.shape[1], (int(tied.sum()), len(tied)), first, shared)


def _average_subsets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each model and revision: means over subsets, as MTEB makes them, also split by split.

    Revisions of a model are entries of their own, and so are other results that another source gives for it. The mean of
    each split over the subsets has the variance of the mean over these subsets, whatever they differ by. Subsets with
    different numbers of splits have no such means.
    """
    entries = []
    for _, subset_rows in rows.groupby(["model", "revision", "source"], sort=False):
        splits, sd = subset_rows["splits"].tolist(), subset_rows["sd"].iloc[0]
        if len(subset_rows) > 1:
            is_even = len({len(values) for values in splits}) == 1 and len(splits[0]) > 0
            averages = np.mean(splits, axis=0).tolist() if is_even else []
            splits, sd = [averages], float(np.std(averages)) if averages else np.nan
        subsets = tuple(sorted(map(str, subset_rows["subset"])))
        revisions = ", ".join(dict.fromkeys(map(str, subset_rows["dataset_revision"])))
        about = {"subsets": subsets, "mean": subset_rows["mean"].mean(), "sd": sd, "splits": list(splits[0])}
        entries.append({**subset_rows.iloc[0].to_dict(), **about, "dataset_revision": revisions})
    table = pd.DataFrame(entries)
    same = table.assign(splits=table["splits"].map(tuple))[["model", "revision", "subsets", "mean", "splits"]]
    table = table[~same.duplicated(keep="last")].reset_index(drop=True)
    return table.assign(model=_name_entries(table))


def _name_entries(table: pd.DataFrame) -> "pd.Series[str]":
    """Return the names of models, with the revision, or the source too, where that alone tells two entries apart."""
    revisions = table["revision"].str.slice(0, 12).replace("", "no revision")
    names = table["model"]
    for longer in (
        table["model"] + " (" + revisions + ")",
        table["model"] + " (" + revisions + ", " + table["source"] + ")",
    ):
        names = names.where(~names.duplicated(keep=False), longer)
    return names


def _shared(storage: Storage, task: str, splits: int) -> float | None:
    """Return the mean share of texts that two test splits have in common.

    None if the task's texts are not here, or its splits are others.
    """
    for name in storage.list_tasks():
        card = get_card(storage, name)
        if card is None or card.mteb != task:
            continue
        task_splits = {split.split: split for split in read_task(storage, name).test_splits()}
        if len(task_splits) == splits:
            return overlap(list(task_splits.values()))
    return None


def overlap(splits: list[Split]) -> float:
    """Return the mean, over pairs of splits, of their common texts over the geometric mean of their sizes."""
    texts = [set(split.rows.tolist()) for split in splits]
    shares = [len(a & b) / np.sqrt(len(a) * len(b)) for a, b in combinations(texts, 2)]
    return min(float(np.mean(shares)), 0.99)


def write_page(rankings: list[ImportedRanking], folder: Path) -> Path:
    """Write a page of all rankings, as one file that needs no network."""
    from traube._core.files import write_text
    from traube._reports.explorer.board import number
    from traube._reports.rendering import render
    from traube._reports.tables import show_rank

    data = [
        {
            "task": ranking.title,
            "model": row.model,
            "rank": show_rank(row),
            "score": number(100 * row.mean),
            "sd": number(100 * row.sd),
            "splits": len(row.splits),
            "why": row.why,
            "version": row.mteb_version,
        }
        for ranking in rankings
        for row in ranking.rows.itertuples(index=False)
    ]
    path = folder / PAGE
    write_text(path, render("imported.html", rankings=rankings, data=data))
    return path
