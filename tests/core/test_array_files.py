"""Files of arrays from others are the arrays that were written, or one line: nothing is unpickled or taken at its word."""

import io
import random
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.errors import refused
from traube._core.array_files import read_array, read_csr
from traube._core.errors import Corrupt, TooLarge, TraubeError
from traube._core.measure import measure

MATRIX = sparse.csr_matrix(np.array([[0, 1.5, 0], [2, 0, 0], [0, 0, 0], [0, 3, 4]], dtype=np.float32))


def npy(values: object, *, header: str = "") -> bytes:
    """The bytes of an array, perhaps with a header that another program wrote."""
    file = io.BytesIO()
    np.save(file, np.asarray(values), allow_pickle=True)
    if not header:
        return file.getvalue()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + b"\0" * 64


def npz(path: Path, **members: bytes | None) -> Path:
    """Write a csr matrix, some of whose members are others, or missing."""
    with io.BytesIO() as file:
        sparse.save_npz(file, MATRIX)
        with zipfile.ZipFile(file) as archive:
            found = {name: archive.read(name) for name in archive.namelist()}
    found |= {f"{name}.npy": data for name, data in members.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in found.items():
            if data is not None:
                archive.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.empty((0, 3)),
        np.array(1.5),
        np.array([1.5], dtype=">f4"),
    ],
)
def test_arrays_are_read_as_they_were_written(tmp_path: Path, values: np.ndarray) -> None:
    (tmp_path / "a.npy").write_bytes(npy(values))
    found = read_array(tmp_path / "a.npy")
    assert found.dtype == values.dtype and found.shape == values.shape and np.array_equal(found, values)
    assert found.flags.writeable


@pytest.mark.parametrize("matrix", [MATRIX, sparse.csr_matrix((3, 0), dtype=np.float32), MATRIX.astype(np.float64)])
def test_sparse_matrices_are_read_as_they_were_written(tmp_path: Path, matrix: sparse.csr_matrix) -> None:
    sparse.save_npz(tmp_path / "a.npz", matrix)
    found = read_csr(tmp_path / "a.npz")
    assert found.dtype == matrix.dtype and found.shape == matrix.shape and (found != matrix).nnz == 0


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
BAD_ARRAYS: dict[str, bytes] = {
    "nothing": b"",
    "text": b"an array",
    "pickle": npy(np.array([print], dtype=object)),
    "objects": npy(0, header="{'descr': '|O', 'fortran_order': False, 'shape': (8,), }"),
    "huge": npy(0, header=HUGE),
    "negative": npy(0, header="{'descr': '<f4', 'fortran_order': False, 'shape': (-16, -1), }"),
    "overflow": npy(0, header="{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
    "integers": npy([1, 2]),
    "words": npy(["a", "b"]),
    "records": npy(0, header="{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (8,), }"),
    "no dtype": npy(0, header="{'descr': 'x9', 'fortran_order': False, 'shape': (8,), }"),
    "no shape": npy(0, header="{'descr': '<f4', 'fortran_order': False, 'shape': 'all', }"),
    "call": npy(0, header="{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (8,), }"),
    "deep": npy(0, header="(" * 9_000),
    "long": npy(0, header="{'descr': '<f4', 'fortran_order': False, 'shape': (16,), }" + " " * 60_000),
    "infinite": npy([1.0, np.inf]),
    "not a number": npy([1.0, np.nan]),
    "cut off": npy([1.0, 2.0])[:-1],
    "more": npy([1.0, 2.0]) + b"\0",
    "version": npy([1.0]).replace(b"NUMPY\x01", b"NUMPY\x09"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_what_is_no_array_of_floats_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.npy").write_bytes(BAD_ARRAYS[name])
    with measure() as taken, refused(Corrupt, "a.npy"):
        read_array(tmp_path / "a.npy")
    assert not taken.memory > 100


BAD_MATRICES: dict[str, dict[str, bytes | None]] = {
    "no indices": {"indices": None},
    "one more": {"more": npy([1])},
    "pickle": {"data": npy(np.array([print], dtype=object))},
    "outside": {"indices": npy(np.array([1, 0, 1, 7], dtype=np.int32))},
    "negative": {"indices": npy(np.array([1, 0, -1, 2], dtype=np.int32))},
    "pointers": {"indptr": npy(np.array([0, 1, 2, 2, 9_000_000], dtype=np.int32))},
    "falling": {"indptr": npy(np.array([0, 3, 1, 2, 4], dtype=np.int32))},
    "rows": {"shape": npy(np.array([10**12, 3]))},
    "columns": {"shape": npy(np.array([4, 1]))},
    "cube": {"shape": npy(np.array([4, 3, 1]))},
    "values": {"data": npy(np.array([1, 2, 3], dtype=np.float32))},
    "integers": {"data": npy(np.array([1, 2, 3, 4]))},
    "nan": {"data": npy(np.array([1, 2, np.nan, 4], dtype=np.float32))},
    "huge": {"data": npy(0, header=HUGE)},
    "columnwise": {"format": npy(np.array(b"csc"))},
}


@pytest.mark.parametrize("name", BAD_MATRICES)
def test_what_is_no_sparse_matrix_is_one_line(tmp_path: Path, name: str) -> None:
    with refused(Corrupt, "a.npz"):
        read_csr(npz(tmp_path / "a.npz", **BAD_MATRICES[name]))


def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_does(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", data=b"\0" * 2**28)
    with measure() as taken, refused(TooLarge, "a.npz", "64 MiB"):
        read_csr(path)
    assert not taken.memory > 100


def test_an_archive_that_lies_about_its_size_is_one_line(tmp_path: Path) -> None:
    """Both headers of the member promise a kilobyte."""
    path = npz(tmp_path / "a.npz", data=b"\0" * 2**28)
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 2**28), struct.pack("<I", 2**10)))
    with measure() as taken, refused(Corrupt, "a.npz"):
        read_csr(path)
    assert not taken.memory > 100


@pytest.mark.parametrize(("name", "read"), [("a.npy", read_array), ("a.npz", read_csr)])
def test_any_byte_may_be_damaged(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    whole = npy(np.arange(12, dtype=np.float32).reshape(3, 4)) if name == "a.npy" else npz(tmp_path / name).read_bytes()
    draw = random.Random(60)
    for _ in range(1_000):
        data = bytearray(whole)
        for _ in range(draw.choice([1, 1, 2, 8])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (tmp_path / name).write_bytes(data[: draw.choice([len(data), draw.randrange(len(data))])])
        with suppress(TraubeError):
            read(tmp_path / name)
