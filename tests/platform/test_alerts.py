"""Automation never stops in silence: failed ticks, late results and refused folders are alerts, and a night has a digest."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._utils.error import SerializableErrorInfo

from assets.common import NIGHT
from definitions import build_defs
from operations.launch import DagsterLauncher
from resources.alerts import FILE, read_alerts, send_alert
from tests.platform.conftest import evaluate_tick, sensor_of
from traube._core import paths


def ask(launcher: DagsterLauncher, name: str, cursor: str | None = None) -> str | None:
    """Evaluate a sensor, and return the cursor that it leaves."""
    context = dg.build_sensor_context(launcher.instance, cursor=cursor)
    evaluate_tick(sensor_of(build_defs(), name), context)
    return context.cursor


def fail_tick(instance: dg.DagsterInstance, sensor: str, message: str, at: float) -> None:
    """Leave what the daemon leaves of a tick that failed."""
    from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin

    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("definitions"), "r"), sensor)
    state = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, SensorInstigatorData())
    if instance.get_instigator_state(state.instigator_origin_id, state.selector_id) is None:
        instance.add_instigator_state(state)
    error = SerializableErrorInfo(message=f"{message}\nmore", stack=[], cls_name="DagsterInvalidSubsetError")
    data = (state.instigator_origin_id, sensor, InstigatorType.SENSOR, TickStatus.FAILURE, at)
    instance.create_tick(TickData(*data, selector_id=state.selector_id, error=error))


def test_a_failed_tick_is_one_alert_a_day_for_each_cause(launcher: DagsterLauncher) -> None:
    assert ask(launcher, "failed_ticks") is None and not read_alerts()
    began = datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()
    for minute in range(3):
        fail_tick(launcher.instance, "raw_data", "no asset of T", began + 60 * minute)
    cursor = ask(launcher, "failed_ticks")
    fail_tick(launcher.instance, "raw_data", "no asset of T", began + 600)
    cursor = ask(launcher, "failed_ticks", cursor)
    assert [(alert["summary"], alert["details"]) for alert in read_alerts()] == [
        ("a tick of raw_data failed", ["no asset of T"])
    ]
    fail_tick(launcher.instance, "raw_data", "another cause", began + 700)
    fail_tick(launcher.instance, "new_checkpoints", "no asset of T", began + 700)
    fail_tick(launcher.instance, "raw_data", "no asset of T", began + 24 * 3600)
    assert ask(launcher, "failed_ticks", cursor) == str(began + 24 * 3600)
    assert len(read_alerts()) == 4


@pytest.mark.begin_with("published")
def test_a_night_ends_with_one_digest(launcher: DagsterLauncher) -> None:
    def tell(**tags: str) -> Any:
        job = launcher.definitions.resolve_job_def("publish")
        made = job.execute_in_process(
            instance=launcher.instance, asset_selection=[dg.AssetKey("regressions")], tags=tags
        )
        run = launcher.instance.get_run_by_id(made.run_id)
        (event,) = (
            e.dagster_event for e in launcher.instance.all_logs(made.run_id, of_type=dg.DagsterEventType.RUN_SUCCESS)
        )
        context = dg.build_run_status_sensor_context("nightly_digest", event, launcher.instance, run)
        return sensor_of(build_defs(), "nightly_digest")(context)

    class Log:
        def error(self, text: str) -> None:
            pass

    send_alert(Log(), "refused x", "checkpoint x is refused", ["no weights"], "mend it")  # type: ignore[arg-type]
    assert "no publication of a night" in tell().skip_message
    night = {NIGHT: "2026-01-01"}
    evaluate = launcher.definitions.resolve_job_def("evaluate")
    begun = launcher.instance.create_run_for_job(
        evaluate, status=dg.DagsterRunStatus.STARTED, tags={**night, "dagster/partition": "bow"}
    )
    assert "at work" in tell(**night).skip_message
    launcher.instance.report_run_failed(begun)
    assert tell(**night) is None and tell(**night) is None
    refused, digest = read_alerts()
    assert (refused["key"], digest["key"]) == ("refused x", "night 2026-01-01")
    runs, changes, champion, repeated, disk = digest["details"]
    assert champion.startswith("champion of words: bow with ")
    assert runs.startswith("1 runs") and runs.endswith("bow")
    assert changes.startswith("0 scores changed") and repeated == "checkpoint x is refused: no weights"
    assert "MiB" in disk
    assert tell(**{NIGHT: "2026-01-02"}) is None
    runs, changes, champion, disk = read_alerts()[-1]["details"]  # what the digest before reported, and it, are no news


@pytest.mark.begin_with("published")
def test_a_night_that_is_late_is_one_alert(launcher: DagsterLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publication of a command by day is no night."""
    ask(launcher, "late_night")
    assert not read_alerts()  # a benchmark that is new
    long_ago = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    assert ask(launcher, "late_night", long_ago) == long_ago
    (alert,) = read_alerts()
    (paths.home() / FILE).unlink()
    publish = launcher.definitions.resolve_job_def("publish")
    tonight = {"tags": {NIGHT: "2026-01-01"}, "asset_selection": [dg.AssetKey("report")]}
    assert publish.execute_in_process(instance=launcher.instance, **tonight).success
    ask(launcher, "late_night", long_ago)
    assert not read_alerts()
    monkeypatch.setattr("sensors.digest.LATE", timedelta(0))
    ask(launcher, "late_night", long_ago)
    (alert,) = read_alerts()
    assert alert["key"].startswith("late ")
    paths.params().write_text(paths.params().read_text() + "nightly: {enabled: false}\n")
    (paths.home() / FILE).unlink()
    ask(launcher, "late_night", long_ago)
    assert not read_alerts()


def test_lines_that_a_crash_tore_are_no_alerts(launcher: DagsterLauncher) -> None:
    (paths.home() / FILE).write_text(json.dumps({"key": "a"}) + '\n{"key": "b\n')
    assert read_alerts() == [{"key": "a"}]
