"""The records of cells: where each number comes from.

A record that is damaged or lacks a column is absent: its cell is missing. So is a cell that is done
and whose assignments or scores are damaged.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from traube.foundation.seals import is_sound, read_sealed_json
from traube.store.index import FEW, NAME, PART, Index, Stamp, stamps

CELL_COLUMNS = (
    "cell_id", "task", "family", "model", "fingerprint", "precision", "reducer", "clusterer", "params", "seed", "protocol", "data_version",
    "clusters", "code_version", "scoring_version", "numerics", "library_versions", "device", "run_id", "seconds", "status",
    "reason", "created",
)  # fmt: skip
# what cells of before do not say: they are kept, and do not count any more
SINCE: dict[str, Any] = {"clusters": None, "numerics": {}, "precision": ""}
# alike in many cells: kept once in an index, and one object for all cells that are read together
SHARED = ("params", "numerics", "library_versions")
SUFFIX = ".json"
_ROWS = pa.schema(dict.fromkeys((NAME, "record", *SHARED), pa.string()))
FRAMES = 16  # tables of cells that a process remembers
LOOK_AGAIN = 10.0  # seconds; until then, a process that found the files of cells sound takes them for sound
ASSIGNMENTS, SCORES = ".assignments", ".scores"
MANY = 10_000  # files that an index of sound files names in one part

_Stamps = dict[str, dict[str, Stamp]]  # by task and name


class Cells(NamedTuple):
    """What is stored of some tasks.

    Attributes
    ----------
    table : DataFrame with CELL_COLUMNS, one row a cell that is there
    damaged : files that are not what was written, or are gone, by task; their cells are not there
    """

    table: pd.DataFrame
    damaged: dict[str, list[Path]]


class _Read(NamedTuple):
    """What a process has read, and what the files looked like then."""

    records: _Stamps
    tables: _Stamps
    at: float
    cells: Cells


_known: dict[tuple[Path, tuple[str, ...]], _Read] = {}


def read_cell(folder: Path, cell_id: str) -> dict[str, Any] | None:
    """One record; None if it is absent or damaged, or a table of its cell is."""
    record = _read_record(folder / f"{cell_id}{SUFFIX}")
    if record is None or record["status"] != "done":
        return record
    assignments, scores = (folder / f"{cell_id}{kind}.parquet" for kind in (ASSIGNMENTS, SCORES))
    sound = is_sound(scores) and (is_sound(assignments) or not assignments.exists())
    return record if sound else None


def _read_record(path: Path) -> dict[str, Any] | None:
    record = read_sealed_json(path, CELL_COLUMNS)
    if record is None:
        return None
    record = {**SINCE, **record}
    return record if set(CELL_COLUMNS) <= set(record) else None


def table_of(records: Iterable[dict[str, Any] | None]) -> pd.DataFrame:
    """DataFrame with CELL_COLUMNS, one row a record that is there."""
    return pd.DataFrame([record for record in records if record], columns=list(CELL_COLUMNS))


def read_cells(results: Path, index: Path, tasks: Sequence[str]) -> Cells:
    """All cells of some tasks, by task and id. What a process has read and did not change is not
    read again.

    Parameters
    ----------
    results : folder with a folder for each task
    index : folder for what was read, and for which tables were found sound
    """
    key = (results, tuple(tasks))
    known, records = _known.get(key), {task: stamps(results / task, SUFFIX) for task in tasks}
    if known is None or known.records != records or time.monotonic() - known.at > LOOK_AGAIN:
        tables = {task: stamps(results / task, ".parquet") for task in tasks}
        if known is None or (known.records, known.tables) != (records, tables):
            cells = _read_cells(results, index, records, tables)
        else:
            cells = known.cells
        _known[key] = known = _Read(records, tables, time.monotonic(), cells)
        while len(_known) > FRAMES:
            del _known[next(iter(_known))]
    return Cells(known.cells.table.copy(deep=False), known.cells.damaged)


def _read_cells(results: Path, index: Path, records: _Stamps, tables: _Stamps) -> Cells:
    sound: list[dict[str, Any]] = []
    damaged: dict[str, list[Path]] = {}
    for task, present in records.items():
        folder = results / task
        read = _records(folder, Index(index / "cells" / task), present)
        done = {name for name, record in read.items() if record["status"] == "done"}
        of_done = {name: stamp for name, stamp in tables[task].items() if name.split(".")[0] in done}
        absent = [name for cell in done if (name := f"{cell}{SCORES}") not in of_done]
        broken = [*_damaged(folder, Index(index / "tables" / task), of_done), *absent]
        without = {name.split(".")[0] for name in broken}
        sound += [record for name, record in read.items() if name not in without]
        files = [folder / f"{name}{SUFFIX}" for name in present if name not in read]
        files += [folder / f"{name}.parquet" for name in broken]
        if files:
            damaged[task] = files
    return Cells(table_of(sound), damaged)


def _damaged(folder: Path, index: Index, present: Mapping[str, Stamp]) -> list[str]:
    """The names of the tables that are damaged. Those that were found sound before are not read
    again.
    """
    sound = index.read(present, [])[1]
    doubtful = [name for name in present if name not in sound]
    damaged = [name for name in doubtful if not is_sound(folder / f"{name}.parquet")]
    checked = sorted({*doubtful} - {*damaged})
    if len(checked) > FEW:
        for start in range(0, len(checked), MANY):
            names = checked[start : start + MANY]
            index.add({"": pa.table({NAME: names})}, {name: present[name] for name in names})
    return damaged


def _records(folder: Path, index: Index, present: Mapping[str, Stamp]) -> dict[str, dict[str, Any]]:
    """The records of a folder by name: those that the index has, and those that have to be read."""
    records: dict[str, dict[str, Any] | None] = {}
    objects: dict[str, Any] = {}
    for rows in index.read(present, ["record", *SHARED])[0]:
        records |= _of_part(rows, objects)
    absent = [name for name in present if name not in records]
    for start in range(0, len(absent), PART):
        names = absent[start : start + PART]
        read = {name: record for name in names if (record := _read_record(folder / f"{name}{SUFFIX}"))}
        if len(absent) > FEW and read:
            index.add({"": _to_rows(read)}, {name: present[name] for name in read})
        records |= read
    return {name: record for name in present if (record := records.get(name))}


def _to_rows(records: Mapping[str, dict[str, Any]]) -> pa.Table:
    columns: dict[str, list[str]] = {name: [] for name in _ROWS.names}
    for name, record in records.items():
        columns[NAME].append(name)
        columns["record"].append(json.dumps({key: value for key, value in record.items() if key not in SHARED}))
        for key in SHARED:
            columns[key].append(json.dumps(record[key], sort_keys=True))
    return pa.table(columns, schema=_ROWS)


def _of_part(rows: pa.Table, objects: dict[str, Any]) -> dict[str, dict[str, Any] | None]:
    """Records by name; equal objects are one object."""
    columns = [_shared(rows[key], objects) for key in SHARED]
    names, records = rows[NAME].to_pylist(), json.loads(f"[{','.join(rows['record'].to_pylist())}]")
    return {
        name: record | dict(zip(SHARED, shared, strict=True))
        for name, record, *shared in zip(names, records, *columns, strict=True)
    }


def _shared(column: pa.ChunkedArray, objects: dict[str, Any]) -> list[Any]:
    encoded = column.combine_chunks().dictionary_encode()
    values = [
        objects[text] if text in objects else objects.setdefault(text, json.loads(text))
        for text in encoded.dictionary.to_pylist()
    ]
    return [values[i] for i in encoded.indices.to_pylist()]
