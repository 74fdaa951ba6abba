"""Vectors of a task's texts, wherever they lie; opened where they are needed, in whatever process."""

import io
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from traube._core.array_files import read_csr
from traube._core.arrays import Ints
from traube._core.errors import Corrupt, TraubeError
from traube._core.hashing import digest
from traube._core.measure import Cost
from traube._core.short_repr import ShortRepr
from traube._storage import ArtifactRow, Storage
from traube._storage.blobs import hash_content

Dense = NDArray[np.float32]
# The row of a text that has no vector.
ABSENT = -1
_ZIP = b"PK"  # how a sparse matrix begins


@dataclass(frozen=True, repr=False)
class Vectors(ShortRepr):
    """A view of n rows of a stored matrix: cheap to send to another process.

    Attributes
    ----------
    path : Path
        The matrix: `.f32` (rows of the embedding cache), or what `pack_matrix` makes.
    rows : ndarray of shape (n,)
        Which of its rows; `ABSENT` where there is none.
    dimensions : int
        Length of a vector.
    is_sparse : bool
        True for a sparse matrix.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from traube.models import Vectors
    >>> path = Path(tempfile.mkdtemp()) / "vectors.f32"
    >>> np.eye(3, dtype=np.float32).tofile(path)
    >>> Vectors(path, np.array([2, 0]), dimensions=3).load().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    path: Path  # the matrix: `.f32` (rows of the embedding cache), or what `pack_matrix` makes
    rows: Ints  # [n], which of its rows; ABSENT where there is none
    dimensions: int  # length of a vector
    is_sparse: bool = field(default=False, kw_only=True)

    def __len__(self) -> int:
        return len(self.rows)

    def subset(self, rows: Ints) -> "Vectors":
        """Return some of the rows."""
        return replace(self, rows=self.rows[rows])

    def load_into_memory(self) -> "Held":
        """Return the same vectors, held in memory. Raises what `load` does."""
        return Held(self.path, np.arange(len(self)), self.dimensions, self.load(), is_sparse=self.is_sparse)

    def load(self) -> Dense | sparse.csr_matrix:
        """Return the vectors themselves, float32 [n, d].

        Returns
        -------
        ndarray or csr_matrix
            The vectors.

        Raises
        ------
        ValueError
            If a row is absent.
        Corrupt
            If the file holds no matrix.
        """
        if absent := np.count_nonzero(self.rows == ABSENT):
            raise ValueError(f"{absent} of {len(self)} texts have no vector: they are not scored")
        if self.path.suffix != ".f32":
            return open_matrix(self.path)[self.rows]
        # mapped only for this call: pages of a lasting mapping count as memory of this process
        height = self.path.stat().st_size // (4 * self.dimensions)  # a writer may be in the middle of the last row
        mapped = np.memmap(self.path, dtype=np.float32, mode="r", shape=(height, self.dimensions))
        return np.asarray(mapped[self.rows])


@dataclass(frozen=True, repr=False)
class Held(Vectors):
    """Vectors that are in memory, for a process that does not see their file."""

    values: Dense | sparse.csr_matrix

    @property
    def nbytes(self) -> int:
        """Size of the values in bytes."""
        if isinstance(self.values, np.ndarray):
            return self.values.nbytes
        return int(self.values.data.nbytes + self.values.indices.nbytes + self.values.indptr.nbytes)

    @override
    def load(self) -> Dense | sparse.csr_matrix:
        return self.values.copy()  # a copy, as from a file: callers may change it


def name_vectors(fingerprint: str, numerics: Mapping[str, str]) -> str:
    """Return the prefix of the names of all vectors that a model made, or that were made of these."""
    return f"{fingerprint}-{digest(dict(numerics))}"


def pack_matrix(values: Dense | sparse.csr_matrix) -> bytes:
    """Return a matrix as SciPy's `.npz` where it is sparse, else as NumPy's `.npy`."""
    file = io.BytesIO()
    if sparse.issparse(values):
        sparse.save_npz(file, values, compressed=False)
    else:
        np.save(file, values)
    return file.getvalue()


def store_matrix(
    storage: Storage, kind: str, key: str, values: Dense | sparse.csr_matrix, cost: Cost | None = None
) -> Path:
    """Store a matrix, with what it took, as an artifact that is found by kind and key, and return its file."""
    content = pack_matrix(values)
    row = ArtifactRow(kind=kind, key=key, bytes=len(content), texts=values.shape[0])
    if cost is not None:
        row = replace(row, seconds=cost.seconds, memory=cost.memory)
    storage.save(row, {"matrix": content})
    return storage.get_path(hash_content(content))


def locate_matrix(storage: Storage, kind: str, key: str) -> Path | None:
    """Return the file of a stored matrix; None if there is none or it is corrupt."""
    for row in storage.read_rows(ArtifactRow, kind=kind, key=key):
        with suppress(Corrupt):
            return storage.get_path(row.files["matrix"])
    return None


def open_matrix(path: Path) -> Any:
    """Return a matrix as `pack_matrix` wrote it: csr_matrix, or array mapped into memory.

    Raises
    ------
    Corrupt
        If the file holds none.
    """
    state = path.stat()
    try:
        return _open(path, (state.st_mtime_ns, state.st_size, state.st_ino))
    except (TraubeError, ValueError, EOFError) as error:
        raise Corrupt(f"{path}: holds no matrix ({error})") from error


@lru_cache(maxsize=2)
def _open(path: Path, _state: tuple[int, int, int]) -> Any:
    with path.open("rb") as file:
        is_sparse = file.read(len(_ZIP)) == _ZIP
    return read_csr(path) if is_sparse else np.load(path, mmap_mode="r")
