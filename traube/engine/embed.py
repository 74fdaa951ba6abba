"""Texts to vectors.

A text is encoded once, whoever asks; a model that is fitted on the corpus keeps one matrix of it.

Which folder a task's vectors lie in is not decided here, but in `traube.engine.workbench`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube.engine.executors import Executor
from traube.engine.progress import SILENT, Progress
from traube.foundation import share
from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest
from traube.foundation.measure import measured
from traube.models import EmbeddingCache, Encoder, Model, Vectors, cache_key
from traube.models.cache import Shelf
from traube.models.vectors import ABSENT, Dense, save_matrix, stored_matrix
from traube.store import Cost
from traube.tasks.task import Task

# A crash loses at most this many seconds of encoding, and no more vectors wait to be written.
SECONDS_BETWEEN_WRITES = 5.0
BYTES_BETWEEN_WRITES = 2**25
Told = Callable[[Cost], None]
Batches = Iterator[tuple[NDArray[np.int64], Dense]]


def _tell_nobody(cost: Cost) -> None:
    pass


def embed(
    texts: Sequence[str],
    model: Model,
    cache: EmbeddingCache,
    matrix: Path,
    progress: Progress = SILENT,
    told: Told = _tell_nobody,
    executor: Executor | None = None,
) -> tuple[Vectors, int]:
    """Vectors of a corpus, computing only those that are not stored.

    Parameters
    ----------
    texts : the corpus, in order
    matrix : where the vectors of a corpus-bound model are kept (path without suffix; what computes
        them is added to the name)
    told : of what the encoding took, if anything was encoded
    executor : encodes, if the model is not bound to the corpus; by default this process does

    Returns
    -------
    vectors : Vectors [n, d]
    encoded : number of texts that had to be encoded
    """
    if model.corpus_bound:
        return _embed_corpus(texts, model.encoder, matrix, progress, told)
    encoder = cast("Encoder", model.encoder)
    shelf = cache.shelf(cache_key(encoder))
    rows = shelf.rows(texts)
    absent = list(dict.fromkeys(texts[int(i)] for i in np.flatnonzero(rows < 0)))
    if absent:
        _encode(absent, encoder, shelf, progress, told, executor)
        rows = shelf.rows(texts)
    if (rows < 0).any():
        raise TraubeError(f"{shelf.folder}: {int((rows < 0).sum())} vectors cannot be read back; is the disk damaged?")
    return Vectors(shelf.vectors_path, rows, shelf.dimensions() or 0), len(absent)


def embed_task(
    task: Task,
    model: Model,
    cache: EmbeddingCache,
    matrix: Path,
    progress: Progress = SILENT,
    told: Told = _tell_nobody,
    executor: Executor | None = None,
) -> tuple[Vectors, int]:
    """Vectors of a task's scored texts, computing only those that are not stored.

    A corpus-bound model is fitted on the whole corpus. Any other encodes `task.scored` alone: what
    only a trainer sees (most of 20 Newsgroups) is not encoded here, and loading such a row is an
    error. `executor` as in `embed`.

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
        return embed(task.texts, model, cache, matrix, progress, told)
    vectors, encoded = embed(task.texts_at(scored), model, cache, matrix, progress, told, executor)
    rows = np.full(len(task.corpus), ABSENT, dtype=np.int64)
    rows[scored] = vectors.rows
    return replace(vectors, rows=rows), encoded


def _encode(
    texts: list[str], encoder: Encoder, shelf: Shelf, progress: Progress, told: Told, executor: Executor | None
) -> None:
    """Encode texts, and put what is ready on the shelf every few seconds and on any error."""
    progress.total("texts", len(texts))
    weights = encoder.load() / 2**20  # once, however many texts there are: no part of their time
    with measured() as taken:
        batches = encoder.encode_batches(texts) if executor is None else executor.encode_batches(encoder, texts)
        _keep_all(texts, batches, shelf, progress)
    told(Cost(len(texts), taken.seconds, weights + taken.memory))


def _keep_all(texts: list[str], batches: Batches, shelf: Shelf, progress: Progress) -> None:
    unwritten: list[tuple[list[str], NDArray[np.float32]]] = []
    written, size = time.monotonic(), 0
    try:
        for positions, block in batches:
            unwritten.append(([texts[p] for p in positions], block))
            progress.done("texts", len(positions))
            size += block.nbytes
            if time.monotonic() - written > SECONDS_BETWEEN_WRITES or size > BYTES_BETWEEN_WRITES:
                _flush(shelf, unwritten)
                written, size = time.monotonic(), 0
    finally:
        _flush(shelf, unwritten)


def _flush(shelf: Shelf, unwritten: list[tuple[list[str], NDArray[np.float32]]]) -> None:
    if unwritten:
        shelf.append([t for texts, _ in unwritten for t in texts], np.concatenate([block for _, block in unwritten]))
        unwritten.clear()


def _embed_corpus(
    texts: Sequence[str], model: Model, matrix: Path, progress: Progress, told: Told
) -> tuple[Vectors, int]:
    # what other versions of the libraries computed stays under its own name
    matrix = matrix.with_name(f"{matrix.name}-{digest(dict(model.numerics))}")
    rows = np.arange(len(texts), dtype=np.int64)
    for path in (matrix.with_name(matrix.name + suffix) for suffix in (".npy", ".npz")):
        share.bring(path)
        if not path.exists():
            continue
        try:
            height, width = stored_matrix(path).shape
            if height == len(texts):
                return Vectors(path, rows, width), 0
        except (TraubeError, FileNotFoundError, ValueError):
            pass
        path.unlink(missing_ok=True)  # damaged: it is computed again
    progress.total("texts", len(texts))
    with measured() as taken:
        values = model.encode(texts)
    told(Cost(len(texts), taken.seconds, taken.memory))
    path = matrix.with_name(matrix.name + (".npz" if sparse.issparse(values) else ".npy"))
    save_matrix(path, values)
    progress.done("texts", len(texts))
    return Vectors(path, rows, values.shape[1]), len(texts)
