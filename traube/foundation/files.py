"""Files that are written whole or not at all, locks that end with their process, and content
hashes.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from traube.foundation import paths, settings
from traube.foundation.errors import TraubeError
from traube.foundation.inputs import parse_json, read_bytes

# pandas takes a third of a second to import, and this module is part of every command, `--help`
# included
if TYPE_CHECKING:
    import pandas as pd

OPEN_FILES = ("/dev/fd/", "/dev/std", "/proc/")  # names of files that are open
LEAST_MEMORY = 2 * 2**30  # bytes of addresses
OTHERS = 0o077  # what anyone but the owner may do
_EXPLAINED = {
    errno.ENOSPC: "the disk is full: delete something and run the command again; finished work is kept",
    errno.EROFS: "the file system is read-only: set TRAUBE_HOME to a folder that can be written to",
    errno.EACCES: "no permission to write: set TRAUBE_HOME to a folder that can be written to",
    errno.ENOMEM: "memory is short: end other programs, or allow this one more (`ulimit -v`), and run the command again",
    errno.ENOTDIR: "a part of this path is not a folder: set TRAUBE_HOME to a folder that can be written to",
    errno.ENOENT: "it cannot be created there: set TRAUBE_HOME to a folder that can be written to",
    errno.EDQUOT: "the disk quota is used up: delete something and run the command again; finished work is kept",
}


def in_words(error: OSError, path: Path | None = None) -> str:
    """A system error as one line: where, what, and what to do."""
    where = path or error.filename
    what = _EXPLAINED.get(error.errno or 0, error.strerror or str(error))
    return f"{where}: {what}" if where else what


_SAID_BY_LIBRARIES = {
    "database or disk is full": errno.ENOSPC,
    "disk I/O error": errno.ENOSPC,  # what SQLite says when there is no room for its journal
    "attempt to write a readonly database": errno.EROFS,
    "unable to open database file": errno.EACCES,
    "failed to map segment": errno.ENOMEM,  # of a library that is loaded
    "can't allocate memory": errno.ENOMEM,  # torch
    "std::bad_alloc": errno.ENOMEM,
}


def explain_system_error(error: BaseException) -> str | None:
    """What to say of an error that the disk or the memory is to blame for, wherever in its chain of
    causes; None for any other error.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return in_words(OSError(errno.ENOMEM, ""))
        if isinstance(cause, OSError) and cause.errno in _EXPLAINED:
            return in_words(cause)
        for words, number in _SAID_BY_LIBRARIES.items():
            if words in str(cause):
                return in_words(OSError(number, words), None if number == errno.ENOMEM else paths.home())
        cause = cause.__cause__ or cause.__context__
    return None


def refuse_little_memory() -> None:
    """Refuse to start where a limit leaves too little memory: libraries hang where they get none.

    Raises
    ------
    TraubeError
        If this process may have less than `LEAST_MEMORY`.
    """
    try:
        import resource
    except ImportError:  # Windows knows no such limits
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= limit < LEAST_MEMORY:
        raise TraubeError(
            f"memory is limited to {limit / 2**20:,.0f} MiB (`ulimit -v`): allow at least {LEAST_MEMORY / 2**20:,.0f}"
        )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn system errors into one line."""
    try:
        yield
    except OSError as error:
        raise TraubeError(in_words(error, path)) from error


def make_private(folder: Path) -> None:
    """Make a folder that nobody but its owner can enter, whatever the modes of the files in it; one
    that exists is mended.

    Where the file system knows no modes or lets nothing be changed, the folder stays as it is, and
    so does one that is everybody's, like /tmp.
    """
    with suppress(OSError):  # whoever writes there next says what is wrong
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
        if mode & OTHERS and not mode & stat.S_ISVTX:
            folder.chmod(0o700)


def check_outputs(written: Sequence[Path], read: Sequence[Path] = ()) -> None:
    """Refuse places to write to before there is work that could be lost.

    Parameters
    ----------
    written : files that are to be written, in their order
    read : files that must stay as they are

    Raises
    ------
    TraubeError
        If a place has no folder or is one, is a file that is read, under whatever name, or two places
        are the same.
    """
    for number, path in enumerate(written):
        if not path.parent.is_dir():
            raise TraubeError(f"{path.parent}: there is no such folder to write {path.name} to")
        if path.is_dir():
            raise TraubeError(f"{path}: is a folder: name the file to write")
        if any(_same_file(path, other) for other in read):
            raise TraubeError(f"{path}: is read, and would be overwritten: name another file to write")
        if any(_same_file(path, other) for other in written[:number]):
            raise TraubeError(f"{path}: two files would be written there: name another for one of them")


def _same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which need not be there yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)  # which a link to itself does not stop


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; on success it becomes `path` at once, on failure nothing
    is left.

    What a link leads to is written, and the link stays. A device or a pipe is given the bytes.

    Raises
    ------
    TraubeError
        If the disk is full or the folder cannot be written; or if the file is shared and what it is
        shared on refuses it (it is kept here, and sent by a later command).
    """
    if _takes_bytes(path):
        with explained(path), tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder) / f"output{path.suffix}"
            yield temporary
            with temporary.open("rb") as written, path.open("wb") as device:
                shutil.copyfileobj(written, device)
        return
    if path.is_symlink():
        path = Path(os.path.realpath(path))
        if path.is_symlink():
            raise TraubeError(f"{path}: is a link to itself: name another file to write")
    if settings.share():
        from traube.foundation import share

        share.about_to_write(path)
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid4().hex}{path.suffix}")
        try:
            temporary.touch(exist_ok=False)  # with the permissions of any new file; tempfile's are the owner's alone
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    if settings.share():
        from traube.foundation import share

        share.written(path)


def _takes_bytes(path: Path) -> bool:
    """Whether a path is a device or a pipe, or a name of a file that is open."""
    try:
        return str(path).startswith(OPEN_FILES) or not stat.S_ISREG(path.stat().st_mode)
    except OSError:  # not there yet
        return False


def remove(path: Path) -> None:
    """Remove a file, if it is there, for everybody who shares it."""
    if settings.share():
        from traube.foundation import share

        share.removed(path)
    path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one if the file is absent, damaged or holds something else."""
    try:
        value = parse_json(read_bytes(path))
    except (TraubeError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True, default=str) + "\n")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file lock `<path>.lock`, which the system frees when the process dies; and, where other
    machines share what it guards, one between machines.
    """
    from filelock import FileLock

    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{path}.lock")
        lock.acquire()
    try:
        with _between_machines(path):
            yield
    finally:
        lock.release()


@contextmanager
def _between_machines(path: Path) -> Iterator[None]:
    if not settings.share() and not settings.database():
        yield
        return
    from traube.foundation import machines

    with machines.held(path):
        yield


def below(folder: Path | str) -> Iterator["os.DirEntry[str]"]:
    """Everything below a folder, other folders included; links are not followed, and folders that
    cannot be read count as empty, as in `Path.rglob`, which takes four times as long.
    """
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from below(entry.path)


def digest(value: Any) -> str:
    """A 16-character hash of anything that JSON can write, the same on every machine."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def append_line(path: Path, text: str) -> None:
    """Add one line to a file that several processes may write to."""
    with locked(path), path.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def frame_digest(frame: "pd.DataFrame") -> str:
    """A 16-character hash of a table's column names and values, in order."""
    import pandas as pd

    rows = pd.util.hash_pandas_object(frame.apply(_hashable), index=False, categorize=False)
    names = "\0".join(map(str, frame.columns)).encode()
    return hashlib.blake2b(names + rows.to_numpy().tobytes(), digest_size=8).hexdigest()


def _hashable(column: "pd.Series") -> "pd.Series":
    """The same values in the same form, whatever the form they were read in."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column
    absent = b"\xff"  # no text's encoding; None would count as the text "None"
    return column.astype(object).where(column.notna(), absent)
