"""The digest of each night, an alert that says what became of it, and the alert of a night that did not come."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg

from assets.common import LATE, NIGHT, UNFINISHED
from resources.alerts import read_alerts, send_alert
from sensors import Loaded
from traube._core import paths
from traube._core.errors import join_words
from traube._core.inputs import format_size
from traube._pipeline.params import load_params
from traube._storage import open_storage
from traube.comparison.regressions import read_changes

LOOKED_AT = 200  # publications, the newest first, among which the last night's is looked for


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensors `nightly_digest` and `late_night`."""

    @dg.run_status_sensor(
        name="nightly_digest",
        run_status=dg.DagsterRunStatus.SUCCESS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=30,
        description="Sends what became of a night, when it is published: runs, changes, champions, what was refused, disk.",
    )
    def nightly_digest(context: dg.RunStatusSensorContext) -> dg.SkipReason | None:
        run = context.dagster_run
        night = run.tags.get(NIGHT)
        if run.job_name != "publish" or not night:
            return dg.SkipReason("no publication of a night")
        if context.instance.get_runs(dg.RunsFilter(tags={NIGHT: night}, statuses=[*UNFINISHED])):
            return dg.SkipReason("runs of the night are at work")
        details = [*_describe_night(context.instance, night)]
        advice = "The page of all tasks: traube report"
        send_alert(context.log, f"night {night}", f"the night of {night}", details, advice, night=night)
        return None

    @dg.sensor(
        name="late_night",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=600,
        description="Sends an alert when the results of a night are late.",
    )
    def late_night(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        if not load_params().nightly.enabled:
            return dg.SkipReason("params.yaml switches the night off")
        began = context.cursor or datetime.now(UTC).isoformat()
        context.update_cursor(began)  # a benchmark that is new has had no night
        done = dg.RunsFilter(job_name="publish", statuses=[dg.DagsterRunStatus.SUCCESS])
        records = context.instance.get_run_records(done, limit=LOOKED_AT)
        # commands by day are no nightly runs
        ended = [record.end_time or 0.0 for record in records if NIGHT in record.dagster_run.tags]
        newest = max([datetime.fromisoformat(began).timestamp(), *ended])
        age = timedelta(seconds=datetime.now(UTC).timestamp() - newest)
        if age < LATE:
            return dg.SkipReason("the last night was published")
        day = datetime.fromtimestamp(newest, UTC).date().isoformat()
        details = [f"the last night was published {age.total_seconds() / 3600:.0f} hours ago"]
        advice = (
            "Dagster's pages of nightly_benchmark and of the last runs say why; traube doctor looks at this machine"
        )
        send_alert(context.log, f"late {day}", "the results of the night are late", details, advice)
        return dg.SkipReason("late")

    return [nightly_digest, late_night]


def _describe_champions() -> Iterator[str]:
    """Yield the champion of each task, and since when."""
    from traube.comparison.champions import read_champions

    for champion in read_champions(open_storage(paths.home())).now:
        served = (
            f"{champion.model} with {champion.method} since {champion.formatted_since}"
            if champion.model
            else "none yet"
        )
        yield f"champion of {champion.task}: {served}"


def _describe_night(instance: dg.DagsterInstance, night: str) -> Iterator[str]:
    """Yield runs and which of them were in vain, changed scores, champions, alerts, and what the data directory takes."""
    runs = instance.get_runs(dg.RunsFilter(job_name="evaluate", tags={NIGHT: night}))
    in_vain = [run.tags.get("dagster/partition", "") for run in runs if run.status != dg.DagsterRunStatus.SUCCESS]
    yield f"{len(runs)} runs" + (f"; not to their end: {join_words(sorted({*in_vain}))}" if in_vain else "")
    changes = read_changes(open_storage(paths.home()))
    worse, better = ((changes["verdict"] == verdict).sum() for verdict in ("worse", "better"))
    yield f"{len(changes)} scores changed: {better} significantly better, {worse} worse"
    yield from _describe_champions()
    yield from _repeat_alerts()
    home = paths.home()
    taken = sum(file.lstat().st_size for file in home.rglob("*") if file.is_file())
    yield f"disk: {format_size(taken)} in the data directory, {format_size(shutil.disk_usage(home).free)} free"


def _repeat_alerts() -> Iterator[str]:
    """Yield the alerts since the digest before: failed runs and ticks, new champions, refused checkpoints."""
    alerts = read_alerts()
    before = max((alert["time"] for alert in alerts if "night" in alert), default="")
    for alert in alerts:
        if alert["time"] >= before and "night" not in alert:
            yield f"{alert['summary']}: {'; '.join(alert['details'])[:300]}"
