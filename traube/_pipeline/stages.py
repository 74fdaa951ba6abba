"""Raw data to a corpus and its splits, and the checks of vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from traube._core.errors import Unavailable
from traube._storage import Storage
from traube.models import Vectors
from traube.tasks.source import Source
from traube.tasks.stored import Manifest, read_ingested, save_corpus, save_rows

ROWS_LOOKED_AT = 4096
COLLAPSED = 0.9999  # mean cosine between texts from which vectors carry no information
VECTOR_CHECKS = {
    "shape": "One vector per scored text.",
    "finite": "No NaN and no infinity.",
    "not_collapsed": "Different texts have different vectors.",
}
WARNING_CHECKS = ("not_collapsed",)  # such vectors can be clustered, if badly; other checks block


@dataclass(frozen=True)
class Corpus:
    """A task's corpus from `Source.ingest`, with the content hash of the texts and the version of the raw data."""

    texts: pd.DataFrame
    records: pd.DataFrame
    version: str
    raw_version: str


def read_corpus(source: Source, storage: Storage) -> Corpus:
    """Read raw data and store its unique texts, and what they are drawn from."""
    reason = source.missing()
    if reason:
        raise Unavailable(f"task '{source.name}' is unavailable: {reason}")
    raw_version = source.raw_version()
    texts, records = source.ingest()
    version = save_corpus(storage, source.name, texts, records, raw_version)
    return Corpus(texts, records, version, raw_version)


def draw(source: Source, storage: Storage) -> tuple[pd.DataFrame, Manifest]:
    """Draw a task's splits or pairs from its stored records and store them; it counts once it is completed."""
    rows = source.draw(read_ingested(storage, source.name, "records"))
    return rows, save_rows(storage, source.card, rows)


@dataclass(frozen=True)
class VectorCheck:
    """Result of a check of vectors."""

    name: str  # one of `VECTOR_CHECKS`
    passed: bool
    facts: dict[str, float]
    reason: str = ""  # of a failure, in one line, where it is known

    @property
    def blocking(self) -> bool:
        """True if a failure stops the task."""
        return self.name not in WARNING_CHECKS


def check_vectors(vectors: Vectors, texts: int, long_texts: str = "") -> list[VectorCheck]:
    """Check that there is a vector for each of some texts, all finite, and not all alike.

    `long_texts` says how many texts are longer than their model reads, which makes those alike that begin alike.
    """
    finite, rows, norms = True, 0, []
    for start in range(0, len(vectors), ROWS_LOOKED_AT):
        block: Any = vectors.subset(np.arange(start, min(start + ROWS_LOOKED_AT, len(vectors)))).load()
        is_sparse = sparse.issparse(block)
        rows += block.shape[0] if block.shape[1] == vectors.dimensions else 0
        finite = finite and bool(np.isfinite(block.data if is_sparse else block).all())
        norms.append(_compute_norms(block))
    norm = np.concatenate(norms)
    similarity = _compute_mean_cosine(vectors)
    is_collapsed = not similarity < COLLAPSED  # nor is what is not finite a number
    return [
        VectorCheck("shape", rows == texts, {"vectors": rows, "texts": texts}),
        VectorCheck("finite", finite, {"mean_norm": float(norm.mean()), "zero_vectors": int((norm == 0).sum())}),
        VectorCheck("not_collapsed", not is_collapsed, {"mean_cosine": similarity}, long_texts if is_collapsed else ""),
    ]


@np.errstate(over="ignore")
def _compute_norms(block: Any) -> np.ndarray:
    """Return the Euclidean length of each row. scikit-learn's would import scipy.stats, which takes a second."""
    return np.sqrt(block.multiply(block).sum(axis=1)).A1 if sparse.issparse(block) else np.linalg.norm(block, axis=1)


def _compute_mean_cosine(vectors: Vectors) -> float:
    """Return the mean cosine between different texts of an even sample."""
    sample = np.unique(np.linspace(0, len(vectors) - 1, min(ROWS_LOOKED_AT, len(vectors))).astype(np.int64))
    block: Any = vectors.subset(sample).load()
    block = block if sparse.issparse(block) else np.nan_to_num(block)
    norm, n = _compute_norms(block), block.shape[0]
    total = np.divide(1, norm, out=np.zeros_like(norm), where=norm > 0) @ block  # of unit vectors
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else 0.0


def describe_failures(storage: Storage, cell_ids: Sequence[str]) -> str:
    """Return how many of some stored cells failed, and why the first did; empty if none failed."""
    cells = storage.read_cells(ids=cell_ids)
    failed = cells[cells["status"] == "failed"]
    if failed.empty:
        return ""
    first = failed.iloc[0]
    return (
        f"{len(failed)} of {len(cells)} cells failed; first: {first['reducer']}/{first['clusterer']}: {first['reason']}"
    )
