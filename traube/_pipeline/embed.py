"""Texts to vectors. A text is encoded once for all callers; a model that is fitted on the corpus keeps one matrix of it."""

import math
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube._core.arrays import Ints
from traube._core.errors import Corrupt, TooFew, TraubeError
from traube._core.hashing import digest
from traube._core.measure import Cost, measure
from traube._core.progress import SILENT, Progress
from traube._pipeline.executors import Executor, cores
from traube._pipeline.forgotten import read_forgotten
from traube._storage import CellRow, Storage
from traube._storage.costs import NO_TASK, save_cost
from traube._storage.embedding_cache import EmbeddingCache
from traube.models import Encoder, Model, Precision, Vectors, fingerprint_on, load_model, model_cards
from traube.models.endpoint import Endpoint
from traube.models.packaged import is_packed
from traube.models.prompts import for_pairs
from traube.models.transformer import BATCHES_AT_ONCE
from traube.models.vectors import ABSENT, Dense, locate_matrix, name_vectors, open_matrix, store_matrix
from traube.tasks.stored import get_manifest
from traube.tasks.task import Task

# A crash loses at most this many seconds of encoding, and no more vectors wait to be written.
SECONDS_BETWEEN_WRITES = 5.0
BYTES_BETWEEN_WRITES = 2**25
MATRIX = "matrix"  # the kind of artifact that a corpus-bound model's vectors are


def open_cache(storage: Storage, model: Model) -> EmbeddingCache:
    """Return the stored vectors of a model that is not bound to a corpus."""
    return EmbeddingCache(storage, model.encoder.fingerprint, digest(dict(model.encoder.numerics)))


def make_matrix_key(model: Model, corpus_version: str) -> str:
    """Return the key under which the vectors of a corpus-bound model are stored.

    Other versions of libraries have other keys.
    """
    return name_vectors(fingerprint_on(model.encoder, corpus_version), model.encoder.numerics)


def list_owners(storage: Storage, precisions: Iterable[Precision | None]) -> set[str]:
    """Return the prefixes of the names of the vectors that stored cells, or models as they are now, use."""
    rows, forgotten = storage.read_rows(CellRow), read_forgotten(storage)
    owners = {name_vectors(row.fingerprint, row.numerics["model"]) for row in rows}
    corpora = {manifest.corpus_version for task in storage.list_tasks() if (manifest := get_manifest(storage, task))}
    at_hand = [name for name, card in model_cards().items() if name not in forgotten and not is_packed(card)]
    for name, precision in product(at_hand, {None, *precisions}):
        with suppress(TraubeError):  # if its weights are not here, the vectors that its cells used stay
            model = load_model(name, precision=precision)
            on_corpus = {make_matrix_key(model, version) for version in corpora} if model.corpus_bound else set()
            each = {one.fingerprint for one in (model.encoder, for_pairs(model.encoder))}
            owners |= on_corpus or {name_vectors(fingerprint, model.encoder.numerics) for fingerprint in each}
    return owners


def embed(
    texts: Sequence[str],
    model: Model,
    storage: Storage,
    corpus_version: str,
    progress: Progress = SILENT,
    executor: Executor | None = None,
    task: str = NO_TASK,
) -> tuple[Vectors, int]:
    """Return the vectors of a corpus, computing only those that are not stored; what the encoding cost is stored too.

    Parameters
    ----------
    texts : sequence of str
        The texts of the corpus.
    model : Model
        Encodes them.
    storage : Storage
        Where vectors are kept.
    corpus_version : str
        Hash of the texts, under which the vectors of a corpus-bound model are stored.
    progress : Progress, optional
        Reports the work as it is done.
    executor : Executor, optional
        Encodes, if the model is not bound to the corpus; by default this process does.
    task : str, optional
        Name of the task whose texts these are.

    Returns
    -------
    vectors : Vectors [n, d]
        A row for each text.
    encoded : int
        Number of texts that had to be encoded.
    """
    if model.corpus_bound:
        return _embed_corpus(texts, model, storage, corpus_version, progress, task)
    encoder, cache = cast("Encoder", model.encoder), open_cache(storage, model)
    rows = cache.find_rows(texts)
    absent = list(dict.fromkeys(texts[int(i)] for i in np.flatnonzero(rows < 0)))
    if absent:
        cost = _encode(absent, encoder, cache, progress, executor)
        save_cost(storage, task, fingerprint_on(model, corpus_version), cost)
        rows = cache.find_rows(texts)
    if (rows < 0).any():
        raise Corrupt(f"{cache.folder}: {int((rows < 0).sum())} vectors cannot be read back; is the disk damaged?")
    path, dimensions = cache.locate_vectors()
    return Vectors(path, rows, dimensions), len(absent)


def embed_task(
    task: Task,
    model: Model,
    storage: Storage,
    progress: Progress = SILENT,
    executor: Executor | None = None,
) -> tuple[Vectors, int]:
    """Return the vectors of a task's scored texts, computing only those that are not stored.

    A corpus-bound model is fitted on the whole corpus. Any other encodes `task.scored` alone: what only a trainer
    sees is not encoded here, and loading such a row is an error. `executor` as in `embed`.

    Returns
    -------
    vectors : Vectors [n, d]
        A row for each text of the corpus.
    encoded : int
        Number of texts that had to be encoded.
    """
    scored = task.scored
    if not len(scored):
        raise TooFew(f"task '{task.name}': no split is of the subset 'test', so there is nothing to score")
    needed = np.arange(len(task.corpus)) if model.corpus_bound else scored
    texts = task.texts_at(needed)
    vectors, encoded = embed(texts, model, storage, task.corpus_version, progress, executor, task.name)
    rows = np.full(len(task.corpus), ABSENT, dtype=np.int64)
    rows[needed] = vectors.rows
    return replace(vectors, rows=rows), encoded


def _encode(
    texts: list[str], encoder: Encoder, cache: EmbeddingCache, progress: Progress, executor: Executor | None
) -> Cost:
    """Encode texts, and store what is ready every few seconds and on any error; what an endpoint was paid for, at once."""
    unwritten: list[tuple[list[str], NDArray[np.float32]]] = []
    is_paid = isinstance(encoder, Endpoint)
    paid = encoder.paid if isinstance(encoder, Endpoint) else math.nan

    def flush() -> None:
        if unwritten:
            encoded = [text for texts, _ in unwritten for text in texts]
            cache.append(encoded, np.concatenate([block for _, block in unwritten]), refresh=not is_paid)
            unwritten.clear()

    progress.total("texts", len(texts))
    weights = encoder.load() / 2**20  # once, however many texts there are: not part of the encoding time
    with measure() as taken:
        batches = encoder.encode_batches(texts) if executor is None else executor.encode_batches(encoder, texts)
        written, size, threads = time.monotonic(), 0, 0

        def take(positions: Ints, block: Dense) -> None:
            nonlocal written, size, threads
            threads = min(threads + 1, cores(), BATCHES_AT_ONCE)
            unwritten.append(([texts[p] for p in positions], block))
            progress.done("texts", len(positions))
            size += block.nbytes
            if is_paid or time.monotonic() - written > SECONDS_BETWEEN_WRITES or size > BYTES_BETWEEN_WRITES:
                flush()
                written, size = time.monotonic(), 0

        try:
            for positions, block in batches:
                take(positions, block)
        except BaseException as error:
            for positions, block in _finish(batches, error) if is_paid else ():
                take(positions, block)
            raise
        finally:
            flush()
            if is_paid:
                cache.refresh()
    others_first = executor is not None and executor.yields and encoder.device == "cpu"
    seconds = taken.seconds_on(threads) if others_first else taken.seconds
    money = encoder.paid - paid if isinstance(encoder, Endpoint) else math.nan
    return Cost(len(texts), seconds, weights + taken.memory, money)


def _finish(batches: Iterator[tuple[Ints, Dense]], error: BaseException) -> Iterator[tuple[Ints, Dense]]:
    """Yield the batches that were under way at an endpoint when an error stopped the encoding."""
    if isinstance(batches, Generator):
        with suppress(BaseException):  # the error itself, at the end
            yield batches.throw(error)
            yield from batches


def _embed_corpus(
    texts: Sequence[str], model: Model, storage: Storage, corpus_version: str, progress: Progress, task: str
) -> tuple[Vectors, int]:
    n, key = len(texts), make_matrix_key(model, corpus_version)
    path, encoded = locate_matrix(storage, MATRIX, key), 0
    if path is None:
        progress.total("texts", n)
        with measure() as taken:
            values = model.encoder.encode(texts)
        cost, encoded = Cost(n, taken.seconds_on(), taken.memory), n
        save_cost(storage, task, fingerprint_on(model, corpus_version), cost)
        path = store_matrix(storage, MATRIX, key, values, cost)
        progress.done("texts", n)
    matrix = open_matrix(path)
    return Vectors(path, np.arange(n, dtype=np.int64), matrix.shape[1], is_sparse=sparse.issparse(matrix)), encoded
