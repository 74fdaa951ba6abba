"""Rankings of imported leaderboards, from one score for each split, without replicates."""

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from traube._storage import Storage
from traube.comparison._ranking import rank_by_splits
from traube.comparison._verdict import LEVEL
from traube.tasks._stored import get_card, read_task
from traube.tasks._task import Split

PAGE = "imported.html"


@dataclass(frozen=True)
class Imported:
    """A table of imported results."""

    task: str  # as its source calls it
    rows: pd.DataFrame  # the best first, with rank_low, rank_high and why: nan where `why` says that there is none
    splits: int  # over which models are compared
    ties: tuple[int, int]  # neighbors in the ranking that are tied, and how many neighbors there are
    first: int  # models that may be the best
    shared: float | None  # mean share of texts that two splits have in common; None where the texts are not here

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
        """Return a sentence on what the ranking rests on."""
        if not self.splits:
            return ""
        if self.shared is None:
            return (
                "The texts of these splits are not here: splits count as independent, and where they share texts the "
                "ranks are narrower than the data allow."
            )
        return f"Two splits share {100 * self.shared:.0f} % of their texts on average; the tests allow for it."


def rankings(storage: Storage, imported: pd.DataFrame) -> list[Imported]:
    """Rank the models on each task of imported results (`traube._reports.exchange.imported_results`)."""
    return [_ranking(storage, str(task), rows) for task, rows in imported.groupby("task")]


def _ranking(storage: Storage, task: str, rows: pd.DataFrame) -> Imported:
    rows = rows.sort_values("mean", ascending=False, ignore_index=True)
    counts = rows["splits"].map(len).to_numpy()
    # the largest group of results on the same number of splits of the same data, with one each
    keys = pd.Series(list(zip(counts.tolist(), rows["dataset_revision"], strict=True)))
    given = keys[counts > 1].value_counts()
    comparable = (keys == given.index[0]).to_numpy() if len(given) else np.zeros(len(rows), dtype=bool)
    why = np.where(counts == 0, "no score for each split", "other splits or data")
    table = rows.assign(rank_low=np.nan, rank_high=np.nan, why=why)
    if comparable.sum() < 2:
        return Imported(task, table, 0, (0, 0), 0, None)
    values = np.array(rows.loc[comparable, "splits"].tolist(), dtype=np.float64)
    shared = _shared(storage, task, values.shape[1])
    ranking = rank_by_splits(rows.loc[comparable, "model"].tolist(), values, shared or 0.0)
    table.loc[comparable, ["rank_low", "rank_high"]] = ranking.ranks
    table.loc[comparable, "why"] = ""
    tied = np.diag(ranking.p, 1) >= LEVEL
    first = int((table["rank_low"] == 1).sum())
    return Imported(task, table, values.shape[1], (int(tied.sum()), len(tied)), first, shared)


def _shared(storage: Storage, task: str, splits: int) -> float | None:
    """Return the mean share of texts that two test splits have in common.

    None if the task's texts are not here, or its splits are others.
    """
    for name in storage.list_tasks():
        card = get_card(storage, name)
        if card is None or card.mteb != task:
            continue
        own = {split.split: split for split in read_task(storage, name).test_splits()}
        if len(own) == splits:
            return overlap(list(own.values()))
    return None


def overlap(splits: list[Split]) -> float:
    """Return the mean, over pairs of splits, of their common texts over the geometric mean of their sizes."""
    texts = [set(split.rows.tolist()) for split in splits]
    shares = [len(a & b) / np.sqrt(len(a) * len(b)) for a, b in combinations(texts, 2)]
    return min(float(np.mean(shares)), 0.99)


def write_page(rankings: list[Imported], folder: Path) -> Path:
    """Write a page of all rankings, as one file that needs no network."""
    from traube._core.files import write_text
    from traube._reports.explorer.board import number
    from traube._reports.rendering import render
    from traube._reports.tables import show_rank

    data = [
        {
            "task": ranking.task,
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
