"""After every run that makes scores, whether it succeeded or not, the leaderboard and the report are made anew, once."""

from collections.abc import Mapping

import dagster as dg

from assets.common import NIGHT, OF_A_BUTTON, asset_key
from sensors import Jobs
from sensors.lost_runs import is_of_command
from traube.tasks import sources

WAITING = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)


def shows(instance: dg.DagsterInstance, since: float, night: Mapping[str, str]) -> bool:
    """Whether a publication, of the same night if it is of one, waits or began after a time in seconds since 1970."""
    records = instance.get_run_records(dg.RunsFilter(job_name="publish", tags=dict(night)), limit=10)
    return any(r.dagster_run.status in WAITING or (r.start_time or 0) > since for r in records)


def sensors(jobs: Jobs) -> list[dg.SensorDefinition]:
    """One sensor per outcome: a run fails when one of its tasks does, and the others' scores still count."""
    scores = {asset_key(source.name, source.card.type.stages[-1]) for source in sources(None).values()}

    def sensor(status: dg.DagsterRunStatus) -> dg.SensorDefinition:
        @dg.run_status_sensor(
            name=f"publish_after_{status.value.lower()}",
            run_status=status,
            request_job=jobs["publish"],
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=5,
        )
        def publish_after(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
            run = context.dagster_run
            made = run.asset_selection or scores  # nothing is selected: of a job that makes all of them
            if run.job_name not in ("evaluate", OF_A_BUTTON) or not made & scores:
                return dg.SkipReason("the run makes no scores")
            if is_of_command(run):
                return dg.SkipReason("the command that started this run publishes by itself")
            night = {name: value for name, value in run.tags.items() if name == NIGHT}
            (record,) = context.instance.get_run_records(dg.RunsFilter([run.run_id]))
            if shows(context.instance, record.end_time or 0, night):
                return dg.SkipReason("another publication shows this run too")
            return dg.RunRequest(run_key=run.run_id, tags=night)

        return publish_after

    return [sensor(dg.DagsterRunStatus.SUCCESS), sensor(dg.DagsterRunStatus.FAILURE)]
