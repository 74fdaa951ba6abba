"""A failed run raises an alert: in the log, in a file, and at a webhook if there is one. A
cancelled run raises none.
"""

import json
import os
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any
from urllib.request import Request, urlopen

import dagster as dg

from sensors import Jobs
from traube.foundation import paths
from traube.foundation.files import append_line

WEBHOOK = "TRAUBE_WEBHOOK"
SECONDS = 10
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
        if url:
            _post(url, alert, context.log)
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
        "errors": [f"{step.replace('__', '/')}: {message}" for step, message in errors],
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
    options = "".join([f" --task {t}" for t in tasks] + ([f" --model {model}"] if model else []))
    return f"To try again: traube run{options}"


def _cause(event: dg.DagsterEvent) -> str:
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    error = data.error
    return ((error.cause or error).message.strip() if error else event.message or "failed").splitlines()[0]


def _post(url: str, alert: dict[str, Any], log: Any) -> None:
    text = "\n".join([alert["summary"], *alert["errors"], alert["retry"]])
    body = json.dumps({"text": text, **alert}).encode()  # `text` is what chat services show
    if not url.startswith(("https://", "http://")):
        log.error(f"${WEBHOOK} is no web address; the alert was not posted")
        return
    try:
        request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 (checked above)
        with urlopen(request, timeout=SECONDS):  # noqa: S310
            pass
    except (OSError, HTTPException) as error:  # an alert that cannot be posted is still in the log and in the file
        log.error(f"the alert could not be posted: {error}")
