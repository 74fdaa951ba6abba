"""Catalog entries as blobs: a row of the catalog and, for a finished cell, its tables.

An entry is a zip file with `entry.json` and a Parquet file for each table, so that any tool can
open it. Everything in the catalog is made of entries.
"""

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from traube._core.arrays import Floats
from traube._core.errors import Corrupt
from traube._core.inputs import parse_json

FIRST, ASSIGNMENTS, SCORES = "entry.json", "assignments.parquet", "scores.parquet"  # members
NAME_AT = 30  # where a zip file names its first member
MOST_SCORES, LARGEST_SCORES = 100_000, 2**30  # of a cell: rows, and bytes once they are unpacked
_UNREADABLE = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    pa.ArrowException,
)  # by whoever wrote it otherwise
_SCORE_SCHEMA = pa.schema(
    {
        "level": pa.string(),
        "metric": pa.string(),
        "n": pa.int64(),
        "mean": pa.float64(),
        "positions": pa.binary(),
        "values": pa.binary(),
        "replicates": pa.binary(),
        "same_as": pa.string(),
    }
)


@dataclass(frozen=True)
class Score:
    """One metric of a cell on the splits of a level."""

    level: str
    metric: str
    values: Floats  # [n_splits], in the order of the splits' positions
    replicates: NDArray[np.float32] | None = None  # [n_splits, n_groups], the values without each group of texts
    positions: NDArray[np.int32] | None = None  # [n_splits], the splits that have it, where not all of the level do


@dataclass(frozen=True)
class Entry:
    """A row of the catalog, with what belongs to it."""

    table: str  # name of the catalog's table
    row: dict[str, Any]  # values by column
    # values that no column holds: a task's splits, a cell's training histories
    details: Mapping[str, Any] = field(default_factory=dict)
    assignments: pd.DataFrame | None = None  # a cell's: split, level, item, cluster
    scores: list[dict[str, Any]] = field(default_factory=list)  # rows of the table `score`, without the cell

    def pack(self) -> bytes:
        """Return the bytes of the blob; the same for equal entries."""
        about = {"table": self.table, "row": self.row, "details": self.details}
        members = {FIRST: json.dumps(about, sort_keys=True).encode()}
        if self.assignments is not None:
            members[ASSIGNMENTS] = write_table(self.assignments)
        if self.scores:
            members[SCORES] = _write_parquet(pa.Table.from_pylist(self.scores, schema=_SCORE_SCHEMA))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return packed.getvalue()

    @classmethod
    def unpack(cls, content: bytes, *, with_assignments: bool = True) -> "Entry":
        """Return the entry that a blob holds.

        Raises
        ------
        Corrupt
            If the blob holds no entry.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                    raise ValueError("packed, as entries never are")
                about, names = parse_json(archive.read(FIRST)), archive.namelist()
                has_assignments = with_assignments and ASSIGNMENTS in names
                assignments = read_table(archive.read(ASSIGNMENTS)) if has_assignments else None
                scores = _read_scores(archive.read(SCORES)) if SCORES in names else []
            return cls(about["table"], about["row"], about["details"], assignments, scores)
        except (*_UNREADABLE, ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"a blob holds no entry of the catalog ({type(error).__name__})") from None


def _read_scores(content: bytes) -> list[dict[str, Any]]:
    about = pq.ParquetFile(io.BytesIO(content)).metadata
    size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    if about.num_rows > MOST_SCORES or size > LARGEST_SCORES:  # a few kilobytes may unpack to any number of them
        raise ValueError("more scores than a cell has")
    table = pq.read_table(io.BytesIO(content))
    if not table.schema.equals(_SCORE_SCHEMA):
        raise ValueError("other columns than those of scores")
    return table.to_pylist()


def write_table(frame: pd.DataFrame) -> bytes:
    """Return a table as Parquet."""
    return _write_parquet(pa.Table.from_pandas(frame, preserve_index=False, nthreads=1))


def read_table(content: bytes) -> pd.DataFrame:
    """Return the table that Parquet holds."""
    return pq.read_table(io.BytesIO(content)).to_pandas()


def make_score_rows(scores: Iterable[Score]) -> list[dict[str, Any]]:
    """Return rows of the table `score`; equal numbers of a level are kept once."""
    rows: list[dict[str, Any]] = []
    first: dict[tuple[Any, ...], str] = {}
    for score in scores:
        values = np.ascontiguousarray(score.values, dtype="<f8")
        arrays = {
            "positions": None if score.positions is None else np.ascontiguousarray(score.positions, "<i4").tobytes(),
            "values": values.tobytes(),
            "replicates": None if score.replicates is None else np.ascontiguousarray(score.replicates, "<f4").tobytes(),
        }
        same_as = first.setdefault((score.level, *arrays.values()), score.metric)
        is_copy = same_as != score.metric
        mean = float(values.mean()) if len(values) else np.nan
        rows.append(
            {
                "level": score.level,
                "metric": score.metric,
                "n": len(values),
                "mean": None if np.isnan(mean) else mean,
                **(dict.fromkeys(arrays) if is_copy else arrays),
                "same_as": same_as if is_copy else None,
            }
        )
    return rows


def _write_parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue()
