"""Files that say by themselves whether they are still what was written.

A sealed file holds a checksum of all its other bytes, so that the two can never be out of step,
whatever crashes. The seal lies at the end, where NumPy's and SciPy's readers pass over it; in
Parquet, whose end has to be the footer, just before that. A JSON object has its seal as a key.
Files of homes from before have no seal, and are read as they are.
"""

import json
import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from traube.foundation.errors import TraubeError
from traube.foundation.hashing import digest

if TYPE_CHECKING:  # it takes a third of a second to import
    import pandas as pd
    import pyarrow as pa

_BEGIN, _END = b"<traube:", b":sealed>"  # either of them says that there was a seal
_SIZE = len(_BEGIN) + 8 + len(_END)
_BLOCK = 1 << 20
KEY = "seal"


class Damaged(TraubeError):
    """A file that is not what was written."""


def damaged(path: Path, why: str = "its checksum is another") -> Damaged:
    """The error for a file that can be made again."""
    return Damaged(f"{path}: damaged ({why}); `traube run` makes it again")


@contextmanager
def blamed(path: Path) -> Iterator[None]:
    """Whatever reading a file raises means that it is damaged, unless it is absent."""
    try:
        yield
    except (TraubeError, FileNotFoundError):
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise damaged(path, reason) from None


def seal(file: Path, kind: str) -> None:
    """Seal a file that was just written.

    Parameters
    ----------
    kind : the ending of the name that it will have, such as `.parquet`
    """
    with file.open("r+b") as opened:
        size = os.fstat(opened.fileno()).st_size
        at = size - _after(opened, kind, size)
        mark = _seal(_checksum(opened, [(0, size)]))
        opened.seek(at)
        rest = opened.read()
        opened.seek(at)
        opened.write(mark + rest)


def check(path: Path) -> bool:
    """Whether a file is sealed, and what was written; False where there is no seal.

    Raises
    ------
    Damaged
        If it has a seal and is not what was written.
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        at = size - _after(file, path.suffix, size) - _SIZE
        if at < 0:
            return False
        file.seek(at)
        found = file.read(_SIZE)
        if not (found.startswith(_BEGIN) or found.endswith(_END)):
            return False
        if found != _seal(_checksum(file, [(0, at), (at + _SIZE, size)])):
            raise damaged(path)
    return True


def check_once(path: Path) -> bool:
    """As `check`; a file that was not written since is read once by a process."""
    state = path.stat()
    return _check_once(path, (state.st_mtime_ns, state.st_size, state.st_ino))


@lru_cache(maxsize=10_000)
def _check_once(path: Path, _state: tuple[int, int, int]) -> bool:
    return check(path)


def _after(file: BinaryIO, kind: str, size: int) -> int:
    """How many bytes follow the seal."""
    if kind != ".parquet" or size < 8:
        return 0
    file.seek(size - 8)
    return 8 + int.from_bytes(file.read(4), "little")


def _seal(checksum: int) -> bytes:
    return b"%b%08x%b" % (_BEGIN, checksum, _END)


def _checksum(file: BinaryIO, ranges: list[tuple[int, int]]) -> int:
    found = 0
    for start, end in ranges:
        file.seek(start)
        for position in range(start, end, _BLOCK):
            found = zlib.crc32(file.read(min(_BLOCK, end - position)), found)
    return found


def read_parquet(path: Path) -> "pd.DataFrame":
    """A table as it was written. One without a seal is read with the checksums of its pages.

    Raises
    ------
    Damaged
        If it is another, or cannot be read.
    FileNotFoundError
    """
    with blamed(path):
        check(path)
        return _read(path).to_pandas()


def is_sound(path: Path) -> bool:
    """Whether a Parquet file is what was written; of one without a seal, whether it can be read."""
    try:
        return check(path) or _read(path) is not None
    except Exception:  # whatever a damaged file raises
        return False


def is_intact(path: Path) -> bool:
    """Whether a file of any kind is what was written, as far as its seal says. One without a seal is,
    if it is no table, or one that can be read.
    """
    if path.suffix == ".parquet":
        return is_sound(path)
    try:
        return _is_intact_json(path) if path.suffix == ".json" else check(path) or True
    except (Damaged, OSError, ValueError, RecursionError):
        return False


def _is_intact_json(path: Path) -> bool:
    value = json.loads(path.read_text(encoding="utf-8"))
    seal = value.pop(KEY, None) if isinstance(value, dict) else None
    return seal in (None, digest(value))


def _read(path: Path) -> "pa.Table":
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True).read()


def read_sealed_json(path: Path, known: Collection[str]) -> dict[str, Any] | None:
    """A JSON object without its seal; None if the file is absent or damaged.

    Parameters
    ----------
    known : the keys that it may have; another is a known one that was damaged, or the seal itself
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    seal = value.pop(KEY, None)
    sound = set(value) <= set(known) and seal in (None, digest(value))
    return value if sound else None
