"""Embeddings by model fingerprint and text, so that a text is encoded once however many tasks and
runs need it.

A model has a folder with two append-only files: `vectors.f32` (float32 rows) and `index` (a record
per row: the hash of the text and the checksum of the vector). A row counts once its record is
written, so a process that dies half-way leaves nothing wrong behind; the next writer overwrites the
torn end. Rows whose checksum does not fit are dropped and computed again. Writers take a file lock.
"""

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from traube.foundation.errors import TraubeError
from traube.foundation.files import locked, write_sealed_json
from traube.foundation.seals import read_sealed_json
from traube.foundation.system_errors import explained
from traube.models import shared_vectors
from traube.models.vectors import Dense

RECORD = np.dtype([("text", "V16"), ("checksum", "<u4")])
ROWS_AT_ONCE = 8_192


def text_key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(frozen=True)
class Shelf:
    """The cached vectors of one model.

    Attributes
    ----------
    folder : Path
    """

    folder: Path

    @property
    def vectors_path(self) -> Path:
        return self.folder / "vectors.f32"

    @property
    def _index_path(self) -> Path:
        return self.folder / "index"

    def dimensions(self) -> int | None:
        """Length of a vector; None while the shelf is empty."""
        about = read_sealed_json(self.folder / "meta.json", ("dimensions",)) or {}
        known = about.get("dimensions")
        return known if isinstance(known, int) and known > 0 else self._measured()

    def _measured(self) -> int | None:
        """Length of a vector as the other files tell it, if `meta.json` does not."""
        if not self._index_path.exists() or not self.vectors_path.exists():
            return None
        first = np.fromfile(self._index_path, dtype=RECORD, count=1)
        rows = self._index_path.stat().st_size // RECORD.itemsize
        length = self.vectors_path.stat().st_size // (4 * rows) if rows else 0
        vector = np.fromfile(self.vectors_path, dtype=np.float32, count=length)
        return length if length and zlib.crc32(vector.tobytes()) == first["checksum"][0] else None

    def rows(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Row of each text in the vectors file, int64 [n]; -1 where it is absent or damaged."""
        shared_vectors.exchange(self)
        rows = np.full(len(texts), -1, dtype=np.int64)
        records, vectors = self.read()
        if vectors is None:
            return rows
        # later rows win: a damaged row is followed by its replacement
        row_of = {key.tobytes(): row for row, key in enumerate(records["text"])}
        for i, text in enumerate(texts):
            if i % ROWS_AT_ONCE == 0:  # mapped anew: pages that were read count as memory of this process
                vectors = self._mapped(vectors.shape)
            row = row_of.get(text_key(text), -1)
            if row >= 0 and zlib.crc32(vectors[row]) == records["checksum"][row]:
                rows[i] = row
        return rows

    def vectors(self) -> Dense:
        """All rows, float32 [rows, d], memory-mapped."""
        _, vectors = self.read()
        if vectors is None:
            raise TraubeError(f"{self.folder}: nothing is cached here")
        return vectors

    def append(self, texts: Sequence[str], vectors: Dense) -> None:
        """Store the vectors [n, d] of texts, at once or not at all.

        Raises
        ------
        TraubeError
            If the vectors have another length than those on the shelf, or the disk is full.
        """
        block = np.ascontiguousarray(vectors, dtype=np.float32)
        with locked(self.folder), explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            records = np.empty(len(block), dtype=RECORD)
            records["text"] = np.frombuffer(b"".join(map(text_key, texts)), dtype="V16")
            records["checksum"] = [zlib.crc32(row) for row in block]
            self.add(records, block)
        shared_vectors.exchange(self)

    def add(self, records: NDArray[np.void], vectors: Dense) -> tuple[int, int]:
        """Store rows [n, d] with their records [n] while the shelf's lock is held; returns the first of
        their rows and the one after the last.
        """
        width = vectors.shape[1]
        known = self.dimensions()
        if known is None:
            write_sealed_json(self.folder / "meta.json", {"dimensions": width})
        elif known != width:
            raise TraubeError(f"{self.folder}: vectors of length {width} among vectors of length {known}")
        rows = self._count(width)
        _write_at(self.vectors_path, rows * width * 4, vectors.tobytes())
        _write_at(self._index_path, rows * RECORD.itemsize, records.tobytes())
        return rows, rows + len(vectors)

    def _count(self, dimensions: int) -> int:
        """Rows that are whole in both files."""
        sizes = [path.stat().st_size if path.exists() else 0 for path in (self._index_path, self.vectors_path)]
        return min(sizes[0] // RECORD.itemsize, sizes[1] // (dimensions * 4))

    def read(self) -> tuple[NDArray[np.void], Dense | None]:
        """Records [rows] and vectors [rows, d], memory-mapped; no vectors while the shelf is empty."""
        dimensions = self.dimensions()
        rows = self._count(dimensions) if dimensions else 0
        if not dimensions or not rows:
            return np.empty(0, dtype=RECORD), None
        records = np.fromfile(self._index_path, dtype=RECORD, count=rows)
        return records, self._mapped((rows, dimensions))

    def _mapped(self, shape: tuple[int, ...]) -> Dense:
        return np.memmap(self.vectors_path, dtype=np.float32, mode="r", shape=shape)


def _write_at(path: Path, offset: int, content: bytes) -> None:
    path.touch()
    with path.open("r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True)
class EmbeddingCache:
    """All shelves, below one folder."""

    folder: Path

    def shelf(self, fingerprint: str) -> Shelf:
        return Shelf(self.folder / fingerprint)
