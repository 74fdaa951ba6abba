"""The stages of a benchmark: raw data to a corpus, its splits, a model's vectors, clusters and
scores.

Each is called by the Dagster asset of its name and by the library's own launcher
(`traube.cli.launcher`). A stage stores what it made. Who may be at work, what data checks say and
what people are shown is up to the caller.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from traube.benchmark.plan import Cell, Request, cells_of, missing_cells
from traube.benchmark.record import Recorder
from traube.engine.cluster import cluster
from traube.engine.pair_cells import TEST
from traube.engine.pair_scores import embed_pairs
from traube.engine.progress import SILENT, Progress
from traube.engine.score import score_stored
from traube.engine.workbench import Workbench
from traube.foundation.errors import Unavailable
from traube.models import Model, Vectors, fingerprint_on
from traube.store import Manifest, Store
from traube.store.pairs import PairStore
from traube.tasks import PairSource
from traube.tasks.scored_pairs import PairTask
from traube.tasks.source import Source
from traube.tasks.task import index_texts

ROWS_LOOKED_AT = 4096
# Mean cosine between texts at which vectors say nothing any more.
COLLAPSED = 0.9999
VECTOR_CHECKS = {
    "shape": "One vector per scored text.",
    "finite": "No NaN and no infinity.",
    "not_collapsed": "Different texts have different vectors.",
}
WARNING_CHECKS = ("not_collapsed",)  # such vectors can be clustered, if badly; other checks block


@dataclass(frozen=True)
class Corpus:
    """The texts of a task as they were read.

    Attributes
    ----------
    texts, records : see `traube.tasks.task.index_texts`
    version : content hash of the texts
    raw_version : of the raw data
    """

    texts: pd.DataFrame
    records: pd.DataFrame
    version: str
    raw_version: str


def read_corpus(source: Source, store: Store) -> Corpus:
    """Read a task's raw data and store its unique texts.

    Raises
    ------
    TraubeError
        If raw data is missing, damaged, or cannot be read.
    """
    reason = source.missing()
    if reason:
        raise Unavailable(f"task '{source.name}' is unavailable: {reason}")
    source.check()
    raw_version = source.raw_version()
    texts, records = index_texts(source.read())
    version = store.save_corpus(source.name, texts, records, raw_version)
    return Corpus(texts, records, version, raw_version)


def draw_splits(source: Source, store: Store) -> tuple[pd.DataFrame, Manifest]:
    """Draw a task's splits from its stored records and store them.

    The task counts as absent until `store.complete` is called with the manifest.

    Raises
    ------
    TraubeError
        If the corpus was not read whole, or splits cannot be drawn from it.
    """
    splits = source.draw(store.records(source.name))
    return splits, store.save_splits(source.card, splits)


def read_pairs(source: PairSource, store: PairStore) -> PairTask:
    """Read a pair task's raw data and store it.

    The task counts as absent until `store.complete` is called.

    Raises
    ------
    TraubeError
        If raw data is missing, or cannot be read.
    """
    task = source.load()
    store.save(task, source.raw_version())
    return task


@dataclass(frozen=True)
class VectorCheck:
    """What a check of vectors found; its name is one of `VECTOR_CHECKS`."""

    name: str
    passed: bool
    facts: dict[str, float]

    @property
    def blocking(self) -> bool:
        """Whether a failure stops the task."""
        return self.name not in WARNING_CHECKS


@dataclass(frozen=True)
class Encoded:
    """A task's vectors under a model.

    Attributes
    ----------
    vectors : of the scored texts
    encoded : number of texts that had to be encoded
    fingerprint : of the model on the task's corpus
    checks : what was found of the vectors
    """

    vectors: Vectors
    encoded: int
    fingerprint: str
    checks: list[VectorCheck]


def encode(task: str, model: Model, workbench: Workbench, progress: Progress = SILENT) -> Encoded:
    """Encode the scored texts of a stored task that are not cached, and check their vectors.

    Raises
    ------
    TraubeError
        If the task has not been read, weights cannot be had, or a text cannot be encoded.
    """
    model.fetch()
    read = workbench.task(task)
    vectors, encoded = workbench.encoded(read, model, progress)
    scored = vectors.subset(read.scored)
    fingerprint = fingerprint_on(model, read.corpus_version)
    return Encoded(scored, encoded, fingerprint, check_vectors(scored, len(read.scored)))


def check_vectors(vectors: Vectors, texts: int) -> list[VectorCheck]:
    """Check that there is a vector for each of some texts, all finite, and not all alike."""
    finite, rows, norms = True, 0, []
    for start in range(0, len(vectors), ROWS_LOOKED_AT):
        block: Any = vectors.subset(np.arange(start, min(start + ROWS_LOOKED_AT, len(vectors)))).load()
        rows += block.shape[0] if block.shape[1] == vectors.dimensions else 0
        values = block.data if sparse.issparse(block) else block
        finite = finite and bool(np.isfinite(values).all())
        norms.append(
            np.sqrt(block.multiply(block).sum(axis=1)).A1 if sparse.issparse(block) else np.linalg.norm(block, axis=1)
        )
    norm = np.concatenate(norms)
    similarity = _mean_cosine(vectors)
    return [
        VectorCheck("shape", rows == texts, {"vectors": rows, "texts": texts}),
        VectorCheck("finite", finite, {"mean_norm": float(norm.mean()), "zero_vectors": int((norm == 0).sum())}),
        VectorCheck("not_collapsed", similarity < COLLAPSED, {"mean_cosine": similarity}),
    ]


def _mean_cosine(vectors: Vectors) -> float:
    """Return the mean cosine between different texts of an even sample."""
    from sklearn.preprocessing import normalize

    sample = np.unique(np.linspace(0, len(vectors) - 1, min(ROWS_LOOKED_AT, len(vectors))).astype(np.int64))
    block = vectors.subset(sample).load()
    unit = normalize(block if sparse.issparse(block) else np.nan_to_num(block))
    n = unit.shape[0]
    total = np.asarray(unit.sum(axis=0)).ravel()
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else 0.0


def encode_pairs(
    task: str, model: Model, workbench: Workbench, progress: Progress = SILENT
) -> tuple[PairTask, list[Vectors]]:
    """Encode the texts of a stored pair task's test pairs, and of these with their histories.

    Raises
    ------
    TraubeError
        If the task has not been read, weights cannot be had, or a text cannot be encoded.
    """
    model.fetch()
    read = PairStore.of(workbench.store).read(task)
    forms = [read, read.with_history()] if read.has_history else [read]
    return read, [embed_pairs(form.of_part(TEST), model, workbench, progress)[0] for form in forms]


@dataclass(frozen=True)
class Clusterings:
    """What became of the cells that were to be clustered.

    Attributes
    ----------
    cells : those that were not clustered before
    statuses : how many have become of which status
    dimensions : of the vectors
    unscored : ids of the cells that are clustered, and not scored yet
    """

    cells: list[Cell]
    statuses: Counter[str]
    dimensions: int
    unscored: list[str]


def cluster_missing(
    task: str,
    model: Model,
    request: Request,
    workbench: Workbench,
    recorder: Recorder,
    *,
    is_of: Callable[[Cell], bool] = lambda cell: True,
    warn: Callable[[str], None] = lambda message: None,
    progress: Progress = SILENT,
) -> Clusterings:
    """Cluster the missing cells of a stored task and a model, and store their clusters.

    Parameters
    ----------
    is_of : says which cells are meant
    warn : told what is amiss with a cell

    Raises
    ------
    TraubeError
        If the task has not been read, the model cannot encode it, or a worker was killed.
    """
    store, statuses = workbench.store, Counter[str]()
    missing = [cell for cell in missing_cells(task, model, request, store) if is_of(cell)]
    cells = [cell for cell in missing if not store.sound_assignments(task, cell.cell_id)]
    read = workbench.task(task)
    vectors = workbench.vectors(read, model, progress)
    for result in cluster(read, vectors, cells, store, workbench.executor, progress, model.similarity, model):
        statuses[result.status] += 1
        if result.assignments is None:
            warn(f"{result.cell.title}: {result.status}: {result.reason}")
            recorder.without_clusters(result.cell, result.status, result.reason)
            continue
        if result.reason:
            warn(f"{result.cell.title}: {result.reason}")
        recorder.clustered(result.cell, result.assignments, result.seconds, result.cost)
    left = [cell.cell_id for cell in missing_cells(task, model, request, store) if is_of(cell)]
    return Clusterings(cells, statuses, vectors.dimensions, left)


@dataclass(frozen=True)
class Scored:
    """The cells of a task and a model after scoring.

    Attributes
    ----------
    asked : ids of the cells of the request
    official : ids of the cells of its protocol, whatever methods and seeds were asked for
    """

    asked: list[str]
    official: list[str]


def unscored_cells(task: str, model: Model, request: Request, store: Store) -> list[Cell]:
    """Return the cells that are clustered, but not scored yet."""
    return [cell for cell in missing_cells(task, model, request, store) if store.has_assignments(task, cell.cell_id)]


def score_clustered(
    task: str,
    model: Model,
    request: Request,
    workbench: Workbench,
    *,
    run_id: str = "",
    progress: Progress = SILENT,
) -> Scored:
    """Score the clustered cells of a stored task and a model, and store their scores.

    Raises
    ------
    TraubeError
        If the task has not been read, or clusters cannot be read.
    """
    store, read = workbench.store, workbench.task(task)
    unscored = unscored_cells(task, model, request, store)
    vectors = None if read.labelled else workbench.vectors(read, model, progress)
    recorder = Recorder(store, workbench.executor.device(model, len(read.scored)), run_id)
    score_stored(read, unscored, recorder, workbench.executor, vectors, progress)
    manifest = workbench.manifest(task)
    whole = replace(request, methods=None, seeds=None)
    asked, official = (
        [cell.cell_id for cell in cells_of(task, manifest, model, wanted)] for wanted in (request, whole)
    )
    return Scored(asked, official)


def failed_cells(store: Store, task: str, cell_ids: Sequence[str]) -> str:
    """Say how many of some stored cells failed, and why the first did; empty if none failed."""
    cells = store.cells_by_id(task, cell_ids)
    failed = cells[cells["status"] == "failed"]
    if failed.empty:
        return ""
    first = failed.iloc[0]
    return (
        f"{len(failed)} of {len(cells)} cells failed; first: {first['reducer']}/{first['clusterer']}: {first['reason']}"
    )
