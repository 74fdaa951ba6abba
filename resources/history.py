"""MLflow's history of a backup: rows that are data are copied into a database that MLflow makes here.

Nothing else of the archive's database is kept: not its schema, and no webhooks, jobs, gateways, schedules or secrets, upon
which a server acts. Places of files lead below the new data directory, each to where files of its kind lie.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from resources.databases import make_mlflow
from traube._core import paths
from traube._core.errors import TraubeError
from traube._storage.backup_contents import MLARTIFACTS, MLFLOW

# Tables in an order in which no row comes before one that it names
_COPIED = (
    *("experiments", "experiment_tags", "runs", "tags", "params", "metrics", "latest_metrics", "datasets", "inputs"),
    *("input_tags", "registered_models", "registered_model_tags", "logged_models", "logged_model_metrics"),
    *("logged_model_params", "logged_model_tags", "model_versions", "model_version_tags", "registered_model_aliases"),
)
_LONGEST = 16 * 2**20  # bytes of a value
_ID = "[0-9a-f]{32}"
_MODEL = rf"/models/m-{_ID}/artifacts"
# Where files may lie below mlartifacts/, by the table and the column that say so
_PLACES = {
    ("experiments", "artifact_location"): r"(?:/\d+)?",
    ("runs", "artifact_uri"): rf"(?:/\d+)?/{_ID}/artifacts",
    ("logged_models", "artifact_location"): _MODEL,
    ("model_versions", "source"): _MODEL,
    ("model_versions", "storage_location"): _MODEL,
}
_BY_ID = re.compile(rf"models:/m-{_ID}")


def adopt_history(file: Path) -> list[str]:
    """Copy what is data of a backup's database into MLflow's new one; return what was left out, one line each."""
    database = paths.home() / MLFLOW
    try:
        make_mlflow(database, (paths.home() / MLARTIFACTS).as_uri())
        with (
            closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as theirs,
            closing(sqlite3.connect(database)) as ours,
            ours,
        ):
            return _copy_rows(theirs, ours)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError, TraubeError) as error:
        return [f"{MLFLOW}: not restored: corrupt, or of another version of MLflow ({error})"]


def _copy_rows(theirs: sqlite3.Connection, ours: sqlite3.Connection) -> list[str]:
    theirs.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    theirs.execute("PRAGMA trusted_schema = OFF")
    known = _list_tables(ours)
    tables = {name: sql for name, sql in _list_tables(theirs).items() if name in known}
    if other := next((name for name, sql in tables.items() if not str(sql).startswith("CREATE TABLE ")), None):
        raise sqlite3.DatabaseError(f"{other} is no plain table")
    left_out = [
        name for name in sorted(tables.keys() - {*_COPIED, "alembic_version", "workspaces"}) if _has_rows(theirs, name)
    ]
    for table in reversed(_COPIED):
        ours.execute(f"DELETE FROM {table}")  # noqa: S608
    elsewhere = 0
    for table in (name for name in _COPIED if name in tables):
        present = {name.lower() for name in _list_columns(theirs, table)}  # SQL knows no case
        names = [name for name in _list_columns(ours, table) if name.lower() in present]
        rows = theirs.execute(f"SELECT {', '.join(names)} FROM {table}")  # noqa: S608
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608
        for row in rows:
            moved = [_move(table, name, value) for name, value in zip(names, row, strict=True)]
            elsewhere += sum(isinstance(value, _Elsewhere) for value in moved)
            ours.execute(statement, [str(value) if isinstance(value, _Elsewhere) else value for value in moved])
    lines = [f"{MLFLOW}: not restored: {', '.join(left_out)}"] if left_out else []
    return lines + ([f"{MLFLOW}: {elsewhere:,} places outside of the backup are not followed"] if elsewhere else [])


class _Elsewhere(str):
    """A place that stands for one outside of the backup."""


def _move(table: str, column: str, value: Any) -> Any:
    """Return a value as it is copied: a place leads to the same place below the new data directory."""
    pattern = _PLACES.get((table, column))
    if pattern is None or value in (None, ""):
        return value
    root = (paths.home() / MLARTIFACTS).as_uri()
    text = value if isinstance(value, str) else ""
    if table == "model_versions" and _BY_ID.fullmatch(text):
        return text
    match = re.fullmatch(rf"(?:file://)?/(?:.*/)?mlartifacts({pattern})", text)
    return f"{root}{match[1]}" if match else _Elsewhere(f"{root}/elsewhere")


def _list_tables(database: sqlite3.Connection) -> dict[str, Any]:
    return dict(database.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view')").fetchall())


def _list_columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def _has_rows(database: sqlite3.Connection, table: str) -> bool:
    return database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None  # noqa: S608
