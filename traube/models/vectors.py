"""Vectors of a task's texts, wherever they lie; opened where they are needed, in whatever process."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube.foundation import share
from traube.foundation.files import sealed
from traube.foundation.seals import blamed, check_once, damaged

Dense = NDArray[np.float32]
# The row of a text that has no vector.
ABSENT = -1
State = tuple[int, int, int]


@dataclass(frozen=True)
class Vectors:
    """A view of n rows of a stored matrix: cheap to send to another process.

    Attributes
    ----------
    path : the matrix: `.f32` (rows of the embedding cache), `.npy` (dense) or `.npz` (sparse)
    rows : int64 [n], which of its rows; ABSENT where there is none
    dimensions : length of a vector
    """

    path: Path
    rows: NDArray[np.int64]
    dimensions: int

    def __len__(self) -> int:
        return len(self.rows)

    def subset(self, rows: NDArray[np.int64]) -> "Vectors":
        return replace(self, rows=self.rows[rows])

    @property
    def is_sparse(self) -> bool:
        return self.path.suffix == ".npz"

    def held(self) -> "Held":
        """The same, held in memory. Raises what `load` does."""
        return Held(self.path, np.arange(len(self)), self.dimensions, self.load())

    def load(self) -> Dense | sparse.csr_matrix:
        """The vectors themselves, float32 [n, d].

        Raises
        ------
        ValueError
            If a row is absent.
        Damaged
            If the matrix is not what was written.
        """
        if (self.rows == ABSENT).any():
            raise ValueError(
                f"{int((self.rows == ABSENT).sum())} of {len(self)} texts have no vector: they are not scored"
            )
        if self.path.suffix != ".f32":
            return stored_matrix(self.path)[self.rows]
        # mapped for this once: pages of a mapping that stays count as memory of this process
        height = self.path.stat().st_size // (4 * self.dimensions)  # a writer may be in the middle of the last row
        mapped = np.memmap(self.path, dtype=np.float32, mode="r", shape=(height, self.dimensions))
        return np.asarray(mapped[self.rows])


@dataclass(frozen=True)
class Held(Vectors):
    """Vectors that are in memory, for a process that does not see their file."""

    values: Dense | sparse.csr_matrix

    @property
    def nbytes(self) -> int:
        """Bytes that the values take."""
        if isinstance(self.values, np.ndarray):
            return self.values.nbytes
        return int(self.values.data.nbytes + self.values.indices.nbytes + self.values.indptr.nbytes)

    def load(self) -> Dense | sparse.csr_matrix:
        return self.values.copy()  # as from a file: whoever has it may change it


def save_matrix(path: Path, values: Dense | sparse.csr_matrix) -> None:
    """Write a matrix, sealed: `.npz` where it is sparse, else `.npy`."""
    with sealed(path) as temporary, temporary.open("wb") as file:
        if sparse.issparse(values):
            sparse.save_npz(file, values, compressed=False)
        else:
            np.save(file, values)


def stored_matrix(path: Path) -> Any:
    """A matrix as it was written: csr_matrix, or memory-mapped array.

    A process checks it once. One without a seal has to be as long as it says that it is.

    Raises
    ------
    Damaged
        If it is another, or cannot be read.
    FileNotFoundError
    """
    share.bring(path)
    with blamed(path):
        return _open(path, _state(path))


def _state(path: Path) -> State:
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


@lru_cache(maxsize=2)
def _open(path: Path, _state: State) -> Any:
    has_seal = check_once(path)
    if path.suffix == ".npz":
        return sparse.load_npz(path).tocsr()
    values = np.load(path, mmap_mode="r")
    if not has_seal and values.offset + values.nbytes != path.stat().st_size:
        raise damaged(path, "it has another length than it says")
    return values
