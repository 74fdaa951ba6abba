"""The records of cells: where each number comes from. A record that is damaged or lacks a column is
absent: its cell is missing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from traube.store.index import FEW, NAME, PART, Index, Stamp, stamps

CELL_COLUMNS = (
    "cell_id", "task", "family", "model", "fingerprint", "reducer", "clusterer", "params", "seed", "protocol", "data_version",
    "clusters", "code_version", "scoring_version", "numerics", "library_versions", "device", "run_id", "seconds", "status",
    "reason", "created",
)  # fmt: skip
# what cells of before do not say: they are kept, and do not count any more
SINCE: dict[str, Any] = {"clusters": None, "numerics": {}}
# alike in many cells: kept once in an index, and one object for all cells that are read together
SHARED = ("params", "numerics", "library_versions")
SUFFIX = ".json"
_ROWS = pa.schema(dict.fromkeys((NAME, "record", *SHARED), pa.string()))
_frames: dict[tuple[Path, tuple[str, ...]], tuple[dict[str, dict[str, Stamp]], pd.DataFrame]] = {}
FRAMES = 16  # tables of cells that a process remembers


def read_cell(path: Path) -> dict[str, Any] | None:
    """One record; None if it is absent or damaged."""
    try:
        record = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return _complete(record) if isinstance(record, dict) else None


def _complete(record: dict[str, Any]) -> dict[str, Any] | None:
    record = {**SINCE, **record}
    return record if set(CELL_COLUMNS) <= set(record) else None


def table_of(records: Iterable[dict[str, Any] | None]) -> pd.DataFrame:
    """DataFrame with CELL_COLUMNS, one row a record that is there."""
    return pd.DataFrame([record for record in records if record], columns=list(CELL_COLUMNS))


def read_cells(results: Path, index: Path, tasks: Sequence[str]) -> pd.DataFrame:
    """All cells of some tasks, by task and id. What a process has read and did not
    change is not read again.

    Parameters
    ----------
    results : folder with a folder for each task
    index : folder for what was read
    """
    present = {task: stamps(results / task, SUFFIX) for task in tasks}
    key = (results, tuple(tasks))
    known = _frames.get(key)
    if known is None or known[0] != present:
        records = [record for task in tasks for record in _records(results / task, Index(index / task), present[task])]
        known = _frames[key] = present, table_of(records)
        while len(_frames) > FRAMES:
            del _frames[next(iter(_frames))]
    return known[1].copy(deep=False)


def _records(folder: Path, index: Index, present: Mapping[str, Stamp]) -> Iterator[dict[str, Any] | None]:
    """The records of a folder by name: those that the index has, and those that have to be read."""
    records: dict[str, dict[str, Any] | None] = {}
    objects: dict[str, Any] = {}
    for rows in index.read(present, ["record", *SHARED])[0]:
        records |= _of_part(rows, objects)
    absent = [name for name in present if name not in records]
    for start in range(0, len(absent), PART):
        names = absent[start : start + PART]
        read = {name: record for name in names if (record := read_cell(folder / f"{name}{SUFFIX}"))}
        if len(absent) > FEW and read:
            index.add({"": _to_rows(read)}, {name: present[name] for name in read})
        records |= read
    return (records.get(name) for name in present)


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
    names, records = rows[NAME].to_pylist(), map(json.loads, rows["record"].to_pylist())
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
