"""Vectors of a task's texts, wherever they lie; opened where they are needed, in whatever process."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube.models.base import Dense

# The row of a text that has no vector.
ABSENT = -1


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

    def load(self) -> Dense | sparse.csr_matrix:
        """The vectors themselves, float32 [n, d].

        Raises
        ------
        ValueError
            If a row is absent.
        """
        if (self.rows == ABSENT).any():
            raise ValueError(
                f"{int((self.rows == ABSENT).sum())} of {len(self)} texts have no vector: they are not scored"
            )
        state = self.path.stat()
        return _open(self.path, self.dimensions, (state.st_mtime_ns, state.st_size))[self.rows]


@lru_cache(maxsize=2)
def _open(path: Path, dimensions: int, _state: tuple[int, int]) -> Any:
    if path.suffix == ".npz":
        return sparse.load_npz(path).tocsr()
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r")
    rows = path.stat().st_size // (4 * dimensions)  # a writer may be in the middle of the last row
    return np.memmap(path, dtype=np.float32, mode="r", shape=(rows, dimensions))
