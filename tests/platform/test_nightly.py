"""Runs without a person: the night, new raw data, alerts, and runs whose process is gone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import pandas as pd
import pytest

from assets.common import NIGHT
from assets.report import regressions
from definitions import build_defs
from operations.launch import DagsterLauncher
from resources.alerts import FILE, SILENT, WEBHOOK, read_alerts
from resources.benchmark import BenchmarkResource, EncoderResource, StorageResource
from sensors.lost_runs import end_lost_runs
from tests.comparison.test_regressions import add_cell, save_task
from tests.errors import refused
from tests.platform.conftest import PARAMS, evaluate_tick, schedule_of, sensor_of, word_rows, write_task
from tests.servers import read_json, respond, serve
from traube._core import paths
from traube._core.errors import Unavailable, Unsafe
from traube._pipeline.params import load_params
from traube._pipeline.request import Request
from traube._storage import Storage
from traube.comparison.regressions import Night

MakeRequest = Callable[..., Request]
WWM = dg.AssetKey(["trainers", "wwm_checkpoints"])


def night(launcher: DagsterLauncher, name: str = "nightly_benchmark") -> Any:
    context = dg.build_schedule_context(launcher.instance, datetime(2026, 1, 1, 2, tzinfo=UTC))
    return evaluate_tick(schedule_of(build_defs(), name), context)


def ask_sensor(launcher: DagsterLauncher, run: dg.DagsterRun, sensor: str, ended: str) -> Any:
    """Return the answer of a sensor to the end of a run."""
    entries = launcher.instance.all_logs(run.run_id, of_type=dg.DagsterEventType(ended))
    event = next(entry.dagster_event for entry in entries if entry.dagster_event)
    context = dg.build_run_status_sensor_context(sensor, event, launcher.instance, run)
    return sensor_of(build_defs(), sensor)(context.for_run_failure() if sensor == "failed_runs" else context)


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_the_night_asks_for_one_run_for_each_model_that_lacks_cells(
    launcher: DagsterLauncher, cards: Path, request_for: MakeRequest
) -> None:
    paths.params().write_text(PARAMS.replace("[bow]", "[bow, tfidf]"))
    assert {r.partition_key for r in night(launcher)} == {"bow", "tfidf"}
    launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"]))
    (request,) = night(launcher)
    assert request.partition_key == "tfidf"
    assert {key.path[0] for key in request.asset_selection} == {"words"}
    launcher.evaluate("tfidf", ["words"], request_for(["words"], ["tfidf"]))
    assert "nothing is missing: 12 cells" in night(launcher).skip_message


@pytest.mark.begin_with("evaluated")
def test_a_new_seed_in_params_is_computed_at_night(launcher: DagsterLauncher, request_for: MakeRequest) -> None:
    paths.params().write_text(PARAMS + "    seeds: [42, 7]\n")
    assert [r.partition_key for r in night(launcher)] == ["bow"]


@pytest.mark.begin_with("read")
def test_texts_go_to_an_endpoint_at_night_only_if_params_name_it(launcher: DagsterLauncher, cards: Path) -> None:
    (cards / "far.yaml").write_text("kind: endpoint\nurl: http://127.0.0.1:9/v1\nmodel: far\n")
    launcher.instance.add_dynamic_partitions("models", ["far"])  # as a run of the command line leaves it
    assert {r.partition_key for r in night(launcher)} == {"bow"}
    with refused(Unsafe, "params.yaml"):
        EncoderResource().model("far", None)
    paths.params().write_text(PARAMS.replace("[bow]", "[bow, far]"))
    assert {r.partition_key for r in night(launcher)} == {"bow", "far"}
    assert EncoderResource().model("far", None).name == "far"


@pytest.mark.begin_with("read")
def test_a_night_keeps_to_the_budget_of_params(launcher: DagsterLauncher, cards: Path) -> None:
    (cards / "paid.yaml").write_text("kind: endpoint\nurl: http://127.0.0.1:9/v1\nmodel: paid\nprice: 0.1\n")
    paths.params().write_text(PARAMS.replace("[bow]", "[bow, paid]") + "nightly: {budget: 0}\n")
    assert {r.partition_key for r in night(launcher)} == {"bow", "paid"}
    # before anything is sent to the address, where nobody listens
    with refused(Unavailable, "$0.00", "nightly.budget"):
        EncoderResource().model("paid", None).fetch()


@pytest.mark.begin_with("read")
def test_a_night_is_published_once(launcher: DagsterLauncher, request_for: MakeRequest) -> None:
    assert "published when they end" in night(launcher, "nightly_publish").skip_message
    launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"]))
    assert night(launcher, "nightly_publish").tags[NIGHT] == "2026-01-01"


@pytest.mark.slow
@pytest.mark.begin_with("read")
@pytest.mark.parametrize(
    ("stages", "published"), [(("embeddings",), False), (("embeddings", "clusterings", "scores"), True)]
)
def test_scores_are_published_once_from_whatever_button(
    launcher: DagsterLauncher, stages: tuple[str, ...], published: bool
) -> None:
    defs, keys = launcher.definitions, [dg.AssetKey(["words", stage]) for stage in stages]
    button = defs.resolve_implicit_global_asset_job_def()
    made = button.execute_in_process(instance=launcher.instance, asset_selection=keys, partition_key="bow")
    run = launcher.instance.get_run_by_id(made.run_id)
    assert run is not None and made.success
    launcher.publish()  # of a command: not the tasks' pages
    assert (
        isinstance(ask_sensor(launcher, run, "publish_after_success", "PIPELINE_SUCCESS"), dg.RunRequest) == published
    )
    defs.resolve_job_def("publish").execute_in_process(instance=launcher.instance)
    shown = ask_sensor(launcher, run, "publish_after_success", "PIPELINE_SUCCESS")
    assert isinstance(shown, dg.SkipReason)  # what was published since shows the run


@pytest.mark.slow
@pytest.mark.begin_with("evaluated")
def test_a_night_that_is_canceled_is_published_with_what_it_scored(launcher: DagsterLauncher) -> None:
    instance, job = launcher.instance, launcher.definitions.resolve_job_def("evaluate")
    run = instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags={NIGHT: "2026-01-01", "dagster/partition": "bow"}
    )
    instance.report_run_canceled(run)
    request = ask_sensor(launcher, run, "publish_after_canceled", "PIPELINE_CANCELED")
    assert isinstance(request, dg.RunRequest) and request.tags == {NIGHT: "2026-01-01"}
    publish = launcher.definitions.resolve_job_def("publish")
    assert publish.execute_in_process(instance=instance, tags=request.tags).success
    assert isinstance(ask_sensor(launcher, run, "publish_after_canceled", "PIPELINE_CANCELED"), dg.SkipReason)


@pytest.mark.slow
@pytest.mark.begin_with("evaluated")
def test_a_day_is_remembered_as_its_night_left_it(
    launcher: DagsterLauncher, request_for: MakeRequest, storage: Storage
) -> None:
    def remembered(day: str) -> int:
        (night,) = storage.read_documents(Night, day)
        return len(night.cells)

    publish = launcher.definitions.resolve_job_def("publish")
    publish.execute_in_process(instance=launcher.instance, tags={NIGHT: "2026-01-01"})
    launcher.evaluate("tfidf", ["words"], request_for(["words"], ["tfidf"]))
    launcher.publish()  # of a later day: it compares with that night
    assert remembered("2026-01-01") == 5
    changes = pd.read_parquet(storage.get_table_path("regressions.parquet"))
    assert set(changes["since"]) == {"2026-01-01"}
    assert set(zip(changes["model"], changes["verdict"], strict=True)) == {("tfidf", "new")}
    publish.execute_in_process(instance=launcher.instance, tags={NIGHT: "2026-01-01"})
    assert remembered("2026-01-01") == 10


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_scores_that_mlflow_missed_are_tracked_the_next_night(
    launcher: DagsterLauncher, request_for: MakeRequest, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as down:
        down.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        down.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        assert launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"])) == []
    assert (storage.read_cells()["status"] == "done").sum() == 5
    (request,) = night(launcher)
    assert request.partition_key == "bow"
    launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"]))
    assert "nothing is missing" in night(launcher).skip_message


@pytest.mark.parametrize(
    ("setting", "status"), [("enabled: false", "STOPPED"), ("cron: 30 4 * * 1-5, timezone: UTC", "RUNNING")]
)
def test_the_night_is_set_in_params(cards: Path, setting: str, status: str) -> None:
    paths.params().write_text(PARAMS + f"nightly: {{{setting}}}\n")
    schedule = schedule_of(build_defs(), "nightly_benchmark")
    assert schedule.default_status.name == status
    if "cron" in setting:
        assert (schedule.cron_schedule, schedule.execution_timezone) == ("30 4 * * 1-5", "UTC")


def test_new_raw_data_is_read_once(launcher: DagsterLauncher, cards: Path) -> None:
    sensor = sensor_of(build_defs(), "raw_data")
    request = evaluate_tick(sensor, dg.build_sensor_context(launcher.instance))
    assert {tuple(key.path) for key in request.asset_selection} == {("words", "corpus"), ("words", "splits")}
    launcher.datasets(["words"])
    assert "no raw data is new" in evaluate_tick(sensor, dg.build_sensor_context(launcher.instance)).skip_message
    write_task(cards, "words", [*word_rows(), ("a new text", "birds")])
    changed = evaluate_tick(sensor, dg.build_sensor_context(launcher.instance))
    assert changed.run_key != request.run_key


# alerts


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """Hold what a webhook on this machine received."""
    received: list[dict[str, Any]] = []

    def receive(request: BaseHTTPRequestHandler) -> None:
        received.append(read_json(request))
        respond(request, 204)

    with serve(receive) as url:
        monkeypatch.setenv(WEBHOOK, f"{url}/hook")
        yield received


def fail(launcher: DagsterLauncher, model: str = "bow") -> dg.DagsterRun:
    """A run of `evaluate` that failed: its task was never read."""
    launcher.evaluate(model, ["words"], Request(["words"], [model], "tiny", load_params().chosen("tiny")))
    return launcher.instance.get_runs(limit=1)[0]


def alarm(launcher: DagsterLauncher, run: dg.DagsterRun) -> Any:
    return ask_sensor(launcher, run, "failed_runs", "PIPELINE_FAILURE")


def test_a_failed_run_raises_an_alert_that_says_how_to_try_again(
    launcher: DagsterLauncher, webhook: list[dict[str, Any]]
) -> None:
    alarm(launcher, fail(launcher))
    (alert,) = read_alerts()
    assert alert["summary"] == "evaluate of bow failed"
    assert "words/embeddings: " in alert["details"][0]
    assert alert["advice"] == "To try again: traube run --task words --model bow"
    assert [posted["summary"] for posted in webhook] == ["evaluate of bow failed"]


def test_a_run_that_is_tagged_so_raises_no_alert(launcher: DagsterLauncher, cards: Path) -> None:
    job = launcher.definitions.resolve_job_def("train")
    requested = {"asset_selection": [WWM], "partition_key": "words"}
    config = {"ops": {"trainers__wwm_checkpoints": {"config": {"model": "bow"}}}}
    failed = job.execute_in_process(
        config, launcher.instance, tags=dict([SILENT]), raise_on_error=False, run_id=str(uuid4()), **requested
    )
    run = launcher.instance.get_run_by_id(failed.run_id)
    assert run is not None and run.status == dg.DagsterRunStatus.FAILURE
    assert "traube/alert=no" in str(alarm(launcher, run).skip_message)
    assert not (paths.home() / FILE).exists()


@pytest.mark.parametrize("by_button", [False, True])
def test_the_alert_of_a_training_says_how_to_go_on(launcher: DagsterLauncher, by_button: bool) -> None:
    if by_button:
        job, keys = launcher.definitions.resolve_implicit_global_asset_job_def(), [WWM]
        config = {"ops": {"trainers__wwm_checkpoints": {"config": {"model": "bow"}}}}  # which is no encoder
        job.execute_in_process(
            config, launcher.instance, asset_selection=keys, partition_key="words", raise_on_error=False
        )
    else:
        launcher.train("wwm", "words", "bow", {}, unlabeled=False)
    alarm(launcher, launcher.instance.get_runs(limit=1)[0])
    (alert,) = read_alerts()
    assert alert["summary"] == f"{'materialization' if by_button else 'train'} of words failed"
    assert "'bow'" in alert["details"][0]
    assert alert["advice"] == "To go on: traube train wwm words"


OWN = """
protocol: own
tasks: [tiny]
models: [bow]
protocols: {own: {reducers: [none], clusterers: [kmeans], seeds: [1]}}
"""


def test_a_torn_line_keeps_no_alert_back(launcher: DagsterLauncher) -> None:
    (paths.home() / FILE).write_text('{"key": "of a crash')
    run = fail(launcher)
    for _ in range(2):  # once for a run
        alarm(launcher, run)
    assert [alert["run_id"] for alert in read_alerts()] == [run.run_id]


def test_a_broken_task_is_one_alert_and_not_one_for_each_model(launcher: DagsterLauncher) -> None:
    for model, alerts in (("bow", 1), ("tfidf", 1), ("nobody", 2)):  # the last one for another reason
        alarm(launcher, fail(launcher, model))
        assert len(read_alerts()) == alerts


@pytest.mark.parametrize("after", [0.4, 0.6])
def test_worse_scores_fail_a_check_and_raise_one_alert(
    cards: Path, storage: Storage, webhook: list[dict[str, Any]], after: float
) -> None:
    paths.params().write_text(OWN)
    save_task(storage)
    add_cell(storage, 0.5, "2026-01-01")
    add_cell(storage, after, "2026-01-02", fingerprint="f2")
    versions = set()
    for _ in range(2):  # what is known already is not said again, whatever else changes
        resources = {"storage": StorageResource(), "benchmark": BenchmarkResource()}
        made = dg.materialize([regressions], resources=resources, tags={NIGHT: "2026-01-02"})
        (check,) = made.get_asset_check_evaluations()
        assert (check.passed, check.severity) == (after > 0.5, dg.AssetCheckSeverity.WARN)
        (event,) = made.get_asset_materialization_events()
        versions.add(event.materialization.tags["dagster/data_version"])
        add_cell(storage, 0.5, "2026-01-02", model="other")
    assert len(versions) == 2  # since the other model is new
    alerts = [(alert["summary"], *alert["details"]) for alert in webhook]
    worse = ("Scores significantly worse than on 2026-01-01: 1", "tiny, ck with none/kmeans: 50.0 -> 40.0")
    assert alerts == ([worse] if after < 0.5 else [])


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/nobody", "http://[x"])
def test_a_webhook_that_is_down_or_malformed_loses_no_alert(
    launcher: DagsterLauncher, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(WEBHOOK, url)
    alarm(launcher, fail(launcher))
    assert len(read_alerts()) == 1


# lost runs

SLEEPER = """
import dagster as dg, os, time
@dg.op
def sleep():
    print("asleep", flush=True)
    time.sleep(600)
@dg.job(executor_def=dg.in_process_executor)
def sleeper():
    sleep()
with dg.DagsterInstance.get() as instance:
    sleeper.execute_in_process(instance=instance)
"""


@pytest.mark.slow
def test_a_run_whose_process_was_killed_is_ended_and_a_living_one_is_not(launcher: DagsterLauncher) -> None:
    # no tags: the process is known from Dagster's own events, as for runs that the daemon started
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, env=dict(os.environ)) as child:
        assert child.stdout is not None and child.stdout.readline() == b"asleep\n"
        assert end_lost_runs(launcher.instance) == []
        child.send_signal(signal.SIGKILL)
    (lost,) = end_lost_runs(launcher.instance)
    run = launcher.instance.get_run_by_id(lost)
    assert run is not None and run.status == dg.DagsterRunStatus.FAILURE
    assert end_lost_runs(launcher.instance) == []


def test_another_process_with_the_same_id_does_not_keep_a_run_alive() -> None:
    from sensors.lost_runs import _is_alive

    assert _is_alive(os.getpid(), time.time())
    assert not _is_alive(os.getpid(), 1.0)  # it had started by then, this one had not


@pytest.mark.slow
def test_data_that_is_put_back_as_it_was_is_read_again(launcher: DagsterLauncher, cards: Path) -> None:
    """Put rows A, B, A and B on one day, in which a failed read is not tried again."""
    sensor = sensor_of(build_defs(), "raw_data")
    keys, cursor = [], None

    def look() -> dg.RunRequest | dg.SkipReason:
        nonlocal cursor
        contexts = [dg.build_sensor_context(launcher.instance, cursor) for _ in range(2)]
        # the second one as after a crash before the cursor was saved
        result, repeated = (evaluate_tick(sensor, context) for context in contexts)
        assert getattr(repeated, "run_key", None) == getattr(result, "run_key", None)
        cursor = contexts[0].cursor
        return result

    for rows in 2 * (word_rows(), [*word_rows(), ("a new text", "birds")]):
        write_task(cards, "words", rows)
        request, failed = look(), look()
        assert isinstance(request, dg.RunRequest) and isinstance(failed, dg.RunRequest)
        assert failed.run_key == request.run_key
        keys.append(request.run_key)
        launcher.datasets(["words"])
        assert isinstance(look(), dg.SkipReason)
    assert len(set(keys)) == 4
