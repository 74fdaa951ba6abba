"""Embeddings of a model by text: a local, append-only copy of the blocks in the storage.

The copy has two files, `index` (the hash of a text and the checksum of its vector) and
`<dimensions>.f32` (rows that workers map into memory). A row counts once its record is written. Rows
whose checksum does not match are encoded again. The folder may be deleted.
"""

import io
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from traube._core.disk import read_json
from traube._core.errors import Corrupt, Malformed
from traube._core.files import locked, write_json
from traube._core.system_errors import explain_errors
from traube._storage.blobs import hash_content
from traube._storage.rows import EmbeddingRow
from traube._storage.storage import Storage

RECORD = np.dtype([("text", "V16"), ("checksum", "<u4")])
BLOCK = 20_000  # rows
BLOCKS = "blocks.json"  # the rows of each block
MAPPED_AT_ONCE = 8_192  # rows; pages of a file that were read count as memory of the process

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class EmbeddingCache:
    """Embeddings of one model."""

    storage: Storage  # where the blocks are
    fingerprint: str  # of the model
    numerics: str  # what computes its embeddings

    @property
    def folder(self) -> Path:
        """The local copy."""
        return self.storage.folder / "embeddings" / f"{self.fingerprint}-{self.numerics}"

    def find_rows(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each text, shape (n_texts,); -1 where there is none."""
        self.refresh()
        rows = np.full(len(texts), -1, dtype=np.int64)
        records, path, dimensions = self._read()
        row_of = {key.tobytes(): row for row, key in enumerate(records["text"])}  # later rows replace corrupt ones
        for start in range(0, len(texts) if row_of else 0, MAPPED_AT_ONCE):
            vectors = np.memmap(path, np.float32, "r", shape=(len(records), dimensions))
            for i, text in enumerate(texts[start : start + MAPPED_AT_ONCE], start):
                row = row_of.get(_hash_text(text), -1)
                if row >= 0 and zlib.crc32(vectors[row]) == records["checksum"][row]:
                    rows[i] = row
        return rows

    def locate_vectors(self) -> tuple[Path, int]:
        """Return the file of vectors, float32 row after row, and the number of dimensions."""
        return self._read()[1:]

    def open_vectors(self) -> Floats:
        """Return all rows, of shape (n_rows, n_dimensions), mapped into memory."""
        records, path, dimensions = self._read()
        if not len(records):
            return np.empty((0, dimensions), np.float32)
        return np.memmap(path, np.float32, "r", shape=(len(records), dimensions))

    def append(self, texts: Sequence[str], vectors: Floats, refresh: bool = True) -> None:
        """Store embeddings, of shape (n_texts, n_dimensions), here and, by `refresh`, as blocks in the storage."""
        records = np.empty(len(texts), RECORD)
        vectors = np.ascontiguousarray(vectors, np.float32)
        records["text"] = np.frombuffer(b"".join(map(_hash_text, texts)), "V16")
        records["checksum"] = [zlib.crc32(vector) for vector in vectors]
        with self._hold_lock():
            # a torn row that is overwritten is no longer in any block
            write_json(self.folder / BLOCKS, self._read_taken())
            self._add(records, vectors)
        if refresh:
            self.refresh()

    def refresh(self) -> None:
        """Fetch the blocks that are not in the local copy, and store the rows that are in no block."""
        if self.storage.catalog.is_read_only:
            return
        blocks, taken = self._compare()
        if blocks.keys() == taken.keys() and not self._cut_untaken(taken):
            return
        with self._hold_lock():
            blocks, taken = self._compare()
            for name in sorted(blocks.keys() - taken.keys()):
                try:
                    taken[name] = self._take(self.storage.blobs.get(blocks[name].files["rows"]))
                except Corrupt as error:  # nodes that have its rows store them again; others encode its texts again
                    sys.stderr.write(f"{error}\n")
                    self.storage.remove([blocks[name]])
            for first, last in self._cut_untaken(taken):
                file = io.BytesIO()  # two arrays in NumPy's format: records, then vectors
                for rows in (self._read()[0], self.open_vectors()):
                    np.save(file, rows[first:last], allow_pickle=False)
                content = file.getvalue()
                name = hash_content(content)
                row = EmbeddingRow(
                    fingerprint=self.fingerprint,
                    numerics=self.numerics,
                    block=name,
                    texts=last - first,
                    bytes=len(content),
                )
                self.storage.save(row, {"rows": content})
                taken[name] = (first, last)
            write_json(self.folder / BLOCKS, taken)

    def _compare(self) -> tuple[dict[str, EmbeddingRow], dict[str, tuple[int, int]]]:
        """Return the blocks in the storage, and the rows of those of them that are in the local copy."""
        stored = self.storage.read_rows(EmbeddingRow, fingerprint=self.fingerprint, numerics=self.numerics)
        blocks = {row.block: row for row in stored}
        return blocks, {name: rows for name, rows in self._read_taken().items() if name in blocks}

    def _take(self, content: bytes) -> tuple[int, int]:
        """Append the rows of a block whose texts are not in the local copy; return the first row and the one after the last."""
        file = io.BytesIO(content)
        records, vectors = (np.load(file, allow_pickle=False) for _ in range(2))
        present = self._read()[0]
        place = present.tobytes().find(records.tobytes())
        if place >= 0:  # a process was killed before it recorded the stored rows
            first = place // RECORD.itemsize
            return first, first + len(records)
        known = {text.tobytes() for text in present["text"]}
        new = np.array([text.tobytes() not in known for text in records["text"]])
        return self._add(records[new], vectors[new])

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Lock the local copy against other writers. The lock lies beside the copy, so that the copy may be deleted."""
        with explain_errors(self.folder), locked(self.folder):
            self.folder.mkdir(exist_ok=True)
            yield

    def _read(self) -> tuple[NDArray[np.void], Path, int]:
        """Return the records of whole rows, the file of vectors and their length."""
        path = next(self.folder.glob("*.f32"), None)
        if path is None or not (self.folder / "index").exists():
            return np.empty(0, RECORD), self.folder, 0
        dimensions = int(path.stem)
        records = np.fromfile(self.folder / "index", RECORD)
        return records[: path.stat().st_size // (4 * dimensions)], path, dimensions

    def _add(self, records: NDArray[np.void], vectors: Floats) -> tuple[int, int]:
        """Append rows; return the first of them and the one after the last."""
        present, path, dimensions = self._read()
        if len(present) and dimensions != vectors.shape[1]:
            raise Malformed(f"{self.folder}: vectors of length {vectors.shape[1]} among those of {dimensions}")
        rows, width = len(present), vectors.shape[1]
        path = path if len(present) else self.folder / f"{width}.f32"
        _write_at(path, 4 * rows * width, vectors.tobytes())
        _write_at(self.folder / "index", rows * RECORD.itemsize, records.tobytes())
        return rows, rows + len(vectors)

    def _cut_untaken(self, taken: dict[str, tuple[int, int]]) -> list[tuple[int, int]]:
        """Return ranges of rows that are in no block."""
        ranges, at, end = [], 0, len(self._read()[0])
        for first, last in [*sorted(taken.values()), (end, end)]:
            ranges += [(start, min(start + BLOCK, first)) for start in range(at, first, BLOCK)]
            at = max(at, last)
        return ranges

    def _read_taken(self) -> dict[str, tuple[int, int]]:
        """Return the rows of each block; none for a block whose rows were lost since."""
        rows, kept = len(self._read()[0]), read_json(self.folder / BLOCKS)
        with suppress(ValueError, TypeError):
            return {name: (first, last) for name, (first, last) in kept.items() if last <= rows}
        return {}


def _hash_text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _write_at(path: Path, offset: int, content: bytes) -> None:
    path.touch()
    with path.open("r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
