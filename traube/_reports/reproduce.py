"""Compute a stored cell again from nothing, and compare the results."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from traube._core.errors import Conflict, Missing, Unknown
from traube._core.progress import SILENT, Progress
from traube._pipeline.changes import Change, ChangeKind
from traube._pipeline.executors import make_executor
from traube._pipeline.kinds import select_kind
from traube._pipeline.kinds.clustering import CLUSTERINGS, ClusteringCell
from traube._pipeline.params import Protocol
from traube._pipeline.plan import Plan
from traube._pipeline.run import cluster, score
from traube._pipeline.workbench import Given, Workbench
from traube._reports.provenance import changed_since
from traube._storage import CellRow, Storage
from traube.components import Method
from traube.models import load_model
from traube.tasks import get_source

ROUNDING = 1e-9  # of a score: sums in another order
PARITY = 1e-5  # of a vector, as 1 - cosine

# Changes that leave nothing that could be computed again.
GONE = (ChangeKind.DATA, ChangeKind.MODEL, ChangeKind.CLUSTERING_CODE, ChangeKind.NUMERICS, ChangeKind.CLUSTERS)


@dataclass(frozen=True)
class Reproduction:
    """The result of computing a stored cell again."""

    cell_id: str
    scores: pd.DataFrame  # split, level, metric, stored, again
    clusters_equal: bool  # whether every item is in the same cluster
    vectors: float  # largest 1 - cosine of a text's vector, encoded again, to the one that was clustered
    changed: list[Change]  # what is not as it was then (libraries, say)

    @property
    def difference(self) -> float:
        """Largest absolute difference of a score."""
        both = self.scores.dropna(subset=["stored", "again"], how="all")
        return float((both["stored"] - both["again"]).abs().fillna(float("inf")).max())

    @property
    def equal(self) -> bool:
        """True if scores, clusters and vectors are the same but for rounding."""
        return self.difference <= ROUNDING and self.clusters_equal and self.vectors <= PARITY


def reproduce(
    storage: Storage, protocols: dict[str, Protocol], cell_id: str, progress: Progress = SILENT
) -> Reproduction:
    """Encode, reduce, cluster and score a cell again, given its id or the beginning of one.

    A network's vectors differ in the seventh digit with the texts that share a batch, and UMAP
    makes other layouts of that. So the vectors that were clustered are clustered again, and must
    give the same; and the texts are encoded again, and must come near.
    """
    cells = storage.read_cells()
    matching = cells[cells["cell_id"].str.startswith(cell_id)]
    if matching.empty:
        raise Unknown(f"unknown cell '{cell_id}': no stored one begins so; `traube provenance` shows the ids of cells")
    if len(matching) > 1:
        raise Conflict(f"{len(matching)} cells begin with '{cell_id}': {', '.join(matching['cell_id'].head(5))}")
    (row,) = storage.read_rows(CellRow, cell_id=matching["cell_id"].iloc[0])
    if select_kind(matching, CLUSTERINGS).empty:
        get_source(row.task)  # refuses pairs
    if row.status != "done":
        raise Missing(f"cell {row.cell_id} is {row.status} ({row.reason}): there is no score to compare with")
    changed = changed_since(storage, protocols, row)
    gone = [str(change) for change in changed if change.kind in GONE]
    if gone:
        raise Missing(f"cell {row.cell_id} cannot be computed again: {'; '.join(gone)}")
    protocol = protocols.get(row.protocol)
    model = load_model(row.model, precision=protocol.precision if protocol else None)
    cell = _cell_of(row, protocol)
    with TemporaryDirectory(prefix="traube-") as name, make_executor() as executor:
        workbench, fresh = Workbench(storage, executor), Workbench.at(Path(name), executor)
        task = workbench.task(row.task)
        new, old = fresh.vectors(task, model, progress), workbench.vectors(task, model)
        deviation = _deviation(new.subset(task.scored).load(), old.subset(task.scored).load())
        scratch = replace(fresh, given={task.name: Given(task, old)})
        plan = Plan.of_cells(model, [cell])
        (clustered,) = cluster(plan, scratch, progress)
        clusters = clustered.result().assignments
        (scored,) = score(plan.after([cell]), scratch, progress)
        again = scored.result().scores

    # what only one of them has is kept, and differs
    keys, items = ["split", "level", "metric"], ["split", "level", "item"]
    before = storage.read_scores(matching)[[*keys, "value"]].rename(columns={"value": "stored"})
    both = before.merge(again[[*keys, "value"]].rename(columns={"value": "again"}), on=keys, how="outer")
    joined = storage.read_assignments(row.cell_id).merge(clusters, on=items, how="outer", suffixes=("", "_again"))
    equal = bool((joined["cluster"] == joined["cluster_again"]).all())
    return Reproduction(row.cell_id, both, equal, deviation, changed)


def _cell_of(row: CellRow, protocol: Protocol | None) -> ClusteringCell:
    as_stored = ("task", "family", "model", "fingerprint", "protocol", "data_version", "seed", "clusters")
    return ClusteringCell(
        **{name: getattr(row, name) for name in as_stored},
        method=Method(**row.params),
        split_set=protocol.split_set if protocol else "default",
        model_numerics=tuple(row.numerics["model"].items()),
    )


def _deviation(a: Any, b: Any) -> float:
    """Return the largest 1 - cosine of two matrices' rows; two zero rows are equal."""
    if a.shape != b.shape:
        return float("inf")
    dots, squares_a, squares_b = (
        np.asarray((x.multiply(y) if sparse.issparse(x) else x * y).sum(axis=1), dtype=np.float64).ravel()
        for x, y in ((a, b), (a, a), (b, b))
    )
    norms = np.sqrt(squares_a * squares_b)
    cosines = np.divide(dots, norms, out=np.ones_like(dots), where=norms > 0)
    return float(np.max(1 - np.where(squares_a + squares_b == 0, 1.0, np.where(norms > 0, cosines, 0.0))))
