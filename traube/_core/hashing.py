"""Content hashes of values, files and tables.

Hashes of large files are cached: the weights of hundreds of models are hashed once, not by every command.
`TRAUBE_HOME/hashes.jsonl` has a line for each, and may be deleted.
"""

import hashlib
import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traube._core import paths
from traube._core.errors import TraubeError
from traube._core.files import append_line
from traube._core.inputs import read_bytes

# pandas takes a third of a second to import, and this module is part of every command, `--help` included
if TYPE_CHECKING:
    import pandas as pd

SHA256 = re.compile("[0-9a-f]{64}")
LARGE = 100_000  # bytes; less is hashed in no time
SETTLED = 2.0  # seconds; a file that was written so lately may be written again without a new time


def digest(value: Any) -> str:
    """Return a 16-character hash of anything that JSON can write, the same on every machine."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def file_sha256(path: Path) -> str:
    """Return a file's SHA-256 as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def frame_digest(frame: "pd.DataFrame") -> str:
    """Return a 16-character hash of a table's column names and values, in order."""
    import pandas as pd

    rows = pd.util.hash_pandas_object(frame.apply(_hashable), index=False, categorize=False)
    names = "\0".join(map(str, frame.columns)).encode()
    return hashlib.blake2b(names + rows.to_numpy().tobytes(), digest_size=8).hexdigest()


def _hashable(column: "pd.Series") -> "pd.Series":
    """Convert values to one form, whatever form they were read in."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column + 0.0 if pd.api.types.is_float_dtype(column) else column  # -0.0 is 0.0: pandas 2 tells them apart
    absent = b"\xff"  # no text's encoding; None would count as the text "None"
    values = column.astype(object)
    if pd.api.types.infer_dtype(values, skipna=True) not in ("string", "bytes", "empty"):
        values = values.map(str)  # pandas refuses numbers beside missing values
    return values.where(column.notna(), absent)


def is_revision(value: object) -> bool:
    """Return whether a value is a commit of the Hugging Face hub; any other text could lead to a file."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{40}", value) is not None


def get_sha256(path: Path, stamp: Sequence[int]) -> str:
    """Return the SHA-256 of a file, cached for all processes while its stamp is the same.

    The stamp is the size, the time of change, and whatever else identifies the file's state.
    """
    if stamp[0] < LARGE:
        return file_sha256(path)
    key = (str(path), tuple(stamp))
    memory = paths.home() / "hashes.jsonl"
    written: tuple[int, int] | None = None
    with suppress(OSError):
        status = memory.stat()
        written = (status.st_mtime_ns, status.st_size)
    if (known := _read(memory, written).get(key)) is not None:
        return known
    sha256 = file_sha256(path)
    # whoever serves a model elsewhere has no data directory, and gets none
    if time.time() - stamp[1] / 1e9 > SETTLED and memory.parent.is_dir():
        with suppress(TraubeError, OSError):  # without a writable cache, nothing is cached
            append_line(memory, json.dumps([str(path), list(stamp), sha256]))
    return sha256


def read_stated_sha256(path: Path) -> str | None:
    """Return the expected SHA-256 of a file, from `NAME.sha256` beside it or its name in Hugging Face's cache; else None."""
    with suppress(TraubeError):
        stated = read_bytes(path.with_name(f"{path.name}.sha256"), most=1000).decode(errors="replace").split()
        return stated[0].lower() if stated else ""
    kept_as = path.resolve().name
    return kept_as if SHA256.fullmatch(kept_as) else None


@lru_cache(maxsize=1)
def _read(path: Path, _written: tuple[int, int] | None) -> dict[tuple[str, tuple[int, ...]], str]:
    """Return hashes by path and stamp; corrupt lines are skipped."""
    hashes = {}
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            with suppress(ValueError, TypeError):
                name, stamp, value = json.loads(line)
                hashes[str(name), tuple(map(int, stamp))] = str(value)
    return hashes
