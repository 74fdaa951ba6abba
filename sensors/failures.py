"""A failed run raises an alert, a cancelled one none: in the log, in a file, and at a webhook if there is one."""

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
        errors = []  # (step, message) of each step that failed
        for event in context.get_step_failure_events():
            data = event.step_failure_data
            if data.user_failure_data and data.user_failure_data.description:
                message = data.user_failure_data.description
            else:
                raised = (data.error.cause or data.error).message.strip() if data.error else event.message or "failed"
                message = raised.splitlines()[0]
            errors.append((str(event.step_key), message))
        alert = _alert(run, errors)
        alert["errors"] = alert["errors"] or [context.failure_event.message or "the run failed"]
        context.log.error(f"{alert['summary']}: {'; '.join(alert['errors'])}. {alert['retry']}")
        append_line(paths.home() / "alerts.jsonl", json.dumps(alert, ensure_ascii=False))
        url = os.environ.get(WEBHOOK)
        text = "\n".join([alert["summary"], *alert["errors"], alert["retry"]])  # what chat services show
        if url and (error := post(url, {"text": text, **alert})):
            context.log.error(f"${WEBHOOK}: {error}")
        return None

    return [failed_runs]


def _alert(run: dg.DagsterRun, errors: list[tuple[str, str]]) -> dict[str, Any]:
    """What people need to know of a failed run: what failed, why, and how to try again."""
    job, model, steps = run.job_name, run.tags.get(PARTITION, ""), [step for step, _ in errors]
    tasks = list(dict.fromkeys(step.split("__")[0] for step in steps if "__" in step))
    if job == "fetch":
        advice = "It is tried again tomorrow"
    elif job in ("train", "tune"):  # whose steps are checkpoints__<trainer>__<task> and studies__<trainer>__<task>
        trained = [step.split("__")[1:] for step in steps]
        advice = "To go on: " + "; ".join(f"traube {job} {trainer} {task}" for trainer, task in trained)
    elif job == "sweep":
        advice = "It goes on where it stopped: traube sweep " + " ".join(step.split("__")[1] for step in steps)
    else:
        options = "".join([f" --task {t}" for t in tasks] + ([f" --model {model}"] if model else []))
        advice = f"To try again: traube run{options}"
    return {
        "summary": f"{job}{f' of {model}' if model else ''} failed",
        "errors": [f"{step.replace('__', '/')}: {visible(message)}" for step, message in errors],
        "retry": advice,
        "job": job,
        "model": model,
        "tasks": tasks,
        "run_id": run.run_id,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
