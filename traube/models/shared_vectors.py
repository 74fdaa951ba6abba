"""Vectors that several machines share: a shelf of the embedding cache is a copy of *blocks*.

A block is an array of some texts' records and vectors, written once and named by its hash, so that
machines add to one shelf at the same time. Which of its rows a shelf has in common with the others
is kept in its folder: rows of no block are handed over, blocks without rows are taken.
"""

import io
from collections.abc import Collection
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from traube.foundation import paths, settings, share
from traube.foundation.disk import read_json
from traube.foundation.errors import TraubeError
from traube.foundation.files import locked, write_json
from traube.models.vectors import Dense

FOLDER, TAKEN = "embeddings", "shared.json"
MOST = 20_000  # rows of a block
Ranges = dict[str, tuple[int, int]]  # the rows of each block, the first and the one after the last


class Shelf(Protocol):
    """The cached vectors of one model; `traube.models.cache` says what they are."""

    @property
    def folder(self) -> Path: ...

    def read(self) -> tuple[NDArray[np.void], Dense | None]: ...

    def add(self, records: NDArray[np.void], vectors: Dense) -> tuple[int, int]: ...


def exchange(shelf: Shelf) -> None:
    """Take what others have encoded, and hand over what they have not got. Nothing where nothing is
    shared.

    Raises
    ------
    TraubeError
        If the share cannot be reached, or its vectors have another length.
    """
    shared = share.of_home() if settings.share() and shelf.folder.parent == paths.home() / FOLDER else None
    if shared:
        exchange_with(shared, shelf)


def exchange_with(shared: share.Share, shelf: Shelf) -> None:
    """The same with one share."""
    folder = f"{FOLDER}/{shelf.folder.name}"
    names = {name.rpartition("/")[2] for name in shared.remote.versions(folder)}
    taken = _taken(shelf, names)
    if names <= taken.keys() and not _untold(shelf, taken):
        return
    shelf.folder.mkdir(parents=True, exist_ok=True)
    with locked(shelf.folder):
        taken = _taken(shelf, names)
        for name in sorted(names - taken.keys()):
            taken[name] = _take(shelf, shared, f"{folder}/{name}")
            write_json(shelf.folder / TAKEN, taken)
        for first, last in _untold(shelf, taken):
            content = _block(shelf, first, last)
            name = f"{_hash(content)}.npy"
            shared.remote.write(f"{folder}/{name}", content)
            taken[name] = (first, last)
            write_json(shelf.folder / TAKEN, taken)


def check(shared: share.Share, fingerprint: str) -> None:
    """Read all blocks of a shelf back, and hold each against the hash in its name.

    Raises
    ------
    TraubeError
        If one is damaged.
    """
    for name in shared.remote.versions(f"{FOLDER}/{fingerprint}"):
        _read(shared, name)


def _taken(shelf: Shelf, names: Collection[str]) -> Ranges:
    """The blocks of a share whose rows are here; one whose rows were lost since is taken again."""
    rows = len(shelf.read()[0])
    kept = read_json(shelf.folder / TAKEN)
    return {name: (first, last) for name, (first, last) in kept.items() if last <= rows and name in names}


def _untold(shelf: Shelf, taken: Ranges) -> list[tuple[int, int]]:
    """Ranges of rows that are in no block."""
    ranges, at = [], 0
    end = len(shelf.read()[0])
    for first, last in [*sorted(taken.values()), (end, end)]:
        ranges += [(start, min(start + MOST, first)) for start in range(at, first, MOST)]
        at = max(at, last)
    return ranges


def _block(shelf: Shelf, first: int, last: int) -> bytes:
    records, vectors = shelf.read()
    assert vectors is not None
    rows = np.empty(last - first, dtype=[*records.dtype.descr, ("vector", "<f4", (vectors.shape[1],))])
    rows["text"], rows["checksum"] = records["text"][first:last], records["checksum"][first:last]
    rows["vector"] = vectors[first:last]
    file = io.BytesIO()
    np.save(file, rows, allow_pickle=False)
    return file.getvalue()


def _take(shelf: Shelf, shared: share.Share, name: str) -> tuple[int, int]:
    """Put a block's texts that are not here yet on the shelf."""
    rows = np.load(io.BytesIO(_read(shared, name)), allow_pickle=False)
    records = shelf.read()[0]
    here = {text.tobytes() for text in records["text"]}
    new = rows[[text.tobytes() not in here for text in rows["text"]]]
    kept = np.empty(len(new), dtype=records.dtype)
    kept["text"], kept["checksum"] = new["text"], new["checksum"]
    return shelf.add(kept, np.ascontiguousarray(new["vector"]))


def _read(shared: share.Share, name: str) -> bytes:
    """A block as it was written; its name says whether it still is."""
    content = shared.remote.read(name)
    if f"{_hash(content)}.npy" != name.rpartition("/")[2]:
        raise TraubeError(
            f"{shared.remote.where(name)}: damaged; remove it: who has its vectors sends them again, or else its "
            "texts are encoded again"
        )
    return content


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
