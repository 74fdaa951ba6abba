"""The sensor that sends an alert for each failed run, whoever launched it; canceled runs send none."""

from datetime import UTC, datetime

import dagster as dg

from assets.common import CHECKPOINTS, NIGHT, STUDIES, TRAINERS, UI_JOB
from resources.alerts import FILE, SILENT, WEBHOOK, send_alert
from sensors import Loaded
from traube._core.escaping import escape_controls
from traube._core.hashing import digest
from traube.tasks import sources

WILL_RETRY, PARTITION = "dagster/will_retry", "dagster/partition"


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensor that sends an alert for each failed run."""

    @dg.run_failure_sensor(
        name="failed_runs",
        monitor_all_code_locations=True,  # also runs outside of `jobs`, from the UI or the command line
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=10,
        description=f"Writes an alert to {FILE}, and posts it to ${WEBHOOK} if that is set.",
    )
    def failed_runs(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        run = context.dagster_run
        if run.tags.get(WILL_RETRY) == "true":
            return dg.SkipReason("Dagster retries the run")
        if SILENT in run.tags.items():
            return dg.SkipReason(f"the run's tag {'='.join(SILENT)} asks for no alert")
        errors = {str(event.step_key): _explain(event) for event in context.get_step_failure_events()}
        details = [f"{step.replace('__', '/')}: {escape_controls(message)}" for step, message in errors.items()]
        details = details or [context.failure_event.message or "the run failed"]
        job = "materialization" if run.job_name == UI_JOB else run.job_name
        partition = run.tags.get(PARTITION, "")
        summary = f"{job}{f' of {partition}' if partition else ''} failed"
        advice = _advise(job, partition, [*errors])
        context.log.error(f"{summary}: {'; '.join(details)}. {advice}")
        # a broken task fails under each model alike: one alert a day
        day = run.tags.get(NIGHT) or datetime.now(UTC).date().isoformat()
        key = f"{digest(details)} {day}" if partition and errors else run.run_id
        send_alert(context.log, key, summary, details, advice, job=job, run_id=run.run_id)
        return None

    return [failed_runs]


def _explain(event: dg.DagsterEvent) -> str:
    """Return why a step failed, in a line."""
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    if data.error is None:
        return (event.message or "failed").splitlines()[0]
    if data.error.cls_name == "DagsterAssetCheckFailedError":
        return " ".join(data.error.message.partition(": ")[2].split())
    return (data.error.cause or data.error).message.strip().splitlines()[0]


def _advise(job: str, partition: str, steps: list[str]) -> str:
    """Return how to try a failed run again. A step is named after its asset: `trainers__<trainer>_checkpoints`."""
    prefixes = {step.split("__")[0] for step in steps}
    names = [step.split("__")[1] for step in steps if "__" in step]
    if job == "fetch":
        return "It is tried again tomorrow"
    if job == "assign":
        return "It is tried again tomorrow, or now by Dagster's page of the run"
    if prefixes == {TRAINERS}:
        command = "tune" if steps[0].endswith(STUDIES) else "train"
        names = [name.removesuffix(STUDIES).removesuffix(CHECKPOINTS) for name in names]
        return "To go on: " + "; ".join(f"traube {command} {name} {partition}" for name in names)
    if prefixes == {"sweeps"}:
        return f"It goes on where it stopped: traube sweep {' '.join(names)}"
    tasks = sorted(prefixes & {*sources(None)})
    if not tasks:
        return "Dagster's page of the run can repeat it"
    return f"To try again: traube run{''.join(f' --task {t}' for t in tasks)}{f' --model {partition}' if partition else ''}"
