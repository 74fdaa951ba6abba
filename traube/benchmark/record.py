"""Where a number comes from: what every cell remembers besides its id."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from traube.benchmark.plan import CLUSTERING_VERSION, Cell
from traube.foundation.versions import versions
from traube.metrics import SCORING_VERSION

LIBRARIES = (
    "traube",
    "numpy",
    "scipy",
    "scikit-learn",
    "umap-learn",
    "hdbscan",
    "river",
    "torch",
    "transformers",
    "sentence-transformers",
)


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    import platform

    found = {"python": platform.python_version(), "machine": f"{platform.system()} {platform.machine()}"}
    return found | versions(LIBRARIES)


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
