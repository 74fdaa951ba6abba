"""The databases of the home: Dagster's, and MLflow's where it is a file of the home.

Neither makes its tables in one step, so a first start that is interrupted would leave tables that no
later start can finish. Here they are made under a temporary name, which becomes theirs when they are
whole. What is half made, and holds nothing, is made anew; what is damaged is named.
"""

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from traube.foundation import paths
from traube.foundation.errors import TraubeError
from traube.foundation.files import explained, locked

EXPERIMENT = "traube"
STAMP = "alembic_version"  # Dagster and MLflow note in it which tables they have made


@dataclass(frozen=True)
class Database:
    """A SQLite file that others make and use.

    Attributes
    ----------
    table : the one that is filled first when it is used
    last : a table, and a row of it that is written once all tables are made
    whole : what is moved away with it if it is damaged
    holds : what is lost then
    """

    path: Path
    table: str
    whole: Path
    holds: str
    last: tuple[str, str] = (STAMP, "1")

    def rows(self) -> int | None:
        """How many rows the table has, 0 or 1; None if the tables were never finished.

        Raises
        ------
        TraubeError
            If the file is no database.
        """
        if not self.path.exists():
            return None
        try:
            with closing(self._open()) as connection:
                made = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                if self.table not in made:
                    return None
                rows = len(connection.execute(f'SELECT 1 FROM "{self.table}" LIMIT 1').fetchall())  # noqa: S608
                stamped = STAMP in made and connection.execute(f"SELECT 1 FROM {STAMP}").fetchone()  # noqa: S608
                table, row = self.last
                last = table in made and connection.execute(f"SELECT 1 FROM {table} WHERE {row}").fetchone()  # noqa: S608
        except sqlite3.OperationalError:  # of the disk or the folder, not of the file
            raise
        except sqlite3.DatabaseError as error:
            raise self.damaged(str(error)) from None
        if rows and not stamped:
            raise self.damaged("tables are missing")
        return rows if stamped and (rows or last) else None

    def check(self) -> None:
        """Read the whole file.

        Raises
        ------
        TraubeError
            If it is damaged.
        """
        try:
            with closing(self._open()) as connection:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            verdict = str(error)
        if verdict != "ok":
            raise self.damaged(verdict)

    def damaged(self, why: str) -> TraubeError:
        return TraubeError(
            f"{self.path}: damaged ({why}); move {self.whole} away, and the next command makes it anew: "
            f"results are kept, {self.holds} is lost"
        )

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=10)


def dagster_databases(folder: Path) -> list[Database]:
    """Those of Dagster's instance in a folder."""
    tables = {"history/runs.db": "runs", "history/runs/index.db": "event_logs", "schedules/schedules.db": "job_ticks"}
    return [Database(folder / name, table, folder, "Dagster's history") for name, table in tables.items()]


def mlflow_database(path: Path) -> Database:
    # MLflow stamps after each of its many migrations; the experiment is the last thing that is made
    experiment = "experiments", f"name = '{EXPERIMENT}'"
    return Database(path, "runs", path, "what MLflow knows of runs and models", experiment)


def make_dagster(folder: Path) -> None:
    """Make the folder of Dagster's instance, unless it is there.

    Raises
    ------
    TraubeError
        If a database of it is damaged, or it cannot be written.
    """
    if not _is_made(folder):
        with locked(folder):
            if not _is_made(folder):  # another process may have been faster
                with _building(folder) as new:
                    _link_settings(new)
                    _make_tables(new)
    if not (folder / "dagster.yaml").exists():  # the checkout was moved
        _link_settings(folder)


def _link_settings(folder: Path) -> None:
    link = folder / "dagster.yaml"
    folder.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(paths.PROJECT / "dagster.yaml")


def make_mlflow(path: Path, artifacts: Path) -> None:
    """Make MLflow's database, with our experiment in it, unless it is there.

    Raises
    ------
    TraubeError
        If it is damaged, or cannot be written.
    """
    if mlflow_database(path).rows() is not None:
        return
    with locked(path):
        if mlflow_database(path).rows() is not None:
            return
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        logging.getLogger("mlflow").setLevel(os.environ.get("MLFLOW_LOGGING_LEVEL", "WARNING"))  # it is no news

        with _building(path) as new:
            store = SqlAlchemyStore(f"sqlite:///{new}", artifacts.as_uri())
            store.create_experiment(EXPERIMENT, artifact_location=artifacts.as_uri())
            store.engine.dispose()


def _is_made(folder: Path) -> bool:
    held = [database.rows() for database in dagster_databases(folder)]
    if None in held and any(held):
        raise dagster_databases(folder)[held.index(None)].damaged("tables are missing")
    return None not in held


@contextmanager
def _building(path: Path) -> Iterator[Path]:
    """A name to build at; what is built becomes `path` at once, and on failure nothing is left."""
    new = path.with_name(f".{path.name}.new")
    with explained(path):
        _remove(new)
        try:
            yield new
            _remove(path)
            new.rename(path)
        finally:
            _remove(new)


def _remove(path: Path) -> None:
    if path.is_dir():
        return shutil.rmtree(path)
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
        path.with_name(name).unlink(missing_ok=True)
    return None


def _make_tables(folder: Path) -> None:
    before = os.environ.get("DAGSTER_HOME")
    os.environ["DAGSTER_HOME"] = str(folder)
    try:
        with dg.DagsterInstance.get() as instance:
            instance.get_runs(limit=1)
            instance.all_instigator_state()
            instance.get_dynamic_partitions("")
    finally:
        os.environ.pop("DAGSTER_HOME")
        if before is not None:
            os.environ["DAGSTER_HOME"] = before
