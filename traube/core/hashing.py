"""Content hashes of values, files and tables."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

# pandas takes a third of a second to import, and this module is part of every command, `--help`
# included
if TYPE_CHECKING:
    import pandas as pd


def digest(value: Any) -> str:
    """A 16-character hash of anything that JSON can write, the same on every machine."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


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
    values = column.astype(object)
    if pd.api.types.infer_dtype(values, skipna=True) not in ("string", "bytes", "empty"):
        values = values.map(str)  # pandas refuses numbers beside what is absent
    return values.where(column.notna(), absent)
