"""A failed run raises an alert: in the log, in a file, and at a webhook if there is one. A
cancelled run raises none.
"""

import json
import os
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from resources.webhook import post
from sensors import Jobs
from traube.core import paths
from traube.core.files import append_line
from traube.core.inert import visible

WEBHOOK = "TRAUBE_WEBHOOK"
WILL_RETRY, PARTITION = "dagster/will_retry", "dagster/partition"


def sensors(jobs: Jobs) -> list[dg.SensorDefinition]:
    @dg.run_failure_sensor(
        name="failed_runs",
        monitored_jobs=list(jobs.values()),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=10,
        description=f"Writes an alert to alerts.jsonl, and posts it to ${WEBHOOK} if that is set.",
    )
    def failed_runs(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        run = context.dagster_run
        if run.tags.get(WILL_RETRY) == "true":
            return dg.SkipReason("the run is tried again by itself")
        alert = alert_of(run, [(str(e.step_key), _cause(e)) for e in context.get_step_failure_events()])
        alert["errors"] = alert["errors"] or [context.failure_event.message or "the run failed"]
        context.log.error(f"{alert['summary']}: {'; '.join(alert['errors'])}. {alert['retry']}")
        append_line(paths.home() / "alerts.jsonl", json.dumps(alert, ensure_ascii=False))
        url = os.environ.get(WEBHOOK)
        text = "\n".join([alert["summary"], *alert["errors"], alert["retry"]])  # what chat services show
        if url and (error := post(url, {"text": text, **alert})):
            context.log.error(f"${WEBHOOK}: {error}")
        return None

    return [failed_runs]


def alert_of(run: dg.DagsterRun, errors: list[tuple[str, str]]) -> dict[str, Any]:
    """What people need to know of a failed run: what failed, why, and how to try again.

    Parameters
    ----------
    errors : (step, message) of each step that failed
    """
    model = run.tags.get(PARTITION, "")
    tasks = list(dict.fromkeys(step.split("__")[0] for step, _ in errors if "__" in step))
    return {
        "summary": f"{run.job_name}{f' of {model}' if model else ''} failed",
        "errors": [f"{step.replace('__', '/')}: {visible(message)}" for step, message in errors],
        "retry": _advice(run.job_name, model, tasks, [step for step, _ in errors]),
        "job": run.job_name,
        "model": model,
        "tasks": tasks,
        "run_id": run.run_id,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _advice(job: str, model: str, tasks: list[str], steps: list[str]) -> str:
    if job == "fetch":
        return "It is tried again tomorrow"
    if job in ("train", "tune"):  # whose steps are called checkpoints__<trainer>__<task> and studies__<trainer>__<task>
        trained = [step.split("__")[1:] for step in steps]
        return "To go on: " + "; ".join(f"traube {job} {trainer} {task}" for trainer, task in trained)
    if job == "sweep":
        return "It goes on where it stopped: traube sweep " + " ".join(step.split("__")[1] for step in steps)
    options = "".join([f" --task {t}" for t in tasks] + ([f" --model {model}"] if model else []))
    return f"To try again: traube run{options}"


def _cause(event: dg.DagsterEvent) -> str:
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    error = data.error
    return ((error.cause or error).message.strip() if error else event.message or "failed").splitlines()[0]
