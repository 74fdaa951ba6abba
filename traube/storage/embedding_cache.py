"""Embeddings of a model by text: a local, append-only copy of the blocks in the storage.

The copy has two files, `index` (the hash of a text and the checksum of its vector) and
`<dimensions>.f32` (rows that workers map into memory). A row counts once its record is written. Rows
whose checksum does not match are encoded again. The folder may be deleted.
"""

import io
import json
import os
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from traube.foundation.errors import TraubeError
from traube.storage.blobs import Corrupt, hash_content
from traube.storage.storage import Storage

if TYPE_CHECKING:
    from filelock import FileLock

RECORD = np.dtype([("text", "V16"), ("checksum", "<u4")])
BLOCK = 20_000  # rows
MAPPED_AT_ONCE = 8_192  # rows; pages of a file that were read count as memory of the process

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class EmbeddingCache:
    """Embeddings of one model.

    Attributes
    ----------
    storage : Storage
        Where the blocks are.
    fingerprint, numerics : str
        The model, and what computes its embeddings.
    """

    storage: Storage
    fingerprint: str
    numerics: str

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

    def open_vectors(self) -> Floats:
        """Return all rows, of shape (n_rows, n_dimensions), mapped into memory."""
        records, path, dimensions = self._read()
        if not len(records):
            return np.empty((0, dimensions), np.float32)
        return np.memmap(path, np.float32, "r", shape=(len(records), dimensions))

    def append(self, texts: Sequence[str], vectors: Floats) -> None:
        """Store embeddings, of shape (n_texts, n_dimensions), here and as blocks in the storage.

        Raises
        ------
        TraubeError
            If they have another length than those that are there.
        """
        records = np.empty(len(texts), RECORD)
        vectors = np.ascontiguousarray(vectors, np.float32)
        records["text"] = np.frombuffer(b"".join(map(_hash_text, texts)), "V16")
        records["checksum"] = [zlib.crc32(vector) for vector in vectors]
        with self._lock():
            self._add(records, vectors)
        self.refresh()

    def refresh(self) -> None:
        """Take the blocks that are not here, and store the rows that are in no block."""
        key = {"fingerprint": self.fingerprint, "numerics": self.numerics}
        blocks = {row["block"]: row for row in self.storage.read_rows("embedding", **key)}
        with self._lock():
            taken = self._read_taken()
            for name in sorted(blocks.keys() - taken.keys()):
                try:
                    rows = np.load(io.BytesIO(self.storage.blobs.get(blocks[name]["files"]["rows"])))
                except Corrupt as error:  # its texts are encoded again
                    sys.stderr.write(f"{error}\n")
                    continue
                records = np.empty(len(rows), RECORD)
                records["text"], records["checksum"] = rows["text"], rows["checksum"]
                taken[name] = self._add(records, np.ascontiguousarray(rows["vector"]))
            for first, last in self._cut_untaken(taken):
                content = self._make_block(first, last)
                name = hash_content(content)
                self.storage.save("embedding", {**key, "block": name, "texts": last - first}, {"rows": content})
                taken[name] = (first, last)
            self._write_taken(taken)

    def _lock(self) -> "FileLock":
        from filelock import FileLock

        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / "lock")

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
            raise TraubeError(f"{self.folder}: vectors of length {vectors.shape[1]} among those of {dimensions}")
        rows, width = len(present), vectors.shape[1]
        path = path if len(present) else self.folder / f"{width}.f32"
        _write_at(path, 4 * rows * width, vectors.tobytes())
        _write_at(self.folder / "index", rows * RECORD.itemsize, records.tobytes())
        return rows, rows + len(vectors)

    def _make_block(self, first: int, last: int) -> bytes:
        records, vectors = self._read()[0][first:last], self.open_vectors()[first:last]
        rows = np.empty(last - first, [*RECORD.descr, ("vector", "<f4", (vectors.shape[1],))])
        rows["text"], rows["checksum"], rows["vector"] = records["text"], records["checksum"], vectors
        file = io.BytesIO()
        np.save(file, rows, allow_pickle=False)
        return file.getvalue()

    def _cut_untaken(self, taken: dict[str, tuple[int, int]]) -> list[tuple[int, int]]:
        """Return ranges of rows that are in no block."""
        ranges, at, end = [], 0, len(self._read()[0])
        for first, last in [*sorted(taken.values()), (end, end)]:
            ranges += [(start, min(start + BLOCK, first)) for start in range(at, first, BLOCK)]
            at = max(at, last)
        return ranges

    def _read_taken(self) -> dict[str, tuple[int, int]]:
        """Return the rows of each block; of one whose rows were lost since, none."""
        rows = len(self._read()[0])
        try:
            kept = json.loads((self.folder / "blocks.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return {name: (first, last) for name, (first, last) in kept.items() if last <= rows}

    def _write_taken(self, taken: dict[str, tuple[int, int]]) -> None:
        temporary = self.folder / "blocks.json.new"
        temporary.write_text(json.dumps(taken))
        temporary.replace(self.folder / "blocks.json")


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
