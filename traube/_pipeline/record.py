"""The record that every cell keeps besides its id. `Recorder` is the only writer of cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from traube._core.errors import Busy
from traube._core.measure import Cost
from traube._core.versions import get_versions
from traube._pipeline.cell import Cell
from traube._storage import CellRow, Lease, Score, Storage

LIBRARIES = (
    "traube",
    "numpy",
    "scipy",
    "scikit-learn",
    "umap-learn",
    "pynndescent",
    "numba",
    "evoc",
    "hdbscan",
    "river",
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
)


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Return the versions of Python, the system and the libraries that a result depends on."""
    import platform

    system = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    return system | get_versions(LIBRARIES)


def record(
    cell: Cell,
    status: str,
    *,
    reason: str = "",
    seconds: float = 0.0,
    cost: Cost | None = None,
    device: str = "cpu",
    run_id: str = "",
) -> CellRow:
    """Return the record of a cell.

    Parameters
    ----------
    cell : Cell
        The cell.
    status : {"clustered", "done", "failed", "unsupported", "unavailable"}
        Its outcome.
    reason : str, default=""
        Why there are no scores.
    seconds : float, default=0.0
        The clusterings' time, without the reductions that cells share.
    cost : Cost, optional
        The cost with the reductions, where it was measured.
    device : str, default="cpu"
        Where the model's vectors were computed.
    run_id : str, default=""
        The run that requested the cell.
    """
    return CellRow(
        **{each.name: getattr(cell, each.name) for each in fields(CellRow) if hasattr(cell, each.name)},
        reducer=cell.method.reducer,
        clusterer=cell.method.clusterer,
        params=cell.method.params(),
        library_versions=library_versions(),
        device=device,
        run_id=run_id,
        seconds=round(seconds, 3),
        texts=None if cost is None else cost.texts,
        total_seconds=None if cost is None else cost.seconds,
        memory=None if cost is None else cost.memory,
        status=status,
        reason=reason,
    )


def make_scores(table: pd.DataFrame, splits: pd.DataFrame) -> list[Score]:
    """Return a table of split, level, metric, value, replicates as it is stored; splits from `Storage.read_splits`."""
    keys = pd.MultiIndex.from_frame(splits[["name", "level"]])
    at = keys.get_indexer(pd.MultiIndex.from_frame(table[["split", "level"]]))
    assert (at >= 0).all(), "scores of splits that the task does not have"
    positions, values = splits["position"].to_numpy()[at], table["value"].to_numpy(np.float64)
    replicates = table["replicates"].tolist()
    of_level = {level: np.sort(rows["position"].to_numpy()) for level, rows in splits.groupby("level")}
    scores = []
    for (level, metric), rows in table.groupby(["level", "metric"], sort=False).indices.items():
        rows = rows[np.argsort(positions[rows])]
        are_all = np.array_equal(positions[rows], of_level[level])
        without = [replicates[row] for row in rows]
        stacked = None if without[0] is None else np.stack(without).astype(np.float32)
        own_positions = None if are_all else positions[rows].astype(np.int32)
        scores.append(Score(str(level), str(metric), values[rows], stacked, own_positions))
    return scores


@dataclass(frozen=True)
class Recorder:
    """Writes the records and results of cells."""

    storage: Storage
    device: str = "cpu"  # where the model's vectors were computed
    run_id: str = ""  # of the run that requested the cells; empty where nobody keeps runs
    lease: Lease | None = None  # under which the cells are made

    def save_clusters(
        self,
        cell: Cell,
        assignments: pd.DataFrame,
        seconds: float,
        cost: Cost | None = None,
        histories: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep a cell's clusters (split, level, item, cluster), with time and cost as `record` has them.

        The cell counts once it is scored. The histories say how the clusterer was trained: by split and level, an
        entry for each epoch.
        """
        row = self._record(cell, "clustered", seconds=seconds, cost=cost)
        self._save(row, assignments[["split", "level", "item", "cluster"]], histories=histories)

    def save_scores(self, cell: Cell, scores: pd.DataFrame) -> None:
        """Keep the scores (split, level, metric, value, replicates) of a clustered cell; it counts from now on."""
        splits = self.storage.read_splits(cell.data_version, cell.split_set)
        self.update(cell, "done", scores=make_scores(scores, splits))

    def save_pair_scores(self, cell: Cell, scores: pd.DataFrame) -> None:
        """Keep the scores (split, level, metric, value) of a cell of pairs, which clusters nothing."""
        splits = self.storage.read_splits(cell.data_version, cell.split_set)
        self._save(self._record(cell, "done"), scores=make_scores(scores.assign(replicates=None), splits))

    def update(self, cell: Cell, status: str, reason: str = "", scores: Sequence[Score] = ()) -> None:
        """Keep the outcome of a clustered cell, with its clusters and their cost; the reason says why there are no scores."""
        assignments, histories = self.storage.read_assignments(cell.cell_id), self.storage.read_histories(cell.cell_id)
        (clustered,) = self.storage.read_rows(CellRow, cell_id=cell.cell_id)
        costs = {name: getattr(clustered, name) for name in ("seconds", "texts", "total_seconds", "memory")}
        row = replace(self._record(cell, status, reason=reason), **costs)
        self._save(row, assignments, scores, histories=histories)

    def save_failure(self, cell: Cell, status: str, reason: str) -> None:
        """Note that a cell is failed, unsupported or unavailable, and why."""
        self._save(self._record(cell, status, reason=reason))

    def _save(self, row: CellRow, *of_cell: Any, **more: Any) -> None:
        if not self.storage.save_cell(row, *of_cell, **more, lease=self.lease):
            raise Busy(
                f"{row.task} under {row.model}: this process stood still for so long that another one may "
                "have taken over; `traube run` computes what is left"
            )

    def _record(self, cell: Cell, status: str, **known: Any) -> CellRow:
        return record(cell, status, device=self.device, run_id=self.run_id, **known)
