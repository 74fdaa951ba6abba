"""Runs, Dagster and MLflow where several nodes share a Postgres."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from operations.launch import prepare
from resources.databases import connect
from sensors.lost_runs import HOST, PID, end_lost_runs, tag_process
from traube._core import paths, settings

WRITTEN = ("DAGSTER_HOME", "MLFLOW_TRACKING_URI", "TRAUBE_DAGSTER_DATABASE")
Shell = Callable[..., dict[str, str]]


@pytest.fixture
def prepare_in_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Prepare the data directory of a checkout, as a command does with a shell's variables; its settings file."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(paths.PROJECT / "dagster.yaml", checkout)
    monkeypatch.setattr(paths, "PROJECT", checkout)
    monkeypatch.setenv("TRAUBE_HOME", str(checkout / ".traube"))

    def run(**variables: str) -> dict[str, str]:
        with pytest.MonkeyPatch.context() as patch:
            for name in (*WRITTEN, settings.DATABASE):  # what the command sets is gone with its shell
                patch.setenv(name, "")
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            settings._read_files.cache_clear()
            prepare()
        settings._read_files.cache_clear()
        return settings.read_env(checkout / ".env")

    return run


def list_tables(url: str, schema: str) -> set[str]:
    """Return the names of the tables of a schema of the shared database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(settings.DATABASE, url)
        with closing(connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (schema,))
            return {name for (name,) in cursor.fetchall()}


def test_a_database_that_is_tried_by_environment_leaves_no_trace(prepare_in_shell: Shell, database: str) -> None:
    def read_instance() -> tuple[str, str]:
        folder = paths.home() / "dagster"
        with dg.DagsterInstance.from_config(str(folder)) as instance:
            instance.add_dynamic_partitions("models", ["bow"])
            return str((folder / "dagster.yaml").readlink()), type(instance.run_storage).__name__

    written, instance = prepare_in_shell(), read_instance()
    assert written == {
        "DAGSTER_HOME": str(paths.home() / "dagster"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{paths.home() / 'mlflow.db'}",
        "TRAUBE_HOME": str(paths.home()),
    }
    assert prepare_in_shell(TRAUBE_DATABASE=database) == written
    assert "runs" in list_tables(database, "dagster")  # of an instance beside the other
    assert read_instance() == instance == (str(paths.PROJECT / "dagster.yaml"), "SqliteRunStorage")
    assert prepare_in_shell() == written


def test_a_database_that_the_settings_file_names_is_kept(prepare_in_shell: Shell, database: str) -> None:
    (paths.PROJECT / ".env").write_text(f"{settings.DATABASE}={database}\n")
    written = prepare_in_shell()
    assert {*written} == {settings.DATABASE, "TRAUBE_HOME", *WRITTEN}
    assert written["DAGSTER_HOME"] == str(paths.home() / "dagster_shared")
    (paths.PROJECT / ".env").write_text("")
    assert prepare_in_shell()["DAGSTER_HOME"] == str(paths.home() / "dagster")


def test_runs_of_another_machine_are_left_alone() -> None:
    @dg.job
    def nothing() -> None: ...

    gone = {**tag_process(), PID: "999999999"}
    with dg.DagsterInstance.ephemeral() as instance:
        ours, theirs = (
            instance.create_run_for_job(nothing, tags={**gone, HOST: host}, status=dg.DagsterRunStatus.STARTED)
            for host in (gone[HOST], "another machine")
        )
        assert end_lost_runs(instance) == [ours.run_id]
        left = instance.get_run_by_id(theirs.run_id)
        assert left is not None and left.status == dg.DagsterRunStatus.STARTED
