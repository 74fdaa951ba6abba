"""SHA-256 of files: what it is, and what it should be. Of large ones it is remembered: the weights
of hundreds of models are hashed once, not by every command.

A hash is remembered by the file's path and what tells that it was written since: size, times and
place. A line is added for each; `TRAUBE_HOME/hashes.jsonl` may be deleted.
"""

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from traube.core import paths
from traube.core.errors import TraubeError
from traube.core.files import append_line
from traube.core.hashing import file_sha256
from traube.core.inputs import read_bytes

SHA256 = re.compile("[0-9a-f]{64}")
LARGE = 100_000  # bytes; less is hashed in no time
SETTLED = 2.0  # seconds; a file that was written so lately may be written again without a new time


def remembered_sha256(path: Path, stamp: Sequence[int]) -> str:
    """SHA-256 of a file that has been hashed before, by whichever process, unless
    its stamp is another.

    Parameters
    ----------
    stamp : of the file as it is now: size, time of change, and whatever else
    """
    if stamp[0] < LARGE:
        return file_sha256(path)
    key = (str(path), tuple(stamp))
    memory = paths.home() / "hashes.jsonl"
    known = _read(memory, _written(memory)).get(key)
    if known is not None:
        return known
    sha256 = file_sha256(path)
    if time.time() - stamp[1] / 1e9 > SETTLED:
        with suppress(TraubeError, OSError):  # where nothing can be written, nothing is remembered
            append_line(memory, json.dumps([str(path), list(stamp), sha256]))
    return sha256


def stated_sha256(path: Path) -> str | None:
    """What a file's SHA-256 should be, where something says so: a file `NAME.sha256` beside it, as
    `sha256sum` writes it, or the name that Hugging Face's cache keeps a large file under.
    """
    with suppress(TraubeError):
        stated = read_bytes(path.with_name(f"{path.name}.sha256"), most=1000).decode(errors="replace").split()
        return stated[0].lower() if stated else ""
    kept_as = path.resolve().name
    return kept_as if SHA256.fullmatch(kept_as) else None


def _written(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=1)
def _read(path: Path, _written: tuple[int, int] | None) -> dict[tuple[str, tuple[int, ...]], str]:
    """Hashes by path and stamp; lines that are damaged are passed over."""
    hashes = {}
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            with suppress(ValueError, TypeError):
                name, stamp, value = json.loads(line)
                hashes[str(name), tuple(map(int, stamp))] = str(value)
    return hashes
