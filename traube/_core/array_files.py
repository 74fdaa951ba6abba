"""Arrays and sparse matrices in NumPy's `.npy` and SciPy's `.npz` files from others.

A header may promise more than the file holds, a small archive may unpack to gigabytes, and indices may lie outside the
matrix, where compiled code reads them unchecked. All of this is checked before anything is allocated or computed, and
nothing is unpickled.
"""

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy import sparse

from traube._core.errors import Corrupt, TraubeError, first_line
from traube._core.inputs import check_file, read_bytes, refuse_bomb

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_MEMBERS = {"indices.npy": "iu", "indptr.npy": "iu", "data.npy": "f", "shape.npy": "iu", "format.npy": "S"}


def read_array(path: Path, kinds: str = "f") -> NDArray[Any]:
    """Return the array of a `.npy` file.

    Parameters
    ----------
    path : Path
        The file.
    kinds : str, default="f"
        Kinds of dtypes that are allowed, as in ``dtype.kind``.

    Returns
    -------
    ndarray
        The array, as it was written; floats are finite.

    Raises
    ------
    TraubeError
        If the file is missing, corrupt or too large, or holds anything else.
    """
    try:
        return _parse(read_bytes(path), kinds)
    except Exception as error:  # NumPy's parser of headers raises many kinds
        raise _corrupt(path, error) from None


def read_csr(path: Path) -> sparse.csr_matrix:
    """Return the matrix of a `.npz` file that `scipy.sparse.save_npz` wrote of a csr_matrix of floats.

    Raises
    ------
    TraubeError
        If the file is missing, corrupt, or too large once it is unpacked, or holds anything else.
    """
    try:
        check_file(path)
        with zipfile.ZipFile(path) as archive:
            refuse_bomb(path, sum(entry.file_size for entry in archive.infolist()))
            if sorted(archive.namelist()) != sorted(_MEMBERS):
                raise ValueError("its members are not those of a csr matrix")
            arrays = {name: _parse(_unpack(archive, name), kinds) for name, kinds in _MEMBERS.items()}
        if arrays["format.npy"].tobytes() != b"csr" or arrays["shape.npy"].shape != (2,):
            raise ValueError("it is no csr matrix")
        shape = tuple(map(int, arrays["shape.npy"]))
        matrix = sparse.csr_matrix((arrays["data.npy"], arrays["indices.npy"], arrays["indptr.npy"]), shape=shape)
        matrix.check_format(full_check=True)  # that all indices lie inside
    except Exception as error:  # as above, and zipfile's, zlib's and SciPy's
        raise _corrupt(path, error) from None
    return matrix


def _unpack(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member of an archive; no more bytes than it promises are unpacked."""
    with archive.open(name) as member:
        return member.read(archive.getinfo(name).file_size)


def _parse(data: bytes, kinds: str) -> NDArray[Any]:
    """Return the array of a `.npy` file's bytes; raise a ValueError, or whatever NumPy raises, if they hold none."""
    file = io.BytesIO(data)
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format")
    shape, is_fortran, dtype = _HEADERS[version](file)
    if dtype.kind not in kinds or dtype.hasobject:
        raise ValueError(f"dtype {dtype}")
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f"shape {shape} does not fit the size")
    values = np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if is_fortran else "C")
    if dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("numbers that are not finite")
    return values.copy()  # which can be written to


def _corrupt(path: Path, error: Exception) -> TraubeError:
    if isinstance(error, TraubeError):
        return error
    return Corrupt(f"{path}: corrupt ({first_line(error)}); restore a backup of it")
