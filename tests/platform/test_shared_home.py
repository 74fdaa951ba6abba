"""Dagster and MLflow on a shared Postgres, and a home that moves there: real servers of both kinds."""

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pandas as pd
import pytest
from typer.testing import CliRunner

from operations.launch import Launcher, align, prepare
from resources.databases import make_dagster
from resources.tracking import connect, default_uri
from sensors.lost_runs import HOST, PID, end_lost_runs, own_process
from tests.servers import PASSWORD
from traube.benchmark.params import load_params
from traube.benchmark.plan import Request
from traube.cli.main import app
from traube.engine.progress import SILENT
from traube.foundation import machines, paths, settings
from traube.foundation.errors import TraubeError
from traube.models import EmbeddingCache
from traube.report.reproduce import reproduce
from traube.store import Store

Become = Callable[[str], Path]
pytestmark = pytest.mark.cluster


def scores_of(home: Path) -> pd.DataFrame:
    store = Store(home / "store")
    scores = store.scores(store.cells()).sort_values(["cell_id", "split", "level", "metric"])
    return scores.reset_index(drop=True)


def test_a_home_moves_with_its_history_and_others_go_on_from_there(
    cards: Path, bucket: str, database: str, machine: Become, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = machine("own")
    with Launcher(SILENT) as launcher:
        assert launcher.datasets(["words"]) == []
        protocol = load_params().chosen("tiny")
        asked = Request(["words"], ["bow"], "tiny", protocol, methods=[protocol.method("none/agglomerative")])
        assert launcher.evaluate("bow", ["words"], asked) == []
        run_ids = {run.run_id for run in launcher.instance.get_runs()}
    client, experiment = connect(default_uri())
    logged = {run.info.run_name: run.data.metrics for run in client.search_runs([experiment])}
    before = scores_of(own)

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    for copied_now in (True, False):  # it can be repeated
        moved = CliRunner().invoke(app, ["move-home", bucket, "--database", database])
        assert moved.exit_code == 0, moved.output
        assert f"runs of Dagster: 2, {2 if copied_now else 0} of them copied now" in moved.output
        found = re.search(r"files of the store: (\d+), (\d+) of them copied now; all compared", moved.output)
        assert found is not None and found[2] == (found[1] if copied_now else "0")
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert PASSWORD not in moved.output

    # somebody else's machine
    monkeypatch.setenv(settings.SHARE, bucket)
    monkeypatch.setenv(settings.DATABASE, database)
    other = machine("other")
    prepare()
    with dg.DagsterInstance.get() as instance:
        assert {run.run_id for run in instance.get_runs()} == run_ids
        asset = instance.get_latest_materialization_event(dg.AssetKey(["words", "corpus"]))
        assert asset is not None and asset.run_id in run_ids
        assert align(instance) == []
    assert PASSWORD not in (other / "dagster" / "dagster.yaml").read_text()
    client, experiment = connect(default_uri())
    assert {run.info.run_name: run.data.metrics for run in client.search_runs([experiment])} == logged
    assert client.get_experiment(experiment).artifact_location == f"{bucket}/mlartifacts"
    pd.testing.assert_frame_equal(scores_of(other), before, check_exact=True)
    cell = Store(other / "store").cells().query("status == 'done'").iloc[0]["cell_id"]
    again = reproduce(Store(other / "store"), EmbeddingCache(other / "embeddings"), load_params().protocols, cell)
    assert again.equal

    # a home of its own is not let in, neither by the share nor by the database
    monkeypatch.delenv(settings.SHARE)
    machine("stranger")
    with pytest.raises(TraubeError, match="another home's"):
        make_dagster(paths.home() / "dagster")


def test_locks_of_a_database_are_held_once(database: str, machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.DATABASE, database)
    machine("own")
    at_work, most = [], []

    def work(name: str) -> None:
        with machines.held_by_name("store/claims/words/bow"):
            at_work.append(name)
            most.append(len(at_work))
            time.sleep(0.1)
            at_work.remove(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1]


def test_a_lock_that_was_lost_with_its_connection_is_told_of(
    database: str, machine: Become, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(settings.DATABASE, database)
    machine("own")
    with machines.held_by_name("x"):
        pass
    assert capsys.readouterr().err == ""
    with machines.held_by_name("x"):
        connection = machines.connect()
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        connection.close()
    assert "x: the connection to the database was lost" in capsys.readouterr().err


def test_a_database_that_is_gone_is_told_in_a_line(machine: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg2")
    monkeypatch.setenv(settings.DATABASE, "postgresql://traube:sesame@127.0.0.1:9/team")
    machine("own")
    with pytest.raises(TraubeError, match="Connection refused") as error, machines.held_by_name("x"):
        pass
    assert "\n" not in str(error.value) and PASSWORD not in str(error.value)


def test_runs_of_another_machine_are_left_alone() -> None:
    @dg.job
    def nothing() -> None: ...

    gone = {**own_process(), PID: "999999999"}
    with dg.DagsterInstance.ephemeral() as instance:
        ours, theirs = (
            instance.create_run_for_job(nothing, tags={**gone, HOST: host}, status=dg.DagsterRunStatus.STARTED)
            for host in (gone[HOST], "another machine")
        )
        assert end_lost_runs(instance) == [ours.run_id]
        left = instance.get_run_by_id(theirs.run_id)
        assert left is not None and left.status == dg.DagsterRunStatus.STARTED
