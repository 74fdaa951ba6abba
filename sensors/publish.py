"""After every run that makes scores, whether it succeeded or not, what is made of its tasks is rebuilt, once."""

from collections.abc import Collection, Mapping

import dagster as dg

from assets.common import NIGHT, UI_JOB, WAITING, asset_key
from sensors import Loaded
from sensors.lost_runs import is_of_command
from traube.tasks import sources


def is_published(
    instance: dg.DagsterInstance, since: float, night: Mapping[str, str], wanted: Collection[dg.AssetKey]
) -> bool:
    """Return whether a publication of all that is wanted is queued, or began after `since`, in seconds since 1970.

    If `night` is given, only publications of that nightly run count. One that failed or repeats another does not count.
    """
    records = instance.get_run_records(dg.RunsFilter(job_name="publish", tags=dict(night)), limit=10)
    lost = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
    for record in records:
        run = record.dagster_run
        is_whole = run.parent_run_id is None and {*wanted} <= (run.asset_selection or {*wanted})
        is_late = run.status in WAITING or (record.start_time or 0) > since
        if is_whole and is_late and run.status not in lost:
            return True
    return False


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return one sensor per outcome.

    A run fails when one of its tasks does, and the others' scores still count.
    """
    scores = {asset_key(source.name, source.card.type.stages[-1]) for source in sources(None).values()}

    def sensor(status: dg.DagsterRunStatus) -> dg.SensorDefinition:
        @dg.run_status_sensor(
            name=f"publish_after_{status.value.lower()}",
            run_status=status,
            request_job=loaded.jobs["publish"],
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=5,
            description=f"Rebuilds leaderboard, registry and reports after a run of status {status.value} that made scores.",
        )
        def publish_after(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
            run = context.dagster_run
            selected = run.asset_selection or scores  # without a selection the job makes all of them
            if run.job_name not in ("evaluate", UI_JOB) or not selected & scores:
                return dg.SkipReason("the run makes no scores")
            if is_of_command(run):
                return dg.SkipReason("the command that started this run publishes by itself")
            if "dagster/from_automation_condition" in run.tags:
                return dg.SkipReason("declarative automation publishes by itself")
            night = {name: value for name, value in run.tags.items() if name == NIGHT}
            (record,) = context.instance.get_run_records(dg.RunsFilter([run.run_id]))
            wanted = loaded.list_published({key.path[0] for key in selected & scores})
            if is_published(context.instance, record.end_time or 0, night, wanted):
                return dg.SkipReason("another publication shows this run too")
            return dg.RunRequest(run_key=run.run_id, tags=night, asset_selection=wanted)

        return publish_after

    ends = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
    return [sensor(status) for status in ends]
