"""The engine: texts -> vectors -> reductions -> clusters -> scores. Works with nothing else running.

Unique texts are encoded once; a split is a view of the vectors. A reduction is computed once per (split, seed), kept, and
shared by all clusterers. Clusterings run side by side in one process per core.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube import methods
from traube.benchmark.plan import CLUSTERING_VERSION, Cell
from traube.engine import workers
from traube.foundation.errors import DoesNotFit, TraubeError, Unsupported
from traube.foundation.files import atomic, digest
from traube.methods import Method
from traube.models import EmbeddingCache, Encoder, Model, Vectors, cache_key
from traube.models.vectors import ABSENT
from traube.store import Store
from traube.tasks.task import Split, Task, groups_of

# A crash loses at most this many seconds of encoding.
SECONDS_BETWEEN_WRITES = 5.0


@dataclass(frozen=True)
class Progress:
    """Who is told of work as it is done. The default tells nobody.

    Attributes
    ----------
    total : called with a stage's name and its amount of work before it begins
    done : called with a stage's name and the amount just finished
    """

    total: Callable[[str, int], None] = lambda stage, amount: None
    done: Callable[[str, int], None] = lambda stage, amount: None


SILENT = Progress()


def embed(
    texts: Sequence[str], model: Model, cache: EmbeddingCache, matrix: Path, progress: Progress = SILENT
) -> tuple[Vectors, int]:
    """Vectors of a corpus, computing only those that are not stored.

    Parameters
    ----------
    texts : the corpus, in order
    matrix : where the vectors of a corpus-bound model are kept (path without suffix; what computes them is added to the name)

    Returns
    -------
    vectors : Vectors [n, d]
    encoded : number of texts that had to be encoded
    """
    if model.corpus_bound:
        return _embed_bound(texts, model, matrix, progress)
    encoder = cast("Encoder", model)
    shelf = cache.shelf(cache_key(encoder))
    rows = shelf.rows(texts)
    absent = list(dict.fromkeys(texts[int(i)] for i in np.flatnonzero(rows < 0)))
    if absent:
        progress.total("texts", len(absent))
        waiting: list[tuple[list[str], NDArray[np.float32]]] = []
        written = time.monotonic()
        try:
            for positions, block in encoder.encode_batches(absent):
                waiting.append(([absent[p] for p in positions], block))
                progress.done("texts", len(positions))
                if time.monotonic() - written > SECONDS_BETWEEN_WRITES:
                    _flush(shelf, waiting)
                    written = time.monotonic()
        finally:
            _flush(shelf, waiting)
        rows = shelf.rows(texts)
    if (rows < 0).any():
        raise TraubeError(f"{shelf.folder}: {int((rows < 0).sum())} vectors cannot be read back; is the disk damaged?")
    dimensions = shelf.dimensions()
    assert dimensions is not None
    return Vectors(shelf.vectors_path, rows, dimensions), len(absent)


def embed_task(
    task: Task, model: Model, cache: EmbeddingCache, matrix: Path, progress: Progress = SILENT
) -> tuple[Vectors, int]:
    """Vectors of a task's scored texts, computing only those that are not stored.

    A corpus-bound model is fitted on the whole corpus. Any other encodes `task.scored` alone: what only a trainer sees
    (most of 20 Newsgroups) is not encoded here, and loading such a row is an error.

    Returns
    -------
    vectors : Vectors [n, d], a row for each text of the corpus
    encoded : number of texts that had to be encoded

    Raises
    ------
    TraubeError
        If the task has no test split.
    """
    scored = task.scored
    if not len(scored):
        raise TraubeError(f"task '{task.name}': no split's part is 'test', so there is nothing to score")
    if model.corpus_bound:
        return embed(task.texts, model, cache, matrix, progress)
    vectors, encoded = embed([task.texts[i] for i in scored], model, cache, matrix, progress)
    rows = np.full(len(task.corpus), ABSENT, dtype=np.int64)
    rows[scored] = vectors.rows
    return replace(vectors, rows=rows), encoded


def _flush(shelf: Any, waiting: list[tuple[list[str], NDArray[np.float32]]]) -> None:
    if waiting:
        shelf.append([t for texts, _ in waiting for t in texts], np.concatenate([block for _, block in waiting]))
        waiting.clear()


def _embed_bound(texts: Sequence[str], model: Model, matrix: Path, progress: Progress) -> tuple[Vectors, int]:
    # what other versions of the libraries computed stays under its own name
    matrix = matrix.with_name(f"{matrix.name}-{digest(dict(model.numerics))}")
    found = [path for suffix in (".npy", ".npz") if (path := matrix.with_name(matrix.name + suffix)).exists()]
    rows = np.arange(len(texts), dtype=np.int64)
    for path in found:
        try:
            vectors = Vectors(path, rows, _width(path))
            vectors.subset(rows[:1]).load()
            return vectors, 0
        except Exception:  # whatever a damaged file raises, it is computed again
            path.unlink()
    progress.total("texts", len(texts))
    values = model.encode(texts)
    path = matrix.with_name(matrix.name + (".npz" if sparse.issparse(values) else ".npy"))
    with atomic(path) as temporary, temporary.open("wb") as file:
        if sparse.issparse(values):
            sparse.save_npz(file, values, compressed=False)
        else:
            np.save(file, values)
    progress.done("texts", len(texts))
    return Vectors(path, rows, values.shape[1]), len(texts)


def _width(path: Path) -> int:
    if path.suffix == ".npz":
        return int(sparse.load_npz(path).shape[1])
    return int(np.load(path, mmap_mode="r").shape[1])


@dataclass
class CellResult:
    """What became of a cell.

    Attributes
    ----------
    status : done / failed / unsupported / unavailable (does not fit the memory)
    assignments : DataFrame split, level, item, cluster; None unless done
    seconds : the clusterings' time, without the reductions that cells share
    """

    cell: Cell
    status: str
    reason: str = ""
    assignments: pd.DataFrame | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class _Group:
    """The cells that share their reductions."""

    reducer: str
    params: dict[str, Any]
    seed: int | None
    cells: list[Cell]


@dataclass(frozen=True)
class _Failure:
    """Why a unit of work has no result."""

    status: str
    reason: str


@dataclass
class _Open:
    """A cell whose splits are being clustered."""

    cell: Cell
    waiting: int
    seconds: float = 0.0
    labels: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    failure: _Failure | None = None


def cluster(
    task: Task, vectors: Vectors, cells: Sequence[Cell], store: Store, progress: Progress = SILENT
) -> Iterator[CellResult]:
    """Cluster the test splits of a task by each cell's method; results come as cells are finished.

    One cell that fails does not stop the others. Reductions are kept in the store and found there the next time.

    Raises
    ------
    TraubeError
        If a worker process was killed (mostly: out of memory).
    """
    possible = []
    for cell in cells:
        reason = cell.method.unsupported()
        if reason:
            progress.done("cells", 1)
            yield CellResult(cell, "unsupported", reason)
        else:
            possible.append(cell)
    splits = list(task.test_splits(possible[0].split_set)) if possible else []
    if possible and not splits:
        for cell in possible:
            yield CellResult(cell, "failed", f"there are no test splits in the split set '{cell.split_set}'")
        return
    progress.total("clusterings", len(possible) * len(splits))
    yield from _Run(task, vectors, splits, store, progress).results(_groups(possible))


def _groups(cells: Sequence[Cell]) -> list[_Group]:
    groups: dict[str, _Group] = {}
    for cell in cells:
        seed = cell.seed if cell.method.reducer_seeded else None
        key = digest([cell.method.reducer, dict(cell.method.reducer_params), seed, cell.fingerprint])
        group = groups.setdefault(key, _Group(cell.method.reducer, dict(cell.method.reducer_params), seed, []))
        group.cells.append(cell)
    return list(groups.values())


class _Run:
    """Keeps the workers busy: reductions in order, and a group's clusterings as soon as its reductions are there."""

    def __init__(self, task: Task, vectors: Vectors, splits: list[Split], store: Store, progress: Progress) -> None:
        self.task, self.vectors, self.splits, self.store, self.progress = task, vectors, splits, store, progress
        self.ids = task.corpus["text_id"].to_numpy(dtype=object)
        # the largest first, so that no core ends up alone with one of them
        self.order = sorted(range(len(splits)), key=lambda i: -splits[i].size)
        self.views = [vectors.subset(split.rows) for split in splits]
        self.ready: deque[Callable[[], None]] = deque()
        self.later: deque[Callable[[], None]] = deque()
        self.running: dict[Future[Any], Callable[[Future[Any]], None]] = {}
        self.finished: list[CellResult] = []

    def results(self, groups: list[_Group]) -> Iterator[CellResult]:
        for group in groups:
            self._enqueue(group)
        try:
            while self.ready or self.later or self.running:
                while (self.ready or self.later) and len(self.running) < 2 * workers.count():
                    (self.ready or self.later).popleft()()
                done, _ = wait(self.running, return_when=FIRST_COMPLETED)
                for future in done:
                    self.running.pop(future)(future)
                for result in self.finished:
                    self.progress.done("cells", 1)
                    yield result
                self.finished.clear()
        except BaseException:
            workers.stop()
            raise

    def _submit(self, then: Callable[[Future[Any]], None], function: Callable[..., Any], *args: Any) -> None:
        self.running[workers.pool().submit(function, *args)] = then

    def _enqueue(self, group: _Group) -> None:
        if group.reducer == "none":
            self._cluster(group, list(self.views))
            return
        points: list[Any] = [None] * len(self.splits)
        cell = group.cells[0]
        paths = [
            reduction_path(
                self.store, cell.fingerprint, dict(cell.model_numerics), cell.method, group.seed, self.ids[split.rows]
            )
            for split in self.splits
        ]
        # levels of one split have the same texts: one reduction
        first: dict[Path, int] = {}
        for i in self.order:
            first.setdefault(paths[i], i)
        waiting = set(first)

        def arrived(path: Path, result: Any) -> None:
            for i, p in enumerate(paths):
                if p == path:
                    points[i] = result
            waiting.discard(path)
            if not waiting:
                self._cluster(group, points)

        for path, i in first.items():
            if _readable(path, self.splits[i].size):
                arrived(path, self._coordinates(path, i))
                continue
            self.later.append(partial(self._reduce, group, path, i, arrived))

    def _reduce(self, group: _Group, path: Path, i: int, arrived: Callable[[Path, Any], None]) -> None:
        def then(future: Future[Any]) -> None:
            outcome = _outcome(future)
            arrived(path, outcome if isinstance(outcome, _Failure) else self._coordinates(path, i))

        reducer, seed = methods.get_reducer(group.reducer), group.seed or 0
        self._submit(then, workers.reduce, self.views[i], reducer, group.params, seed, path, workers.memory())

    def _coordinates(self, path: Path, i: int) -> Vectors:
        return Vectors(path, np.arange(self.splits[i].size), 0)

    def _cluster(self, group: _Group, points: list[Any]) -> None:
        for cell in group.cells:
            opened = _Open(cell, len(self.splits))
            for i in self.order:
                self.ready.append(partial(self._cluster_split, opened, points[i], i))

    def _cluster_split(self, opened: _Open, points: Vectors | _Failure, i: int) -> None:
        if isinstance(points, _Failure):  # of the reduction
            self._close(opened, i, points)
            return
        method = opened.cell.method
        self._submit(
            lambda future: self._close(opened, i, _outcome(future)),
            workers.cluster,
            points,
            methods.get_clusterer(method.clusterer),
            dict(method.clusterer_params),
            self.splits[i].classes or opened.cell.clusters,
            opened.cell.seed or 0,
            workers.memory(),
        )

    def _close(self, opened: _Open, i: int, outcome: Any) -> None:
        self.progress.done("clusterings", 1)
        opened.waiting -= 1
        if isinstance(outcome, _Failure):
            where = f"{self.splits[i].split} ({self.splits[i].level})"
            opened.failure = opened.failure or _Failure(outcome.status, f"{where}: {outcome.reason}")
        else:
            opened.labels[i], seconds = outcome
            opened.seconds += seconds
        if opened.waiting:
            return
        if opened.failure:
            self.finished.append(CellResult(opened.cell, opened.failure.status, opened.failure.reason))
            return
        sizes = [split.size for split in self.splits]
        assignments = pd.DataFrame(
            {
                "split": np.repeat([s.split for s in self.splits], sizes),
                "level": np.repeat([s.level for s in self.splits], sizes),
                "item": np.concatenate([s.items for s in self.splits]),
                "cluster": np.concatenate([opened.labels[i] for i in range(len(self.splits))]),
            }
        )
        self.finished.append(CellResult(opened.cell, "done", "", assignments, opened.seconds))


def reduction_path(
    store: Store,
    fingerprint: str,
    numerics: Mapping[str, str],
    method: Method,
    seed: int | None,
    text_ids: NDArray[np.object_],
) -> Path:
    """Where the reduced vectors of some texts, in that order, are kept; `numerics` is what computed the vectors."""
    texts = blake2b("".join(text_ids).encode(), digest_size=8).hexdigest()
    seed = seed if method.reducer_seeded else None
    params = dict(method.reducer_params)
    by = [dict(numerics), method.numerics["reducer"], CLUSTERING_VERSION]
    return store.reduction(digest([fingerprint, method.reducer, params, seed, texts, by]))


def _outcome(future: Future[Any]) -> Any:
    """What a unit of work returned, or the failure that it raised."""
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, BrokenProcessPool):
        raise workers.broken(error)
    kinds: dict[type, str] = {Unsupported: "unsupported", DoesNotFit: "unavailable"}
    return _Failure(kinds.get(type(error), "failed"), workers.reason(error))


def _readable(path: Path, n: int) -> bool:
    try:
        return bool(np.load(path, mmap_mode="r").shape[0] == n)
    except (OSError, ValueError, EOFError):
        return False


def score(
    task: Task,
    assignments: pd.DataFrame,
    vectors: Vectors | None = None,
    split_set: str = "default",
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Metrics of every split and level of the given cells.

    Parameters
    ----------
    assignments : DataFrame cell_id, split, level, item, cluster
    vectors : of the corpus; needed where the task has no labels

    Returns
    -------
    DataFrame cell_id, split, level, metric, value, replicates (float64 [GROUPS], the value without each group of texts; None
    of numbers that are no metric)
    """
    splits = {(s.split, s.level): s for s in task.test_splits(split_set)}
    group_of_text = groups_of(task.corpus["text_id"])
    keys, jobs = [], []
    items, clusters_of = (assignments[column].to_numpy(np.int64) for column in ("item", "cluster"))
    for (cell_id, name, level), rows in assignments.groupby(["cell_id", "split", "level"], sort=False).indices.items():
        split = splits[name, level]
        clusters = pd.Series(clusters_of[rows], index=items[rows]).reindex(split.items).to_numpy(np.int64)
        view = None if split.labels is not None or vectors is None else vectors.subset(split.rows)
        keys.append((cell_id, name, level))
        jobs.append((split.labels, clusters, group_of_text[split.rows], view))
    progress.total("scores", len(jobs))
    found: list[tuple[Any, ...]] = []
    try:
        results = workers.pool().map(workers.score, *zip(*jobs, strict=True), chunksize=4)
        for key, (values, without) in zip(keys, results, strict=True):
            progress.done("scores", 1)
            found.extend((*key, metric, value, without.get(metric)) for metric, value in values.items())
    except BrokenProcessPool as error:
        raise workers.broken(error) from None
    return pd.DataFrame(found, columns=["cell_id", "split", "level", "metric", "value", "replicates"])


def evaluate(
    task: Task, model: Model, cells: Sequence[Cell], folder: Path | None = None, progress: Progress = SILENT
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Embed, cluster and score, with nothing running.

    Parameters
    ----------
    cells : from `cells(task, model, ...)`
    folder : where vectors and reductions are kept between calls; by default nothing is kept

    Returns
    -------
    scores : DataFrame cell_id, split, level, metric, value, replicates (see `score`)
    assignments : DataFrame cell_id, split, level, item, cluster

    Raises
    ------
    TraubeError
        If the task is faulty (Task.validate), there are no cells, or a cell fails or is unsupported.
    """
    if not cells:
        raise TraubeError(f"task '{task.name}': there are no cells to evaluate")
    task.validate()
    with TemporaryDirectory(prefix="traube-") as temporary:
        root = folder or Path(temporary)
        store = Store(root / "store")
        matrix = store.matrix(task.name, cells[0].fingerprint)
        vectors, _ = embed_task(task, model, EmbeddingCache(root / "embeddings"), matrix, progress)
        frames = []
        for result in cluster(task, vectors, cells, store, progress):
            if result.assignments is None:
                raise TraubeError(f"{describe(result.cell)}: {result.status}: {result.reason}")
            frames.append(result.assignments.assign(cell_id=result.cell.cell_id))
        assignments = pd.concat(frames, ignore_index=True)
        return score(task, assignments, vectors, cells[0].split_set, progress), assignments


def describe(cell: Cell) -> str:
    """A cell in words."""
    seed = "" if cell.seed is None else f", seed {cell.seed}"
    return f"{cell.task} x {cell.model} x {cell.method.name}{seed}"


__all__ = ["SILENT", "CellResult", "Progress", "cluster", "describe", "embed", "embed_task", "evaluate", "score"]
