"""Vectors to clusters, by each cell's method on each split. A reduction is computed once for all clusterers."""

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube import components
from traube._core.hashing import digest
from traube._core.measure import Cost
from traube._core.progress import SILENT, Progress
from traube._pipeline import deep, units
from traube._pipeline.cell import Cell
from traube._pipeline.executors import Executor, Failure, Job
from traube._pipeline.units import Reduced, SplitClustering
from traube._storage import ArtifactRow, CellRow, Storage
from traube.components import Component, Method
from traube.components.deep import is_collapsed
from traube.models import Model, Similarity, Vectors
from traube.models.similarity import bytes_of_distances
from traube.models.vectors import locate_matrix, name_vectors, store_matrix
from traube.tasks.task import Split, Task

# Raise when the same vectors would be clustered otherwise: all cells are new.
CLUSTERING_VERSION = "2"
Labels = NDArray[np.int64]
# What is made of the texts themselves is the same under every model, and stands beside the model of words.
WORDS = "bow"
REDUCTION, REPRESENTATIONS = "reduction", "representations"  # kinds of artifacts


@dataclass
class CellResult:
    """Outcome of a cell."""

    cell: Cell[Method]
    status: str  # done, failed, unsupported or unavailable (does not fit the memory)
    reason: str = ""  # in one line; of a cell that is done, a warning about its clusters
    assignments: pd.DataFrame | None = None  # split, level, item, cluster; None unless done
    seconds: float = 0.0  # the clusterings' time, without the reductions that cells share
    cost: Cost | None = None  # with them, and the memory; None where what a reduction took was not measured
    # of a clusterer that trains, by split and level: an entry for each epoch
    histories: dict[str, list[dict[str, float]]] | None = None


def cluster_cells(
    task: Task,
    vectors: Vectors,
    cells: Sequence[Cell[Method]],
    storage: Storage,
    executor: Executor,
    progress: Progress = SILENT,
    similarity: Similarity | None = None,
    model: Model | None = None,
) -> Iterator[CellResult]:
    """Cluster the test splits of a task by each cell's method; results come as cells are finished.

    One cell that fails does not stop the others; a worker process that is killed does. Reductions are kept in the
    storage and found there the next time.

    Parameters
    ----------
    task : Task
        The task.
    vectors : Vectors
        Vectors of its texts.
    cells : sequence of Cell
        The cells to cluster.
    storage : Storage
        Where reductions are kept.
    executor : Executor
        Does the work.
    progress : Progress, optional
        Reports the work as it is done.
    similarity : Similarity, optional
        Compares the texts of a split, for a model that has a similarity of its own.
    model : Model, optional
        The model of the vectors, for clusterers that train it further.
    """
    possible = []
    for cell in cells:
        reason = _explain_unsupported(cell, task, similarity, model)
        if reason:
            progress.done("cells", 1)
            yield CellResult(cell, "unsupported", reason)
        else:
            possible.append(cell)
    if not possible:
        return
    splits = list(task.test_splits(possible[0].split_set))
    if not splits:
        for cell in possible:
            yield CellResult(cell, "failed", f"there are no test splits in the split set '{cell.split_set}'")
        return
    work = _Work(task, vectors, splits, storage, similarity)
    if plain := [cell for cell in possible if not cell.method.trains]:
        progress.total("clusterings", len(plain) * len(splits))
        yield from _run_clusterings(work, plain, executor, progress)
    trained = [cell for cell in possible if cell.method.trains]
    if trained and model is not None:
        yield from _run_trainings(work, trained, model, executor, progress)


def _explain_unsupported(
    cell: Cell[Method], task: Task, similarity: Similarity | None, model: Model | None
) -> str | None:
    """Return in one line why a cell makes no sense; None if it does make sense."""
    if cell.method.trains and (model is None or not model.trainable):
        fault = (
            f"{cell.method.clusterer} trains an encoder, and {cell.model} is none: use a sentence-transformers model"
        )
        return cell.method.unsupported() or fault
    if cell.method.trains:
        return cell.method.unsupported()
    if components.get_clusterer(cell.method.clusterer).input_kind == "texts" and cell.model != WORDS:
        return f"{cell.method.clusterer} works on texts whatever the model: its result stands under {WORDS}"
    if similarity is None:
        return cell.method.unsupported()
    if similarity.query == "text" and any(split.query is None for split in task.test_splits(cell.split_set)):
        return f"{cell.model} compares texts for a query, and splits of {task.name} have none"
    return cell.method.unsupported_by_distance()


def _run_clusterings(
    work: "_Work", cells: Sequence[Cell[Method]], executor: Executor, progress: Progress
) -> Iterator[CellResult]:
    """Store reductions and yield cells, each once all its splits are clustered."""
    folder = work.storage.folder
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="reductions-", dir=folder) as scratch:
        reductions, clusterings = work.jobs(cells, Path(scratch))
        with closing(executor.run([*clusterings, *reductions])) as outcomes:
            for job, outcome in outcomes:
                if job in clusterings:
                    unfinished, position = clusterings[job]
                    unfinished.add(position, outcome)
                    progress.done("clusterings", 1)
                    if unfinished.is_complete:
                        progress.done("cells", 1)
                        yield unfinished.result()
                elif isinstance(outcome, Reduced):  # its clusterings start now; with one that failed they have failed
                    path = reductions[job]
                    blob = store_matrix(work.storage, REDUCTION, path.name, outcome.points, outcome.cost)
                    try:
                        path.hardlink_to(blob)  # its clusterings look for it under this name
                    except OSError:  # on another disk
                        shutil.copyfile(blob, path)


def _run_trainings(
    work: "_Work", cells: Sequence[Cell[Method]], model: Model, executor: Executor, progress: Progress
) -> Iterator[CellResult]:
    """Yield the results of cells whose clusterers train.

    The files from which trainings go on are removed once the caller has taken the cell. Methods follow each other seed
    by seed, since those of one seed may learn from the same augmentations, whose vectors are kept from one to the next.
    """
    folder = work.storage.folder / "trainings"
    requests = [
        deep.TrainingRequest(
            cell, i, work.splits[i], partial(work.texts, i), work.views[i], folder / cell.cell_id / str(i)
        )
        for cell in sorted(cells, key=lambda cell: cell.seed or 0)
        for i in work.order
    ]
    unfinished = {cell.cell_id: _Unfinished(cell, work.splits, work.storage) for cell in cells}
    with closing(deep.run(requests, model, executor, progress)) as outcomes:
        for request, outcome in outcomes:
            cell_id, position = request.cell.cell_id, request.position
            cell = unfinished[cell_id]
            if isinstance(outcome, Failure):
                cell.add(position, outcome)
            else:
                cell.add(position, SplitClustering(outcome.labels, outcome.seconds, math.nan))
                cell.histories[position] = outcome.history
                if position == work.order[0] and outcome.representations is not None:
                    store_matrix(work.storage, REPRESENTATIONS, cell_id, outcome.representations.astype(np.float16))
            if cell.is_complete:
                progress.done("cells", 1)
                result = cell.result()
                yield result
                if result.status == "done":
                    shutil.rmtree(folder / cell_id, ignore_errors=True)


@dataclass
class _Unfinished:
    """A cell whose splits are being clustered."""

    cell: Cell[Method]
    splits: Sequence[Split]
    storage: Storage
    clusters: dict[int, Labels] = field(default_factory=dict)
    seconds: float = 0.0
    memory: float = 0.0
    reductions: list[str] = field(default_factory=list)
    failures: dict[int, Failure] = field(default_factory=dict)
    histories: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.clusters) + len(self.failures) == len(self.splits)

    def add(self, position: int, outcome: SplitClustering | Failure) -> None:
        if isinstance(outcome, Failure):
            self.failures[position] = outcome
            return
        self.clusters[position] = outcome.labels
        self.seconds += outcome.seconds
        self.memory = max(outcome.memory, self.memory)  # nan stays: it is the first argument

    def result(self) -> CellResult:
        """Return the outcome of the cell: the first failure, or the clusters of all splits."""
        for position, failure in self.failures.items():
            split = self.splits[position]
            return CellResult(self.cell, failure.status, f"{split.split} ({split.level}): {failure.reason}")

        sizes = [split.size for split in self.splits]
        assignments = pd.DataFrame(
            {
                "split": np.repeat([s.split for s in self.splits], sizes),
                "level": np.repeat([s.level for s in self.splits], sizes),
                "item": np.concatenate([s.items for s in self.splits]),
                "cluster": np.concatenate([self.clusters[i] for i in range(len(self.splits))]),
            }
        )

        reductions = [
            row for key in self.reductions for row in self.storage.read_rows(ArtifactRow, kind=REDUCTION, key=key)
        ]
        seconds = [row.seconds for row in reductions if row.seconds is not None]
        cost = None
        if len(seconds) == len(self.reductions):
            memory = float(np.max([self.memory, *(row.memory or math.nan for row in reductions)]))
            cost = Cost(sum(sizes), self.seconds + sum(seconds), memory)

        if not self.cell.method.trains:
            return CellResult(self.cell, "done", "", assignments, self.seconds, cost)
        collapsed = [split for i, split in enumerate(self.splits) if is_collapsed(self.clusters[i])]
        warning = f"{collapsed[0].split} ({collapsed[0].level}): all texts are in one cluster" if collapsed else ""
        names = [f"{split.split}/{split.level}" for split in self.splits]
        histories = {names[i]: history for i, history in sorted(self.histories.items())}
        return CellResult(self.cell, "done", warning, assignments, self.seconds, cost, histories)


class _Work:
    """The jobs that the cells of one task and model consist of."""

    def __init__(
        self, task: Task, vectors: Vectors, splits: list[Split], storage: Storage, similarity: Similarity | None
    ) -> None:
        self.splits, self.storage, self.vectors, self.similarity = splits, storage, vectors, similarity
        self.task, self._lists = task, dict[int, list[str]]()
        ids = task.corpus["text_id"].to_numpy(dtype=object)
        self.ids = [ids[split.rows] for split in splits]
        self.views = [vectors.subset(split.rows) for split in splits]
        # the largest first, so that no core ends up alone with one of them
        self.order = sorted(range(len(splits)), key=lambda i: -splits[i].size)

    def jobs(
        self, cells: Sequence[Cell[Method]], scratch: Path
    ) -> tuple[dict[Job, Path], dict[Job, tuple[_Unfinished, int]]]:
        """Make the jobs: each reduction that is not stored once, with its path; a clustering for each cell and split."""
        reductions: dict[str, tuple[Vectors, Job | None]] = {}
        clusterings = {}
        for cell in cells:
            unfinished = _Unfinished(cell, self.splits, self.storage)
            for i in self.order:
                points, reduction = self.views[i], None
                if cell.method.reduces:
                    numerics = dict(cell.model_numerics)
                    key = make_reduction_key(cell.fingerprint, numerics, cell.method, cell.seed, self.ids[i])
                    if key not in reductions:
                        path = locate_matrix(self.storage, REDUCTION, key)
                        reduced = Vectors(path or scratch / key, np.arange(self.splits[i].size), 0)
                        reductions[key] = reduced, self._reduce(cell, i) if path is None else None
                    points, reduction = reductions[key]
                    unfinished.reductions.append(key)
                clusterings[self._cluster(cell, i, points, reduction)] = (unfinished, i)
        return {job: points.path for points, job in reductions.values() if job}, clusterings

    def _reduce(self, cell: Cell[Method], i: int) -> Job:
        reducer, params = components.get_reducer(cell.method.reducer), dict(cell.method.reducer_params)
        seed = cell.seed if cell.method.reducer_seeded else None
        arguments = self.views[i], reducer, params, seed or 0
        return Job(units.reduce, arguments, _needs(reducer, params, self.views[i]), rows=self.splits[i].size)

    def _cluster(self, cell: Cell[Method], i: int, points: Vectors, reduction: Job | None) -> Job:
        clusterer, params = components.get_clusterer(cell.method.clusterer), dict(cell.method.clusterer_params)
        split, on_texts = self.splits[i], clusterer.input_kind == "texts"
        texts = self.texts(i) if on_texts else None
        has_query = self.similarity is not None and split.query is not None
        query = self.vectors.subset(np.array([split.query])) if has_query else None
        n_clusters = cell.count_clusters(split) if clusterer.n_clusters == "given" else None
        arguments = texts, points, query, self.similarity, clusterer, params, n_clusters, cell.seed or 0
        # bytes; what a clusterer of texts needs is not known
        needs = bytes_of_distances(split.size) if self.similarity else _needs(clusterer, params, points)
        return Job(units.cluster_split, arguments, 0 if on_texts else needs, reduction, split.size)

    def texts(self, i: int) -> list[str]:
        """Return the texts of split i: the same list for all cells, so that a cluster is sent it once."""
        if i not in self._lists:
            self._lists[i] = self.task.texts_at(self.splits[i].rows)
        return self._lists[i]


def _needs(component: Component, params: Mapping[str, Any], vectors: Vectors) -> int:
    return components.bytes_needed(component, params, len(vectors), vectors.dimensions, vectors.is_sparse)


def make_reduction_key(
    fingerprint: str, numerics: Mapping[str, str], method: Method, seed: int | None, text_ids: NDArray[np.object_]
) -> str:
    """Return the key of the reduced vectors of some texts; `numerics` is what computed their vectors."""
    texts = blake2b("".join(text_ids).encode(), digest_size=8).hexdigest()
    seed = seed if method.reducer_seeded else None
    params = dict(method.reducer_params)
    by = [method.numerics["reducer"], CLUSTERING_VERSION]
    return f"{name_vectors(fingerprint, numerics)}-{digest([method.reducer, params, seed, texts, by])}"


def locate_reduction(storage: Storage, *key: Any) -> Path | None:
    """Return the file of stored reduced vectors, by the arguments of `make_reduction_key`; None if there are none."""
    return locate_matrix(storage, REDUCTION, make_reduction_key(*key))


def locate_reduction_of(storage: Storage, cell: CellRow, text_ids: NDArray[np.object_]) -> Path | None:
    """Return the file of the reduced vectors that a stored cell clustered; None if it is not kept."""
    method, seed = Method(**cell.params), cell.seed or 0
    return locate_reduction(storage, cell.fingerprint, cell.numerics["model"], method, seed, text_ids)
