"""After every evaluation, whether it succeeded or not, the leaderboard and the report are made anew."""

from collections.abc import Mapping

import dagster as dg

from assets.common import NIGHT
from sensors import Jobs

WAITING = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)


def is_waiting(instance: dg.DagsterInstance, night: Mapping[str, str]) -> bool:
    """Whether a run of `publish` has not begun yet, of the same night if it is of one."""
    return bool(instance.get_runs(dg.RunsFilter(job_name="publish", statuses=WAITING, tags=dict(night)), limit=1))


def sensors(jobs: Jobs) -> list[dg.SensorDefinition]:
    """One sensor per outcome: a run fails when one of its tasks does, and the others' scores still count."""

    def sensor(status: dg.DagsterRunStatus) -> dg.SensorDefinition:
        @dg.run_status_sensor(
            name=f"publish_after_{status.value.lower()}",
            run_status=status,
            monitored_jobs=[jobs["evaluate"]],
            request_job=jobs["publish"],
            default_status=dg.DefaultSensorStatus.RUNNING,
            minimum_interval_seconds=5,
        )
        def publish_after(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
            if context.dagster_run.tags.get("traube/publishes") == "yes":
                return dg.SkipReason("the command that started this run publishes by itself")
            night = {name: value for name, value in context.dagster_run.tags.items() if name == NIGHT}
            if is_waiting(context.instance, night):
                return dg.SkipReason("a publication is waiting already; it will show this run too")
            return dg.RunRequest(run_key=context.dagster_run.run_id, tags=night)

        return publish_after

    return [sensor(dg.DagsterRunStatus.SUCCESS), sensor(dg.DagsterRunStatus.FAILURE)]
