"""Standard input and pipes (`-`, `/dev/stdin`, `<(...)`), saved as files of the data directory: tables are read twice."""

import errno
import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

from traube._core import paths
from traube._core.disk import replacing
from traube._core.errors import Inaccessible, TooFew
from traube._core.inputs import read_stream
from traube.tasks._columns import LABELS, TEXTS
from traube.tasks._reading import TableFormat
from traube.tasks._sniffing import RowError, detect_dialect, find_words

STDIN = "-"
MAGIC = {
    b"PAR1": "parquet",
    b"PK\x03\x04": "xlsx",
    b"\xd0\xcf\x11\xe0": "xls",
    b"\x1f\x8b": "csv.gz",
    b"{": "jsonl",
    b"[": "json",
}
ALIKE = 8  # lines with as many separators as the first, which only a table has
_DESCRIPTOR = re.compile(r"(?:/dev|/proc/self)/fd/(\d{1,9})", re.ASCII)  # what a shell calls `<(...)`


def is_piped(name: str) -> bool:
    """Return whether a name means standard input or a pipe that a shell has opened."""
    return _get_descriptor(name) is not None


def save_piped(name: str, columns: Collection[str] = (), form: TableFormat | None = None) -> Path:
    """Write what comes from a pipe to a file of the data directory, whose name says its format, and return its path.

    Parameters
    ----------
    name : str
        A name for which `is_piped` holds.
    columns : collection of str
        Columns that are requested: with one of them, or one that usually holds texts or labels, in its first row, or
        with rows that are alike below a header of fewer words, it is a table; else each line is a text.
    form : TableFormat, optional
        What is known of how it is written; it is a table if that is its separator, quote or header.

    Raises
    ------
    TraubeError
        If nothing comes, or too much, or what is open there is a terminal or another device.
    """
    descriptor = _get_descriptor(name)
    if not descriptor:
        data = _read(sys.stdin.buffer, STDIN)
    else:
        try:
            if not os.get_inheritable(descriptor):  # opened by Python itself, such as the pipe of signals
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            with open(descriptor, "rb", closefd=False) as file:
                data = _read(file, name)
        except OSError as error:
            raise Inaccessible(f"{name}: cannot be read ({error.strerror})") from None
    path = (
        paths.generated_cards()
        / f"{f'pipe{descriptor}' if descriptor else 'stdin'}.{_detect_format(data, columns, form or TableFormat())}"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(data)
    return path


def _get_descriptor(name: str) -> int | None:
    """Return the file descriptor that a name means, 0 for standard input; None if it means a file."""
    if name in (STDIN, "/dev/stdin"):
        return 0
    match = _DESCRIPTOR.fullmatch(name)
    return int(match[1]) if match else None


def _read(stream: BinaryIO, name: str) -> bytes:
    data = read_stream(stream, name)
    if not data.strip():
        raise TooFew(f"{name}: {'standard input' if name == STDIN else 'the pipe'} is empty")
    return data


def _detect_format(data: bytes, columns: Collection[str], form: TableFormat) -> str:
    """Return the format of a table, by its first bytes, the names of columns in its first row, or rows that are alike."""
    begin = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if kind := next((kind for magic, kind in MAGIC.items() if begin.startswith(magic)), None):
        return kind
    if form.model_dump(include={"separator", "quote", "header"}, exclude_none=True):
        return "csv"
    text = begin.decode("utf-16" if begin.startswith((b"\xff\xfe", b"\xfe\xff")) else "latin-1", "replace")
    try:
        header, *rows = (row for _, row in detect_dialect(text).read(text))
    except RowError:
        return "txt"
    names = {name.strip().casefold() for name in header}
    are_alike = len(header) > 1 and len(rows) >= ALIKE and all(len(row) == len(header) for row in rows)
    words = [len(find_words(" ".join(row))) for row in (header, *rows)]
    is_table = are_alike and 2 * words[0] * len(rows) <= sum(words[1:])
    return "csv" if is_table or names & {*TEXTS, *LABELS, *(name.casefold() for name in columns)} else "txt"
