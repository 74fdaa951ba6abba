"""Reading of files that people hand in, within limits.

Whatever the file is, reading it ends soon and fits the memory, or the file is refused in one line.
"""

import gzip
import io
import json
import os
import stat
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from traube._core.errors import Inaccessible, Invalid, Malformed, Missing, TooLarge, TraubeError

LARGEST = 4 * 2**30  # bytes that are read of one file, after unpacking
UNPACKED = 50  # a gzip file of texts is three to twenty times as large when it is unpacked; a bomb, a thousand times
ALWAYS = 64 * 2**20  # bytes that any gzip file may unpack to
CHUNK = 2**20
LONGEST_NAME, LONGEST_PATH = 255, 4096  # bytes; what file systems take


_KINDS = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}


def check_file(path: Path) -> os.stat_result:
    """Refuse anything but a plain file: reading a pipe or a device may never end."""
    try:
        state = path.stat()
    except FileNotFoundError:
        raise Missing(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise Inaccessible(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not stat.S_ISREG(state.st_mode):
        raise Inaccessible(f"{path}: is a {_KINDS.get(stat.S_IFMT(state.st_mode), 'device')}, not a file")
    return state


def open_limited(path: Path, most: int | None = None) -> io.BufferedReader:
    """Open a file, unpacked if its name ends in `.gz`, for reading at most `most` bytes.

    Parameters
    ----------
    path : Path
        The file.
    most : int, optional
        Largest number of bytes. By default `LARGEST`; of a gzip file, also no more than `UNPACKED` times its size.

    Returns
    -------
    BufferedReader
        The open file.

    Raises
    ------
    TraubeError
        If it is no plain file or too large; while it is read, if it unpacks to too much.
    """
    size = check_file(path).st_size
    most = LARGEST if most is None else most
    packed = path.suffix == ".gz"
    if size > most:
        limit = f"the {format_size(most)} that are read of such a file"
        raise TooLarge(f"{path}: {format_size(size)} is more than {limit}")
    if packed:
        most = min(most, _most_unpacked(size))
    try:
        file: Any = gzip.open(path, "rb") if packed else path.open("rb", buffering=0)  # noqa: SIM115 (closed by what wraps it)
    except OSError as error:
        raise Inaccessible(f"{path}: cannot be read ({error.strerror})") from None
    return io.BufferedReader(_Bounded(file, path, most), CHUNK)


def _most_unpacked(size: int) -> int:
    """Return how many bytes a packed file of a given size may unpack to."""
    return max(ALWAYS, UNPACKED * size)


def refuse_bomb(path: Path, unpacked: int) -> None:
    """Refuse an archive that unpacks to more bytes than an archive of texts does."""
    most = min(LARGEST, _most_unpacked(check_file(path).st_size))
    if unpacked > most:
        raise too_large(path, most)


def too_large(path: Path, most: int) -> TraubeError:
    """Return the error for a file that unpacks to too many bytes."""
    return TooLarge(f"{path}: holds more than the {format_size(most)} that are read of such a file")


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Return the contents of a file, unpacked if its name ends in `.gz`; see `open_limited`."""
    try:
        with open_limited(path, most) as file:
            return b"".join(iter(lambda: file.read(CHUNK), b""))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Malformed(f"{path}: not a readable gzip file ({error})") from None
    except OSError as error:
        raise Inaccessible(f"{path}: cannot be read ({error.strerror})") from None


def read_stream(stream: BinaryIO, name: str) -> bytes:
    """Return all that an open pipe or file gives, at most `LARGEST` bytes; refuse terminals and other devices.

    What gives nothing and stays open is waited for, as by any filter: whoever opened the pipe writes to it.
    """
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except io.UnsupportedOperation:  # what stands in for standard input in a notebook has no descriptor
        mode = stat.S_IFIFO
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        kind = _KINDS.get(stat.S_IFMT(mode), "terminal or another device")
        raise Inaccessible(f"{name}: is a {kind}, not a file or a pipe: pipe a file into the command, or name one")
    chunks, left = [], LARGEST
    while chunk := stream.read(CHUNK):
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            raise too_large(Path(name), LARGEST)
    return b"".join(chunks)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as `json.loads` does; raise a ValueError if the text is not JSON, not UTF-8, or nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def resolve_path(folder: Path, name: str) -> Path:
    """Return the path that a person names: from a folder, absolute, or from a home (`~`). The path need not exist."""
    try:
        parts = os.fsencode(name).split(b"/")
        if len(os.fsencode(name)) > LONGEST_PATH or max(map(len, parts)) > LONGEST_NAME:
            raise Invalid(f"'{name[:30]}...' is too long for a path")
        # unlike Path.resolve, realpath accepts circular links
        return Path(os.path.realpath(folder / Path(name).expanduser()))
    except (OSError, RuntimeError, ValueError) as error:
        raise Invalid(f"{name[:60]!r} is no path ({error})") from None


def is_file(path: Path) -> bool:
    """Return whether the path is a plain file, or a link to one; False if the path cannot be read."""
    return os.path.isfile(path)  # noqa: PTH113 (Path.is_file raises where a path is too long)


def is_folder(path: Path) -> bool:
    """Return whether the path is a folder, or a link to one; False if the path cannot be read."""
    return os.path.isdir(path)  # noqa: PTH112 (as above)


class _Bounded(io.RawIOBase):
    """A reader of a file that raises an error once too many bytes were read."""

    def __init__(self, file: Any, path: Path, most: int) -> None:
        self._file = file
        self._path = path
        self._most = self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._file.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise too_large(self._path, self._most)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def format_size(size: int) -> str:
    """Format a number of bytes for people."""
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else f"{size / 2**10:,.0f} KiB"
