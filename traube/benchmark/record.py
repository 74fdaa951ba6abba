"""What became of a cell, and where its number comes from: what every cell remembers besides its id.

`Recorder` is the only writer of a cell's files. How they lie on disk is told by `traube.store`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pandas as pd

from traube.benchmark.plan import CLUSTERING_VERSION, Cell
from traube.foundation.versions import versions
from traube.metrics import SCORING_VERSION
from traube.store import Cost, Store

LIBRARIES = (
    "traube",
    "numpy",
    "scipy",
    "scikit-learn",
    "umap-learn",
    "pynndescent",
    "numba",
    "hdbscan",
    "river",
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
)


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    import platform

    system = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    return system | versions(LIBRARIES)


def record(
    cell: Cell, status: str, *, reason: str = "", seconds: float = 0.0, device: str = "cpu", run_id: str = ""
) -> dict[str, Any]:
    """The row of the `cells` table for a cell."""
    return {
        "cell_id": cell.cell_id,
        "task": cell.task,
        "family": cell.family,
        "model": cell.model,
        "fingerprint": cell.fingerprint,
        "precision": cell.precision,
        "reducer": cell.method.reducer,
        "clusterer": cell.method.clusterer,
        "params": cell.method.params(),
        "seed": cell.seed,
        "protocol": cell.protocol,
        "data_version": cell.data_version,
        "clusters": cell.clusters,
        "code_version": CLUSTERING_VERSION,
        "scoring_version": SCORING_VERSION,
        "numerics": cell.numerics,
        "library_versions": library_versions(),
        "device": device,
        "run_id": run_id,
        "seconds": round(seconds, 3),
        "status": status,
        "reason": reason,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@dataclass(frozen=True)
class Recorder:
    """Writes down what became of cells.

    A cell counts once its record is there, so that is written last.

    Attributes
    ----------
    device : where the model's vectors were computed
    run_id : of the run that asked for the cells; empty where nobody keeps runs
    """

    store: Store
    device: str = "cpu"
    run_id: str = ""

    def clustered(self, cell: Cell, assignments: pd.DataFrame, seconds: float, cost: Cost | None = None) -> None:
        """Keep a cell's clusters (split, level, item, cluster), the time they took, and what they cost
        with the reductions that cells share, where that is known.

        It counts once it is scored.
        """
        if cost is not None:
            self.store.save_cost(cell.task, cell.cell_id, cost)
        self.store.save_assignments(cell.task, cell.cell_id, assignments, seconds)

    def scored(self, cell: Cell, scores: pd.DataFrame, seconds: float) -> None:
        """Keep a cell's scores (split, level, metric, value, replicates); it counts from now on.

        Parameters
        ----------
        seconds : the time its clustering took
        """
        self.store.save_scores(cell.task, cell.cell_id, scores)
        self._record(cell, "done", seconds=seconds)

    def without_clusters(self, cell: Cell, status: str, reason: str) -> None:
        """Note that a cell is failed, unsupported or unavailable, and why."""
        self._record(cell, status, reason=reason)

    def _record(self, cell: Cell, status: str, *, reason: str = "", seconds: float = 0.0) -> None:
        entry = record(cell, status, reason=reason, seconds=seconds, device=self.device, run_id=self.run_id)
        self.store.save_cell(entry)
