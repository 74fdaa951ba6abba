"""The graph at work: real runs on a real instance, from raw data to the leaderboard."""

import csv
import dataclasses
import io
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from typer.testing import Result

from assets.common import MODELS
from assets.complete import STORED
from operations.children import ensure_alone
from operations.launch import DagsterLauncher, WithoutUnwritten, align
from operations.servers import with_pages
from resources.experiment import MLFLOW_PAGES, default_uri
from resources.registry import RegistryResource
from resources.tracking import TrackingResource
from resources.untracked import find_untracked
from sensors.lost_runs import (
    PID,
    STARTED,
    cancel_cut_off_runs,
    end_lost_runs,
    find_process,
    stop_note_path,
    tag_process,
)
from tests.made import damage_blob
from tests.platform.conftest import metadata_of, word_rows, write_task
from traube._core import paths
from traube._core.progress import SILENT
from traube._pipeline.params import load_params
from traube._pipeline.plan import Plan
from traube._pipeline.request import Request
from traube._pipeline.validation.rules import CHECKS
from traube._reports.pages import SERVED
from traube._reports.tables import COLUMNS as LEADERBOARD_COLUMNS
from traube._reports.tables import NAME
from traube._storage import CellRow, CheckRow, Storage
from traube.comparison.regressions import COLUMNS as REGRESSIONS_COLUMNS
from traube.components import parse_method
from traube.tasks.stored import get_manifest
from traube.tasks.task import CORPUS_COLUMNS, SPLIT_COLUMNS

Planned = Callable[..., Plan]
MakeRequest = Callable[..., Request]


def read(launcher: DagsterLauncher, *tasks: str) -> list[str]:
    return launcher.datasets(list(tasks))


def find_tracked_runs(condition: str = "") -> list[Any]:
    """The runs of MLflow that meet a condition."""
    experiment = TrackingResource().connect()
    return [*experiment.client.search_runs([experiment.id], condition)]


def fail(*_: object, **_more: object) -> None:
    raise OSError("connection lost")


@pytest.mark.slow
@pytest.mark.all_papers
def test_from_raw_data_to_the_leaderboard(
    launcher: DagsterLauncher, planned: Planned, request_for: MakeRequest, storage: Storage, home: Path
) -> None:
    assert planned(["words"]).unread == ["words"]
    assert read(launcher, "words") == []

    todo = planned(["words"])
    # none and pca with two clusterers each, pca with hdbscan; none/hdbscan is unsupported
    assert todo.count == 6
    assert launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"])) == []
    assert planned(["words"]).count == 0

    assert launcher.publish() == []
    board = pd.read_parquet(storage.get_table_path("leaderboard.parquet"))
    done = board[board["status"] == "done"]
    assert len(done) == 5
    assert done["mean"].between(0, 1).all()
    assert done["best"].sum() == 1
    assert board[board["status"] == "unsupported"]["method"].tolist() == ["none/hdbscan"]
    assert "words" in (home / "report" / "index.html").read_text()


@pytest.mark.begin_with("evaluated")
def test_a_pair_that_makes_no_sense_is_logged_and_warns_nobody(launcher: DagsterLauncher) -> None:
    (run,) = launcher.instance.get_runs(dg.RunsFilter(job_name="evaluate"))
    logged = [entry for entry in launcher.instance.all_logs(run.run_id) if "none/hdbscan" in entry.user_message]
    assert {entry.level for entry in logged} == {logging.INFO}


@pytest.mark.begin_with("published")
def test_the_page_of_a_task_is_made_on_request(launcher: DagsterLauncher, home: Path) -> None:
    page = home / "report" / "words.html"
    assert not page.exists()  # the command line makes a task's page when somebody opens it
    publish = launcher.definitions.resolve_job_def("publish")
    made = publish.execute_in_process(instance=launcher.instance, asset_selection=[dg.AssetKey("task_reports")])
    assert "pca/hdbscan" in page.read_text()
    (materialized,) = made.asset_materializations_for_node("task_reports")
    assert str(materialized.metadata["pages"].value).startswith(f"- [words]({SERVED}/words.html)")


@pytest.mark.slow
@pytest.mark.begin_with("published")
def test_the_link_to_a_tasks_page_leads_there_after_a_command(launcher: DagsterLauncher, home: Path) -> None:
    """Dagster's server and MLflow's have the pages, so that the link names no port."""
    client = RegistryResource().client()
    link = f"{SERVED}/words.html"
    assert f"[All of words]({link})" in client.get_registered_model("traube-words").description
    page = home / "report" / "words.html"
    with TestClient(with_pages(Starlette(), home)) as user:
        to_words, index = 'href="words.html"', (home / "report" / "index.html").read_text()
        assert (
            to_words in user.get(f"{SERVED}/").text and to_words not in index
        )  # the file cannot make what it links to
        assert "pca/hdbscan" in user.get(link).text
        made = page.stat().st_mtime_ns
        assert user.get(link).is_success and page.stat().st_mtime_ns == made
        (home / "tables" / NAME).touch()
        assert user.get(link).is_success and page.stat().st_mtime_ns > made
        assert user.get(f"{SERVED}/other.html").status_code == 404


@pytest.mark.begin_with("published")
def test_the_link_to_a_run_of_mlflow_leads_to_wherever_that_is_now(
    launcher: DagsterLauncher, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = metadata_of(launcher, "words", "scores")["mlflow"]
    with TestClient(with_pages(Starlette(), home), follow_redirects=False) as user:
        for port in ("5000", "5157"):
            monkeypatch.setenv("TRAUBE_MLFLOW_PORT", port)
            page = user.get(link).headers["location"]
            assert page.startswith(f"http://127.0.0.1:{port}/#/experiments/")
        run_id = page.partition("?")[0].rpartition("/")[2]
        assert TrackingResource().connect().client.get_run(run_id).data.tags["traube.task"] == "words"
        assert user.get(f"{MLFLOW_PAGES}/experiments/1/runs/..%2F").status_code == 404


@pytest.mark.begin_with("published")
def test_every_column_of_a_table_says_what_it_means(launcher: DagsterLauncher) -> None:
    meanings = {
        ("words", "corpus"): CORPUS_COLUMNS,
        ("words", "splits"): SPLIT_COLUMNS,
        ("leaderboard",): LEADERBOARD_COLUMNS,
        ("regressions",): REGRESSIONS_COLUMNS,
    }
    for key, columns in meanings.items():
        metadata = metadata_of(launcher, *key)
        assert {column.name: column.description for column in metadata["dagster/column_schema"].columns} == columns
        assert metadata["dagster/row_count"] >= 0
    assert "fruit" in metadata_of(launcher, "words", "corpus")["preview"]


def test_what_stops_nothing_is_noted(launcher: DagsterLauncher, cards: Path) -> None:
    write_task(cards, "words", [*word_rows(), *word_rows()[:2]])
    assert launcher.datasets(["words"]) == []
    (note,) = launcher.notes
    assert note.startswith("words/splits: the check 'texts_once' failed (4 rows; see ")


@pytest.mark.begin_with("evaluated")
def test_what_is_stored_is_not_computed_again(
    launcher: DagsterLauncher, request_for: MakeRequest, storage: Storage
) -> None:
    requested = request_for(["words"], ["bow"])
    before = storage.read_rows(CellRow)
    launcher.evaluate("bow", ["words"], requested)
    assert storage.read_rows(CellRow) == before


@pytest.mark.slow
def test_a_bad_task_stops_itself_and_no_other(
    launcher: DagsterLauncher, cards: Path, request_for: MakeRequest, planned: Planned, storage: Storage
) -> None:
    write_task(cards, "holes", [*word_rows(), *[("  ", "birds")] * 100])  # up to a half are left out
    with DagsterLauncher(SILENT) as launcher:  # definitions are read when they are built
        errors = read(launcher, "words", "holes")
        assert len(errors) == 1
        assert errors[0].startswith("holes/corpus: ")
        assert planned(["words", "holes"]).unread == ["holes"]
        assert launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"])) == []
    assert set(storage.read_cells()["task"]) == {"words"}


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_a_task_whose_reading_was_cut_short_is_read_again_before_a_model_is_evaluated(
    launcher: DagsterLauncher, request_for: MakeRequest, planned: Planned, storage: Storage
) -> None:
    """Its tables were stored, and then the process was killed or the disk was full: nobody knows what checks would say."""
    storage.set_task_state("words", "ingested")
    requested = request_for(["words"], ["bow"])
    (error,) = launcher.evaluate("bow", ["words"], requested)
    assert "`traube run --task words`" in error
    assert planned(["words"]).unread == ["words"]
    assert read(launcher, "words") == []
    assert launcher.evaluate("bow", ["words"], requested) == []


@pytest.mark.begin_with("read")
def test_splits_of_a_corpus_that_nobody_checked_do_not_count(
    launcher: DagsterLauncher, planned: Planned, storage: Storage
) -> None:
    """The process was killed between the two, and somebody goes on with the splits in the UI."""
    manifest = get_manifest(storage, "words")
    assert manifest is not None
    kept = storage.read_rows(CheckRow, task="words", data_version=manifest.corpus_version)
    assert storage.remove(kept) == len(CHECKS["corpus"])
    storage.set_task_state("words", "ingested")
    (error,) = launcher._execute(launcher.definitions, "datasets", [dg.AssetKey(["words", "splits"])], {})
    assert "`traube run --task words`" in error
    assert planned(["words"]).unread == ["words"]


@pytest.mark.begin_with("read")
def test_a_check_runs_again_without_its_table_being_read_again(launcher: DagsterLauncher, storage: Storage) -> None:
    manifest = get_manifest(storage, "words")
    assert manifest is not None
    splits = dg.AssetKey(["words", "splits"])
    storage.remove(storage.read_rows(CheckRow, task="words", data_version=manifest.data_version))
    again = dg.define_asset_job("again", dg.AssetSelection.checks(dg.AssetCheckKey(splits, "two_classes")))
    job = dg.Definitions.merge(launcher.definitions, dg.Definitions(jobs=[again])).resolve_job_def("again")
    result = job.execute_in_process(instance=launcher.instance)
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.asset_check_key == dg.AssetCheckKey(splits, "two_classes") and evaluation.passed
    assert not result.get_asset_materialization_events()
    checked = storage.read_rows(CheckRow, task="words", data_version=manifest.data_version)
    assert {row.name for row in checked} == {f"splits/{check.name}" for check in CHECKS["splits"]}


@pytest.mark.slow
def test_a_check_that_failed_in_an_earlier_run_still_blocks(
    launcher: DagsterLauncher, cards: Path, request_for: MakeRequest, storage: Storage
) -> None:
    requested = request_for(["words"], ["bow"])
    # one class only: found by a check on splits, after they were stored
    write_task(cards, "words", [(text, "one") for text, _ in word_rows()])
    with DagsterLauncher(SILENT) as launcher:
        assert any("two_classes" in error for error in read(launcher, "words"))
        refused = launcher.evaluate("bow", ["words"], requested)
        assert len(refused) == 1
        assert "words/splits: the blocking check 'two_classes' failed" in refused[0]
        assert storage.read_cells().empty

    write_task(cards, "words", word_rows())
    with DagsterLauncher(SILENT) as launcher:
        assert read(launcher, "words") == []
        assert launcher.evaluate("bow", ["words"], requested) == []
    assert len(storage.read_cells()) == 6


@pytest.mark.begin_with("evaluated")
def test_checks_of_embeddings_are_recorded_by_model(launcher: DagsterLauncher, request_for: MakeRequest) -> None:
    for name in ("shape", "finite", "not_collapsed"):
        key = dg.AssetCheckKey(dg.AssetKey(["words", "embeddings"]), name)
        record = launcher.instance.get_latest_asset_check_evaluation_record(key)
        assert record and record.event and record.event.dagster_event
        assert record.event.dagster_event.asset_check_evaluation_data.passed


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_scores_are_tracked_once_however_often_they_are_logged(
    launcher: DagsterLauncher, request_for: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLFLOW", "DAGSTER"):  # where others see the pages
        monkeypatch.setenv(f"TRAUBE_{name}_UI", f"https://{name.lower()}.example.org/")
    requested = request_for(["words"], ["bow"])
    for _ in range(2):
        launcher.evaluate("bow", ["words"], requested)
    runs = find_tracked_runs()
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    assert len(runs) == 1 + 5  # and one for each method
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["traube.model"] == "bow"
    assert launcher.instance.get_run_by_id(parent.data.tags["dagster.run_id"]) is not None
    assert parent.inputs.dataset_inputs[0].dataset.digest == parent.data.tags["traube.data_version"]
    assert parent.data.tags["mlflow.user"] and parent.data.tags["mlflow.source.name"]
    if (paths.PROJECT / ".git").exists():
        assert re.fullmatch(r"[0-9a-f]{40}", parent.data.tags["mlflow.source.git.commit"])
    assert not {"fingerprint", "data_version", "code_version"} & parent.data.params.keys()  # no axes of a comparison
    assert parent.info.start_time < parent.info.end_time < time.time() * 1000  # when cells were computed
    experiment = TrackingResource().connect()
    kind = experiment.client.get_experiment(experiment.id).tags["mlflow.experimentKind"]
    assert kind == "custom_model_development"
    child = next(run for run in runs if run.info.run_name == "none/agglomerative")
    assert 0 <= child.data.metrics["topic/v_measure/noise_as_cluster"] <= 1
    link = metadata_of(launcher, "words", "scores")["mlflow"]
    assert link.startswith("https://mlflow.example.org/#/") and link.endswith("?workflowType=machine_learning")
    assert parent.info.run_id in link and parent.data.tags["traube.page"].startswith("https://dagster.example.org/")


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_a_map_is_shown_by_dagster_and_by_mlflow(launcher: DagsterLauncher, cards: Path, storage: Storage) -> None:
    import mlflow

    from resources.artifacts import log_artifacts
    from traube._reports.tables import leaderboard

    by_umap = "    reducers: [umap]\n    clusterers: [minibatch_kmeans]\n    parameters: {umap: {n_epochs: 5}}\n"
    paths.params().write_text(f"protocol: tiny\ntasks: [words]\nmodels: [bow]\nprotocols:\n  tiny:\n{by_umap}")
    requested = Request(["words"], ["bow"], "tiny", load_params().chosen("tiny"))
    assert launcher.evaluate("bow", ["words"], requested) == []
    assert "data:image/png;base64" in metadata_of(launcher, "words", "scores")["map"]
    log_artifacts(TrackingResource(), leaderboard(storage), storage)
    (run,) = find_tracked_runs("tags.`traube.kind` = 'task'")
    kept = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, tracking_uri=default_uri()))
    assert (kept / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.begin_with("evaluated")
def test_a_seed_of_ones_own_leaves_the_protocols_numbers_alone(
    launcher: DagsterLauncher, request_for: MakeRequest
) -> None:
    """`traube run --method M --seed 5` once replaced MLflow's and Dagster's best score of the model."""
    requested = request_for(["words"], ["bow"])
    before = {run.info.run_id: run.data for run in find_tracked_runs()}

    def best() -> dict[str, object]:
        metadata = metadata_of(launcher, "words", "scores")
        return {name: value for name, value in metadata.items() if name.startswith("best_")}

    was = best()
    method = parse_method("none/minibatch_kmeans")
    launcher.evaluate("bow", ["words"], dataclasses.replace(requested, methods=[method], seeds=[5]))
    assert was and best() == was
    after = {run.info.run_id: run.data for run in find_tracked_runs()}
    assert all(
        after[name].metrics == data.metrics and after[name].params == data.params for name, data in before.items()
    )
    new = [data for name, data in after.items() if name not in before]
    assert len(new) == 2 and all(data.tags["traube.own_choice"] == "true" for data in new)
    assert {data.tags.get("traube.seeds") for data in new} == {None, "5"}


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_scores_that_a_tracking_server_missed_are_tracked_by_the_next_run(
    traube: Callable[..., Result], storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/file/mlflow.db")
    traube("run")
    assert (storage.read_cells()["status"] == "done").sum() == 5
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    again = traube("run")
    assert "Reporting bow on words to MLflow" in again.output
    names = [run.info.run_name for run in find_tracked_runs()]
    assert len([name for name in names if not name.startswith("serve ")]) == 1 + 5
    assert "Nothing is missing" in traube("run").output


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_who_is_killed_between_storing_and_telling_leaves_a_note(
    launcher: DagsterLauncher, request_for: MakeRequest, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = request_for(["words"], ["bow"])
    with monkeypatch.context() as killed:
        killed.setattr(TrackingResource, "log_all", lambda *_: {})  # as if the process had ended here
        launcher.evaluate("bow", ["words"], requested)
    assert find_untracked(requested) == {"bow": ["words"]}
    assert storage.rebuild() == [] and find_untracked(requested) == {"bow": ["words"]}
    launcher.evaluate("bow", ["words"], requested)
    assert find_untracked(requested) == {}


@pytest.mark.slow
@pytest.mark.begin_with("published")
def test_the_doctor_finds_what_contradicts_the_leaderboard_and_it_or_a_run_mends_it(
    traube: Callable[..., Result],
) -> None:
    client = TrackingResource().connect().client
    (run,) = find_tracked_runs("tags.`traube.kind` = 'task'")
    traube("run")
    assert "other scores" not in traube("doctor").output
    was = run.data.metrics["best/topic"]
    client.log_metric(run.info.run_id, "best/topic", was / 2)
    reported = " ".join(traube("doctor").output.split())
    assert "words, bow: MLflow has other scores than the leaderboard" in reported
    assert "Reporting bow on words to MLflow" in traube("run").output
    assert client.get_run(run.info.run_id).data.metrics["best/topic"] == was
    client.log_metric(run.info.run_id, "best/topic", was / 2)
    params = paths.params()
    os.utime(params, (0, 0))  # as if it had changed since the leaderboard was made
    assert "were not compared" in " ".join(traube("doctor").output.split())
    mended = traube("doctor", "--mend").output
    assert "other scores" not in mended and "were not compared" not in " ".join(mended.split())
    assert client.get_run(run.info.run_id).data.metrics["best/topic"] == was


@pytest.mark.begin_with("evaluated")
def test_scores_are_reported_again_if_only_some_of_them_were(
    launcher: DagsterLauncher, request_for: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol's own scores once counted as reported if those of another seed were."""
    log = TrackingResource.log

    def fail_for_protocol(
        self: TrackingResource, *given: object, own_choice: bool, **more: float
    ) -> dict[str, dg.MetadataValue]:
        if not own_choice:
            fail()
        return log(self, *given, own_choice=own_choice, **more)

    requested = request_for(["words"], ["bow"])
    monkeypatch.setattr(TrackingResource, "log", fail_for_protocol)
    launcher.evaluate("bow", ["words"], dataclasses.replace(requested, seeds=[5]))
    assert find_untracked(requested) == {"bow": ["words"]}


@pytest.mark.slow
@pytest.mark.begin_with("evaluated")
def test_a_report_of_one_protocol_settles_no_other_and_reports_earlier_seeds(
    launcher: DagsterLauncher, request_for: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, any report of a model on a task counted for all of its scores."""
    with paths.params().open("a") as file:
        file.write("  other:\n    reducers: [none]\n    clusterers: [agglomerative]\n")
    requested = request_for(["words"], ["bow"])
    other = dataclasses.replace(requested, protocol_name="other", protocol=load_params().chosen("other"))
    with monkeypatch.context() as down:
        down.setattr(TrackingResource, "log", fail)
        for request in (dataclasses.replace(requested, seeds=[5]), other):
            launcher.evaluate("bow", ["words"], request)
    launcher.evaluate("bow", ["words"], requested)
    assert find_untracked(requested) == {} and find_untracked(other) == {"bow": ["words"]}
    assert "words x bow, own choice" in {run.info.run_name for run in find_tracked_runs()}


@pytest.mark.begin_with("read")
def test_an_absent_model_is_a_clear_failure(launcher: DagsterLauncher, request_for: MakeRequest, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    errors = launcher.evaluate("gbert_base", ["words"], request_for(["words"], ["gbert_base"]))
    assert len(errors) == 1
    assert "deepset/gbert-base" in errors[0]


@pytest.mark.e2e
@pytest.mark.begin_with("evaluated")
def test_two_leaderboards_at_once_lose_no_row(
    launcher: DagsterLauncher, request_for: MakeRequest, storage: Storage
) -> None:
    code = (
        "import pytest; from tests.platform.conftest import publish_one_table; publish_one_table(pytest.MonkeyPatch())\n"
        "from operations.launch import DagsterLauncher; from traube._core.progress import SILENT\n"
        "with DagsterLauncher(SILENT) as launcher: raise SystemExit(bool(launcher.publish()))"
    )
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait(600) for process in both] == [0, 0]
    assert len(pd.read_parquet(storage.get_table_path("leaderboard.parquet"))) == 6


GONE = {PID: str(os.getpid()), STARTED: "0.00"}  # another process had this id


def create_run(launcher: DagsterLauncher, **tags: str) -> dg.DagsterRun:
    return launcher.instance.create_run_for_job(launcher.definitions.resolve_job_def("publish"), tags=tags)


def status_of(launcher: DagsterLauncher, run: dg.DagsterRun) -> str | None:
    found = launcher.instance.get_run_by_id(run.run_id)
    return found and found.status.name


@pytest.mark.parametrize("is_started", [True, False])
def test_a_run_whose_process_is_gone_is_ended(launcher: DagsterLauncher, is_started: bool) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lost = [create_run(launcher, **GONE), create_run(launcher, **GONE | {PID: str(ended.pid)})]
    living = create_run(launcher, **tag_process())
    for run in [*lost, living] if is_started else []:
        start = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "publish")
        launcher.instance.report_dagster_event(start, run.run_id)
    assert {*end_lost_runs(launcher.instance)} == {run.run_id for run in lost}
    assert end_lost_runs(launcher.instance) == []


def test_what_the_end_of_the_servers_cuts_off_is_canceled_and_other_runs_are_not(launcher: DagsterLauncher) -> None:
    gone, never_started = create_run(launcher, **GONE), create_run(launcher)
    ours = create_run(launcher, **tag_process())
    assert set(cancel_cut_off_runs(launcher.instance)) == {gone.run_id, never_started.run_id}
    assert status_of(launcher, gone) == status_of(launcher, never_started) == "CANCELED"
    assert status_of(launcher, ours) == "NOT_STARTED"
    assert end_lost_runs(launcher.instance) == []


def test_what_a_stopped_server_had_no_time_to_cancel_is_canceled_by_whoever_looks_next(
    launcher: DagsterLauncher,
) -> None:
    cut_off = create_run(launcher, **GONE)
    stop_note_path().touch()
    assert end_lost_runs(launcher.instance) == []
    assert status_of(launcher, cut_off) == "CANCELED"
    killed = create_run(launcher, **GONE)  # later, and by nobody's wish
    assert end_lost_runs(launcher.instance) == [killed.run_id]


def test_the_process_of_a_run_is_known_from_the_event_by_which_dagster_says_that_it_began(
    launcher: DagsterLauncher,
) -> None:
    from dagster._core.events import EngineEventData

    run = create_run(launcher)
    launcher.instance.report_engine_event("Process for run exited (pid: 17).", run)  # words alone are no process
    assert find_process(launcher.instance, run) is None
    launcher.instance.report_engine_event("Started process for run (pid: 18).", run, EngineEventData.in_process(18))
    found = find_process(launcher.instance, run)
    assert found is not None and found[0] == 18


def test_a_run_that_takes_longer_to_die_than_its_server_is_canceled_too(
    launcher: DagsterLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(launcher)
    stop_note_path().touch()
    for started, status in ((time.time(), "NOT_STARTED"), (0.0, "CANCELED")):  # it lives, and later it does not
        monkeypatch.setattr("sensors.lost_runs.find_process", lambda *_, started=started: (os.getpid(), started))
        assert end_lost_runs(launcher.instance) == []
        assert status_of(launcher, run) == status
    assert not stop_note_path().exists()


def test_a_run_that_a_daemon_was_about_to_start_is_ended_unless_a_daemon_runs(launcher: DagsterLauncher) -> None:
    run = create_run(launcher)
    with ensure_alone():  # as `traube dev`
        assert run.run_id not in align(launcher.instance)
    assert align(launcher.instance) == [run.run_id]


@pytest.mark.begin_with("evaluated")
def test_every_cell_says_where_it_comes_from(
    launcher: DagsterLauncher, request_for: MakeRequest, storage: Storage
) -> None:
    cell = storage.read_cells().set_index("clusterer").loc["minibatch_kmeans"].iloc[0]
    assert launcher.instance.get_run_by_id(cell["run_id"]) is not None
    assert cell["seed"] == 42
    assert json.loads(json.dumps(cell["params"]))["clusterer_params"]["batch_size"] == 500
    assert cell["library_versions"]["scikit-learn"]


def test_a_task_whose_checks_were_cut_short_is_read_again(
    launcher: DagsterLauncher, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    from resources.quality import QualityResource

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(QualityResource, "check", interrupted)
        with suppress(KeyboardInterrupt):
            read(launcher, "words")
    assert planned(["words"]).unread == ["words"]
    assert read(launcher, "words") == []
    assert planned(["words"]).unread == []


@pytest.mark.begin_with("evaluated")
def test_damaged_assignments_are_made_again(
    launcher: DagsterLauncher, planned: Planned, request_for: MakeRequest, storage: Storage
) -> None:
    requested = request_for(["words"], ["bow"])
    cell = storage.read_rows(CellRow, task="words")[0]
    storage.save_cell(replace(cell, status="clustered"), storage.read_assignments(cell.cell_id))
    damage_blob(storage, storage.read_rows(CellRow, cell_id=cell.cell_id)[0].blob)
    assert planned(["words"]).count == 1
    assert launcher.evaluate("bow", ["words"], requested) == []
    assert planned(["words"]).count == 0


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_what_did_not_fit_the_memory_is_tried_again(
    launcher: DagsterLauncher,
    planned: Planned,
    request_for: MakeRequest,
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested = request_for(["words"], ["bow"])
    with monkeypatch.context() as patched:
        patched.setattr("traube._pipeline.executors.ProcessExecutor.memory", lambda executor, needs: 1000)
        assert launcher.evaluate("bow", ["words"], requested) == []
    refused = storage.read_cells()[storage.read_cells()["status"] == "unavailable"]
    assert len(refused) > 0
    assert "GiB" in refused["reason"].iloc[0]
    assert planned(["words"]).count == len(refused)
    launcher.evaluate("bow", ["words"], requested)
    assert planned(["words"]).count == 0


@pytest.mark.begin_with("read")
def test_one_model_that_cannot_be_used_does_not_stop_the_others(
    launcher: DagsterLauncher, cards: Path, planned: Planned, tmp_path: Path
) -> None:
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"no weights")
    (cards / "pick.yaml").write_text(f"model: {tmp_path / 'pickled'}\n")
    todo = planned(["words"], ["bow", "pick"])
    assert list(todo.missing) == ["bow"]
    assert "pytorch_model.bin" in todo.unavailable["pick"]


@pytest.mark.slow
def test_a_label_columns_name_need_not_suit_mlflow(
    launcher: DagsterLauncher, cards: Path, request_for: MakeRequest
) -> None:
    with (cards / "odd.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", 'team [red] "x"'), *word_rows()])
    (cards / "odd.yaml").write_text("file: odd.csv\ntext: text\nlabels: 'team [red] \"x\"'\n")
    with DagsterLauncher(SILENT) as launcher:
        read(launcher, "odd")
        launcher.evaluate("bow", ["odd"], request_for(["odd"], ["bow"]))
    runs = find_tracked_runs()
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert any(name.startswith("best/team _red_") for run in runs for name in run.data.metrics)


def test_a_corpus_shows_the_dvc_hash_of_its_raw_file(launcher: DagsterLauncher, cards: Path) -> None:
    (cards / "words.csv.dvc").write_text("outs:\n- md5: 0123abc\n  path: words.csv\n")
    read(launcher, "words")
    assert metadata_of(launcher, "words", "corpus")["dvc/words.csv"] == "0123abc"


def test_events_that_dagster_cannot_store_are_not_shown() -> None:
    """Their reason, mostly a full disk, is said in a line; whatever else is printed stays."""
    stream = io.StringIO()
    with redirect_stderr(WithoutUnwritten(stream)):
        sys.stderr.write("Exception while writing logger call to event log: (sqlite3...)\nTraceback ...\n")
        sys.stderr.write("something else\n")
    assert stream.getvalue() == "something else\n"


@pytest.mark.slow
@pytest.mark.begin_with("evaluated")
def test_what_is_complete_again_is_no_failure_any_more(
    launcher: DagsterLauncher, request_for: MakeRequest, storage: Storage
) -> None:
    """Data is broken and mended: all cells are there, so that nothing is evaluated, and no partition stays failed."""

    def failed() -> set[str]:
        keys = [dg.AssetKey(["words", stage]) for stage in ("embeddings", "clusterings", "scores")]
        states = [launcher.instance.get_status_by_partition(key, ["bow"], MODELS) or {} for key in keys]
        return {key.path[1] for key, of_key in zip(keys, states, strict=True) if of_key["bow"].name == "FAILED"}

    storage.set_task_state("words", "ingested")  # as if its reading had been cut short
    assert launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"])) != []
    assert "embeddings" in failed()
    launcher.publish()
    assert "embeddings" in failed()  # nothing is mended yet
    assert launcher.datasets(["words"]) == []
    launcher.publish()
    assert failed() == set()
    assert STORED in metadata_of(launcher, "words", "embeddings")


@pytest.mark.begin_with("evaluated")
def test_a_new_instance_learns_what_the_storage_holds(launcher: DagsterLauncher) -> None:
    """As after a copy, or where history was lost."""
    with dg.instance_for_test() as instance:
        instance.add_dynamic_partitions(str(MODELS.name), ["bow"])
        publish = launcher.definitions.resolve_job_def("publish")
        assert publish.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("leaderboard")]).success
        assert instance.get_materialized_partitions(dg.AssetKey(["words", "scores"])) == {"bow"}
