"""Small files of the data directory, written whole or not at all; locks that end with their process."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traube._core.disk import replacing
from traube._core.errors import Corrupt, first_line
from traube._core.system_errors import explain_errors

# pandas takes a third of a second to import, and this module is part of every command, `--help` included
if TYPE_CHECKING:
    import pandas as pd


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text in UTF-8, all at once."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any, *, sort: bool = True) -> None:
    """Replace a file by a value as JSON, all at once; what JSON lacks becomes a string."""
    write_text(path, json.dumps(value, indent=1, sort_keys=sort, default=str) + "\n")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file lock `<path>.lock`, which the system frees when the process dies."""
    from filelock import FileLock

    with explain_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def append_line(path: Path, text: str) -> None:
    """Add one line to a file that several processes may write to."""
    with locked(path), path.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def write_parquet(path: Path, frame: "pd.DataFrame") -> None:
    """Replace a file by a table as Parquet with checksums, all at once."""
    with replacing(path) as temporary:
        frame.to_parquet(temporary, index=False, write_page_checksum=True)


def read_parquet(path: Path) -> "pd.DataFrame":
    """Return a table as it was written.

    Raises
    ------
    TraubeError
        If the file is corrupt.
    FileNotFoundError
        If there is none.
    """
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, page_checksum_verification=True).read().to_pandas()
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever a corrupt file raises
        raise Corrupt(f"{path}: corrupt ({first_line(error)}); `traube run` makes it again") from None
