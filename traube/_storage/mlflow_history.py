"""MLflow's database of a backup: what is taken over of it, since a server acts upon what it finds there.

Runs, their numbers and the registry are data. Webhooks, jobs, gateways, schedules and secrets are orders, and places that lead
out of the data directory would be read from, or loaded as a model.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from traube._core.paths import is_plain

_TAKEN = {
    *("alembic_version", "workspaces", "experiments", "experiment_tags", "runs", "tags", "params", "metrics"),
    *("latest_metrics", "datasets", "inputs", "input_tags", "registered_models", "registered_model_tags"),
    *("registered_model_aliases", "model_versions", "model_version_tags", "logged_models", "logged_model_metrics"),
    *("logged_model_params", "logged_model_tags"),
}
# Columns that say where files lie; in every other column a place is a text that is shown
_PLACES = {
    "experiments": "artifact_location",
    "runs": "artifact_uri",
    "logged_models": "artifact_location",
    "model_versions": "source storage_location",
}
_OWN = re.compile(r"(?:file://)?/(?:.*/)?mlartifacts(?P<inner>(?:/[A-Za-z0-9_.@+=-]+)*)/?")
_BY_ID = re.compile(r"models:/m-[0-9a-f]{32}")


def adopt_history(file: Path, artifacts: Path) -> list[str]:
    """Reduce MLflow's database, in place, to what is data; return what was left out, one line each.

    Parameters
    ----------
    file : Path
        The database, which is deleted if it is corrupt.
    artifacts : Path
        The folder in which MLflow's files lie from now on, wherever the database says that they lie.
    """
    try:
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("PRAGMA trusted_schema = OFF")
            # statements of others that run beside ours; MLflow makes one for a table that is emptied
            for kind, name in _read(database, "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"):
                database.execute(f"DROP {kind} {_quote(name)}")
            made = _read(database, "SELECT name, sql FROM sqlite_master WHERE type = 'table'")
            if not all(str(sql).startswith("CREATE TABLE ") for name, sql in made if name != "sqlite_sequence"):
                raise sqlite3.DatabaseError("holds a table of another kind")
            tables = [name for name, _ in made if not name.startswith("sqlite_")]
            left_out = [name for name in tables if name not in _TAKEN and _empty(database, name)]
            elsewhere = sum(_move(database, name, _PLACES[name], artifacts) for name in tables if name in _PLACES)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        file.unlink()
        return [f"{file.name}: corrupt ({error}), and not restored"]
    lines = [f"{file.name}: not restored: {', '.join(sorted(left_out))}"] if left_out else []
    return lines + ([f"{file.name}: {elsewhere:,} places outside of the backup are not followed"] if elsewhere else [])


def _empty(database: sqlite3.Connection, table: str) -> bool:
    """Delete the rows of a table; return whether there were any."""
    return database.execute(f"DELETE FROM {_quote(table)}").rowcount > 0  # noqa: S608


def _move(database: sqlite3.Connection, table: str, columns: str, artifacts: Path) -> int:
    """Have the places in a table's columns lead below a folder; return how many of them lay elsewhere."""
    elsewhere = 0
    present = {name for (name,) in _read(database, f"SELECT name FROM pragma_table_info('{table}')")}  # noqa: S608
    for column in present.intersection(columns.split()):
        for (place,) in _read(database, f"SELECT DISTINCT {column} FROM {table} WHERE {column} != ''"):  # noqa: S608
            if _BY_ID.fullmatch(str(place)):
                continue
            own = _OWN.fullmatch(str(place))
            inner = own["inner"] if own and (not own["inner"] or is_plain(own["inner"][1:])) else None
            elsewhere += inner is None
            moved = f"{artifacts.as_uri()}{'/elsewhere' if inner is None else inner}"
            database.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (moved, place))  # noqa: S608
    return elsewhere


def _read(database: sqlite3.Connection, statement: str) -> list[tuple[Any, ...]]:
    return database.execute(statement).fetchall()


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
