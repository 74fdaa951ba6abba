"""Files of the home, written whole or not at all, sealed where they are results, and shared; locks
that end with their process.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traube.foundation import machines, share
from traube.foundation.disk import replacing, without_link
from traube.foundation.hashing import digest
from traube.foundation.seals import KEY, seal
from traube.foundation.system_errors import explained

# pandas takes a third of a second to import, and this module is part of every command, `--help`
# included
if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """As `traube.foundation.disk.replacing`; who shares the file is told of it.

    Raises
    ------
    TraubeError
        As there; or if the file is shared and what it is shared on refuses it (it is kept here, and
        sent by a later command).
    """
    path = without_link(path)
    share.about_to_write(path)
    with replacing(path) as temporary:
        yield temporary
    share.written(path)


@contextmanager
def sealed(path: Path) -> Iterator[Path]:
    """As `atomic`; what was written under the temporary name is sealed before it becomes `path`."""
    with atomic(path) as temporary:
        yield temporary
        seal(temporary, path.suffix)


def remove(path: Path) -> None:
    """Remove a file, if it is there, for everybody who shares it."""
    share.removed(path)
    path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
        with machines.held(path):
            yield
    finally:
        lock.release()


def append_line(path: Path, text: str) -> None:
    """Add one line to a file that several processes may write to."""
    with locked(path), path.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def write_parquet(path: Path, frame: "pd.DataFrame") -> None:
    """Write a table, sealed."""
    with sealed(path) as temporary:
        frame.to_parquet(temporary, index=False, write_page_checksum=True)


def write_sealed_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with its seal."""
    plain = json.loads(json.dumps(value, default=str))
    write_text(path, json.dumps({**plain, KEY: digest(plain)}, indent=1, sort_keys=True) + "\n")
