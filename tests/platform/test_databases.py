"""The databases of the home are whole or not there, however a first start ends."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from resources.databases import get_mlflow_database, list_dagster_databases, make_dagster, make_mlflow
from resources.experiment import connect
from tests.errors import refused
from tests.made import kill_while_writing
from traube._cli.main import app
from traube._core.errors import Corrupt, Invalid

MAKE_BOTH = """
import sys
from pathlib import Path
from resources.databases import make_dagster, make_mlflow

home = Path(sys.argv[1])
make_dagster(home / "dagster")
make_mlflow(home / "mlflow.db", (home / "mlartifacts").as_uri())
"""


def making(home: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", MAKE_BOTH, str(home)], stderr=subprocess.PIPE)


def usable(home: Path) -> bool:
    """Return whether Dagster and MLflow work with the databases, with no other file beside them."""
    from mlflow import MlflowClient

    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        instance.add_dynamic_partitions("models", ["bow"])
        assert instance.get_dynamic_partitions("models") == ["bow"]
    assert MlflowClient(f"sqlite:///{home / 'mlflow.db'}").get_experiment_by_name("traube") is not None
    return not list(home.glob(".*"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both databases: the migrations that make them take a second."""
    folder = tmp_path_factory.mktemp("made")
    make_dagster(folder / "dagster")
    make_mlflow(folder / "mlflow.db", (folder / "mlartifacts").as_uri())
    return folder


@pytest.fixture
def whole(made: Path, home: Path) -> Path:
    """A home with both databases."""
    return Path(shutil.copytree(made, home, symlinks=True, dirs_exist_ok=True))


@pytest.mark.e2e
@pytest.mark.parametrize("half_made", [".dagster.new", ".mlflow.db.new"])
@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_first_start_that_is_killed_costs_nothing(home: Path, half_made: str, seconds: float) -> None:
    process = making(home)
    while not (home / half_made).exists() and process.poll() is None:
        time.sleep(0.001)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert making(home).wait() == 0
    assert usable(home)


@pytest.mark.e2e
def test_four_first_starts_at_once_all_succeed(home: Path) -> None:
    processes = [making(home) for _ in range(4)]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [(b"", 0)] * 4
    assert usable(home)


def test_what_an_earlier_version_left_half_made_is_made_again(home: Path) -> None:
    for path in ("mlflow.db", "dagster/history/runs.db", "dagster/history/runs/index.db"):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(home / path)) as database:
            database.execute("CREATE TABLE runs (id INTEGER)")  # and then the process was killed
            database.execute("CREATE TABLE trace_info (id INTEGER)")
    make_dagster(home / "dagster")
    make_mlflow(home / "mlflow.db", (home / "mlartifacts").as_uri())
    assert usable(home)


@pytest.mark.slow
@pytest.mark.parametrize("revisions", [1, 20])
def test_a_database_whose_migrations_were_cut_off_is_made_again(whole: Path, revisions: int) -> None:
    """MLflow stamps each migration: with a stamp of one in the middle, it would never open it again."""
    from alembic.script import ScriptDirectory
    from mlflow.store.db.utils import _get_alembic_config

    uri = f"sqlite:///{whole / 'mlflow.db'}"
    former = [s.revision for s in ScriptDirectory.from_config(_get_alembic_config(uri)).walk_revisions()][revisions]
    with closing(sqlite3.connect(whole / "mlflow.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", (former,))
        database.execute("DELETE FROM experiments")
    make_mlflow(whole / "mlflow.db", (whole / "mlartifacts").as_uri())
    assert usable(whole)


def test_a_database_of_somebody_elses_is_never_made_again(home: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as database, database:
        database.execute("CREATE TABLE own (id INTEGER)")
        database.execute("INSERT INTO own VALUES (7)")
    connect(f"sqlite:///{tmp_path / 'other.db'}")
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        assert database.execute("SELECT id FROM own").fetchall() == [(7,)]
        assert database.execute("SELECT name FROM experiments WHERE name = 'traube'").fetchall()


def test_a_database_that_is_whole_is_left_as_it_is(whole: Path) -> None:
    def make() -> list[tuple[int, int]]:
        make_dagster(whole / "dagster")
        make_mlflow(whole / "mlflow.db", (whole / "mlartifacts").as_uri())
        files = [d.path for d in (*list_dagster_databases(whole / "dagster"), get_mlflow_database(whole / "mlflow.db"))]
        return [(file.stat().st_ino, file.stat().st_mtime_ns) for file in files]

    assert make() == make()


def test_a_moved_checkout_costs_no_history(whole: Path) -> None:
    (whole / "dagster" / "dagster.yaml").unlink()
    (whole / "dagster" / "dagster.yaml").symlink_to("/no/such/checkout/dagster.yaml")
    before = (whole / "dagster" / "history" / "runs.db").stat().st_ino
    make_dagster(whole / "dagster")
    assert (whole / "dagster" / "dagster.yaml").exists()
    assert (whole / "dagster" / "history" / "runs.db").stat().st_ino == before


@pytest.mark.parametrize("kind", ["file", "link"])
def test_settings_of_others_are_replaced_by_ours(whole: Path, kind: str) -> None:
    """Dagster's settings name classes that it runs."""
    link, ours = whole / "dagster" / "dagster.yaml", (whole / "dagster" / "dagster.yaml").resolve()
    link.unlink()
    evil = whole / "dagster" / "evil.yaml"
    evil.write_text("python_logs: {dagster_handler_config: {handlers: {x: {'()': os.getcwd}}}}\n")
    if kind == "link":
        link.symlink_to("evil.yaml")
    else:
        evil.rename(link)
    make_dagster(whole / "dagster")
    assert link.resolve() == ours
    make_dagster(whole / "dagster")
    assert link.resolve() == ours


def test_a_write_that_was_killed_is_undone(whole: Path) -> None:
    kill_while_writing(whole / "mlflow.db", "DELETE FROM experiments")
    make_mlflow(whole / "mlflow.db", (whole / "mlartifacts").as_uri())
    assert usable(whole)


def test_what_holds_rows_is_never_made_again(home: Path) -> None:
    with closing(sqlite3.connect(home / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE runs (id INTEGER)")
        database.execute("INSERT INTO runs VALUES (1)")
    with refused(Corrupt, "mlflow.db"):
        make_mlflow(home / "mlflow.db", (home / "mlartifacts").as_uri())
    assert get_mlflow_database(home / "mlflow.db").path.exists()


@pytest.mark.parametrize(
    "name", ["mlflow.db", "dagster/history/runs.db", "dagster/history/runs/index.db", "dagster/schedules/schedules.db"]
)
def test_a_damaged_database_is_named_with_the_remedy(whole: Path, name: str) -> None:
    (whole / name).write_bytes(os.urandom(4096))
    for command in (["init"], ["doctor"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 1
        assert isinstance(result.exception, SystemExit)
        words = " ".join(result.output.split())
        assert "corrupt" in words


@pytest.mark.parametrize("name", ["a?b", "a%20b"])
def test_a_folder_that_cannot_be_in_a_url_is_refused_and_nothing_is_written_elsewhere(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "homes").mkdir()
    home = tmp_path / "homes" / name
    for make in (make_dagster, lambda folder: make_mlflow(folder / "mlflow.db", (folder / "mlartifacts").as_uri())):
        with refused(Invalid, "TRAUBE_HOME"):
            make(home)
    assert not list((tmp_path / "homes").iterdir())


@pytest.mark.parametrize("name", ["a b", "a#b", "a%zb", "ä'&;b"])
def test_other_folders_are_not(tmp_path: Path, name: str) -> None:
    home = tmp_path / "homes" / name
    home.mkdir(parents=True)
    make_mlflow(home / "mlflow.db", (home / "mlartifacts").as_uri())
    if name == "a#b":
        make_dagster(home / "dagster")
    assert [path.name for path in (tmp_path / "homes").iterdir()] == [name]
