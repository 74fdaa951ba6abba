"""The databases of the data directory, Dagster's and MLflow's; or both, as schemas of the shared Postgres."""
# Dagster and MLflow make their tables in several steps, and cannot finish them after an interrupted first start. So the
# databases are made under a temporary name and renamed when they are complete. An incomplete database without rows is made
# again; a corrupt one is an error that names it.

import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg

from traube._core import paths, settings
from traube._core.errors import Corrupt, Invalid, NotInstalled, TraubeError, Unreachable, install_hint
from traube._core.files import locked, write_text
from traube._core.system_errors import explain_errors
from traube._storage import open_storage

EXPERIMENT = "traube"
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # MLflow opens it with its runs, not with traces
    "mlflow.note.content": "Traube's evaluations: a run for each model on each task, with a nested run for each method; "
    "trainings and studies. `traube leaderboard` shows the same numbers.",
}
SETTINGS = "dagster.yaml"
DAGSTER_DATABASE = "TRAUBE_DAGSTER_DATABASE"  # set by us for Dagster's processes, which have the file's `env`
STAMP = "alembic_version"  # Dagster and MLflow note in it which tables they have made


@dataclass(frozen=True)
class Database:
    """A SQLite file that Dagster or MLflow makes and uses."""

    path: Path
    table: str  # the table that use fills first
    whole: Path  # file or folder to move away if the database is corrupt
    holds: str  # contents that are lost then, in words
    last: tuple[str, str] = (STAMP, "1")  # a table, and a row of it that is written once all tables are made

    def count_rows(self) -> int | None:
        """Return 1 if the table has rows, 0 if it is empty, None if the tables were never finished.

        Raises an error if the file is no database.
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
            raise self.explain_corruption(str(error)) from None
        if rows and not stamped:
            raise self.explain_corruption("tables are missing")
        return rows if stamped and (rows or last) else None

    def check(self) -> None:
        """Read the whole file; an error if it is corrupt."""
        try:
            with closing(self._open()) as connection:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            verdict = str(error)
        if verdict != "ok":
            raise self.explain_corruption(verdict)

    def explain_corruption(self, why: str) -> TraubeError:
        """Return an error that says what to do with a corrupt database."""
        return Corrupt(
            f"{self.path}: corrupt ({why}); move {self.whole} away, and the next command makes it again: "
            f"results are kept, {self.holds} is lost"
        )

    def _open(self) -> sqlite3.Connection:
        # not `mode=ro`: what a killed process left in the journal is rolled back by who reads next
        return sqlite3.connect(f"{self.path.as_uri()}?mode=rw", uri=True, timeout=10)


def list_dagster_databases(folder: Path) -> list[Database]:
    """Return the databases of Dagster's instance in a folder."""
    tables = {"history/runs.db": "runs", "history/runs/index.db": "event_logs", "schedules/schedules.db": "job_ticks"}
    return [Database(folder / name, table, folder, "Dagster's history") for name, table in tables.items()]


def get_mlflow_database(path: Path) -> Database:
    """Return MLflow's database."""
    # MLflow stamps after each of its many migrations; the experiment is the last thing that is made
    experiment = "experiments", f"name = '{EXPERIMENT}'"
    return Database(path, "runs", path, "what MLflow knows of runs and models", experiment)


def get_dagster_home() -> Path:
    """Return the folder of Dagster's instance: another one where the database is shared, so that trying it changes none."""
    return paths.home() / ("dagster_shared" if settings.database() else "dagster")


def make_dagster(folder: Path) -> None:
    """Make the folder of Dagster's instance, unless it is there."""
    if settings.database():
        _make_shared_dagster(folder)
        return
    _check_name(folder)
    if not _is_made(folder):
        with locked(folder):
            if not _is_made(folder):  # another process may have been faster
                with _build_aside(folder) as new:
                    _link_settings(new)
                    _create_dagster_tables(new)
    # the checkout was moved, the database was shared, or the folder is of others: Dagster runs the classes that its settings name
    link = folder / SETTINGS
    if not (link.is_symlink() and link.readlink() == paths.PROJECT / SETTINGS):
        _link_settings(folder)


def _make_shared_dagster(folder: Path) -> None:
    """Make Dagster's instance with its tables in the shared database.

    Dagster takes the database's URL from the environment.
    """
    if find_spec("dagster_postgres") is None:
        raise NotInstalled(f"{settings.DATABASE}: dagster-postgres is not installed; run `make setup-scale`")
    os.environ[DAGSTER_DATABASE] = settings.schema_of(settings.database(), "dagster")
    text = (paths.PROJECT / SETTINGS).read_text(encoding="utf-8")
    text += f"storage:\n  postgres:\n    postgres_url: {{env: {DAGSTER_DATABASE}}}\n"
    folder.mkdir(exist_ok=True)
    file = folder / SETTINGS
    if file.is_symlink() or not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.unlink(missing_ok=True)
        write_text(file, text)
    _make_schema("dagster", lambda: _create_dagster_tables(folder))


def _make_schema(name: str, make_tables: Callable[[], None]) -> None:
    """Make a schema of the shared database, unless it has tables; no two nodes make tables at the same time."""
    with closing(connect()) as locking, locking.cursor() as lock:
        lock.execute("SELECT pg_advisory_lock(7237122)")  # the connection's end frees it
        open_storage(paths.home())  # refuses a catalog of another blob store
        with closing(connect()) as connection, connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM information_schema.tables WHERE table_schema = %s LIMIT 1", (name,))
            absent = cursor.fetchone() is None
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
        if absent:
            make_tables()


def connect() -> Any:
    """Return a connection to the shared database."""
    url = settings.database()
    try:
        import psycopg2
    except ImportError:
        raise NotInstalled(f"{settings.DATABASE}: psycopg2 is not installed: {install_hint('postgres')}") from None
    try:
        return psycopg2.connect(url, connect_timeout=10, application_name="traube", keepalives_idle=30)
    except psycopg2.Error as error:
        reason = " ".join(str(error).split())
        raise Unreachable(f"{settings.without_password(url)}: {settings.without_password(reason)}") from None


def make_shared_mlflow(artifacts: str) -> None:
    """Make MLflow's tables in the shared database, with our experiment in it, unless they are there."""
    _make_schema("mlflow", lambda: _create_mlflow_tables(get_mlflow_url(), artifacts))


def get_mlflow_url() -> str:
    """Return the URL of MLflow's tables in the shared database."""
    return settings.schema_of(settings.database(), "mlflow")


def _link_settings(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    new = folder / f".{SETTINGS}.{uuid4().hex}"
    new.symlink_to(paths.PROJECT / SETTINGS)
    new.replace(folder / SETTINGS)  # at once: several processes may do so


def _check_name(path: Path) -> None:
    """Refuse a path that Dagster and MLflow cannot put into a URL, and for which they would write elsewhere."""
    if re.search(r"\?|%[0-9A-Fa-f]{2}", str(path.absolute())):
        raise Invalid(
            f"{path}: Dagster and MLflow cannot keep databases below a folder with '?', or '%' and two digits, in its "
            "name: set TRAUBE_HOME to another"
        )


def make_mlflow(path: Path, artifacts: str) -> None:
    """Make MLflow's database, with our experiment in it, unless it is there."""
    _check_name(path)
    if get_mlflow_database(path).count_rows() is not None:
        return
    with locked(path):
        if get_mlflow_database(path).count_rows() is not None:
            return
        with _build_aside(path) as new:
            _create_mlflow_tables(f"sqlite:///{new}", artifacts)


def _create_mlflow_tables(url: str, artifacts: str) -> None:
    from mlflow.entities import ExperimentTag
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    logging.getLogger("mlflow").setLevel(os.environ.get("MLFLOW_LOGGING_LEVEL", "WARNING"))  # it is no news
    store = SqlAlchemyStore(url, artifacts)
    if store.get_experiment_by_name(EXPERIMENT) is None:
        store.create_experiment(EXPERIMENT, artifacts, [ExperimentTag(*tag) for tag in EXPERIMENT_TAGS.items()])
    store.engine.dispose()


def _is_made(folder: Path) -> bool:
    held = [database.count_rows() for database in list_dagster_databases(folder)]
    if None in held and any(held):
        raise list_dagster_databases(folder)[held.index(None)].explain_corruption("tables are missing")
    return None not in held


@contextmanager
def _build_aside(path: Path) -> Iterator[Path]:
    """Yield a path to build at, which becomes `path` at once; on failure nothing is left."""
    new = path.with_name(f".{path.name}.new")
    with explain_errors(path):
        _remove(new)
        try:
            yield new
            _remove(path)
            new.rename(path)
        finally:
            _remove(new)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        return
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


def _create_dagster_tables(folder: Path) -> None:
    with dg.DagsterInstance.local_temp(str(folder)) as instance:  # with a folder of its own it is not temporary
        instance.get_runs(limit=1)
        instance.all_instigator_state()
        instance.get_dynamic_partitions("")
