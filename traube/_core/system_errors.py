"""Messages for errors that the disk or the memory causes."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traube._core import paths
from traube._core.errors import DoesNotFit, Inaccessible, TraubeError

LEAST_MEMORY = 2 * 2**30  # bytes of addresses
_EXPLAINED = {
    errno.ENOSPC: "the disk is full: delete something and run the command again; finished work is kept",
    errno.EROFS: "the file system is read-only: set TRAUBE_HOME to a folder that can be written to",
    errno.EACCES: "no permission to write: set TRAUBE_HOME to a folder that can be written to",
    errno.ENOMEM: "memory is short: end other programs, or allow this one more (`ulimit -v`), and run the command again",
    errno.ENOTDIR: "a part of this path is not a folder: set TRAUBE_HOME to a folder that can be written to",
    errno.ENOENT: "it cannot be created there: set TRAUBE_HOME to a folder that can be written to",
    errno.EDQUOT: "the disk quota is used up: delete something and run the command again; finished work is kept",
}


def format_error(error: OSError, path: Path | None = None) -> str:
    """Format a system error as one line: where, what, and what to do."""
    where = path or error.filename
    what = _EXPLAINED.get(error.errno or 0, error.strerror or str(error))
    return f"{where}: {what}" if where else what


_OF_SQLITE = {  # by its primary codes
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.ENOSPC,  # there is no room for its journal
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
}
# What libraries say that give no code, or raise an error of their own with the words of SQLite's
_SAID_BY_LIBRARIES = {
    "database or disk is full": errno.ENOSPC,
    "disk I/O error": errno.ENOSPC,
    "attempt to write a readonly database": errno.EROFS,
    "unable to open database file": errno.EACCES,
    "failed to map segment": errno.ENOMEM,  # of a library that is loaded
    "can't allocate memory": errno.ENOMEM,  # torch
    "std::bad_alloc": errno.ENOMEM,
}


def get_sqlite_code(error: BaseException | None) -> int | None:
    """Return the primary code of an error of SQLite; None for an error without one."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def find_sqlite_number(error: BaseException | None) -> int | None:
    """Return the number of the system error behind an error of SQLite; None if there is none."""
    return _OF_SQLITE.get(get_sqlite_code(error) or sqlite3.SQLITE_OK)


def find_said_number(error: BaseException) -> int | None:
    """Return the number of the system error that a library's message means; None if it means none."""
    return next((number for words, number in _SAID_BY_LIBRARIES.items() if words in str(error)), None)


def explain_error(error: BaseException) -> str | None:
    """Return the message of a TraubeError, or of an error with the disk or memory in its chain of causes; else None."""
    if isinstance(error, TraubeError):
        return str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return format_error(OSError(errno.ENOMEM, ""))
        if isinstance(cause, OSError) and cause.errno in _EXPLAINED:
            return format_error(cause)
        if number := find_sqlite_number(cause) or find_said_number(cause):
            return format_error(OSError(number, ""), None if number == errno.ENOMEM else paths.home())
        cause = cause.__cause__ or cause.__context__
    return None


def refuse_little_memory() -> None:
    """Refuse to start where a limit leaves too little memory: libraries hang without memory."""
    try:
        import resource
    except ImportError:  # Windows knows no such limits
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= limit < LEAST_MEMORY:
        fix = f"allow at least {LEAST_MEMORY / 2**20:,.0f}"
        raise DoesNotFit(f"memory is limited to {limit / 2**20:,.0f} MiB (`ulimit -v`): {fix}")


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn system errors into one line."""
    try:
        yield
    except OSError as error:
        raise Inaccessible(format_error(error, path)) from error
