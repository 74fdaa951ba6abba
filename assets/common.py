"""Keys, partitions and policies that assets share, and the reporting of errors."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import dagster as dg

from traube._core.errors import TraubeError
from traube.components import Method
from traube.tasks import Source, get_source
from traube.tasks.task import Stage

if TYPE_CHECKING:
    import pandas as pd

Job: TypeAlias = Any  # a JobDefinition, or what `define_asset_job` makes: its class has no public name
RESULTS, TASK_REPORTS = "results", "task_reports"  # the group of what is made of all tasks, and of it their pages
PAPERS = "papers"  # how keys of the papers' tables begin
TRAINERS, CHECKPOINTS, STUDIES = "trainers", "_checkpoints", "_studies"  # how keys of trainers begin and end
TRAININGS = "trainings"  # the pool of steps that train: of so many at once, as dagster.yaml says
NIGHT = "traube/night"  # tag of a run that is part of a night: the night's date
WAITING = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)
UNFINISHED = (*WAITING, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)
UI_JOB = "__ASSET_JOB"  # the job of assets that somebody materializes in the UI
MADE_OF = "traube/tasks"  # metadata of a table that is made of these tasks alone: no other one changes it

RAW = "raw"  # how the key of what a task is read from ends
WEIGHTS = dg.AssetKey("weights")  # of the models

MODELS = dg.DynamicPartitionsDefinition(name="models")

# a nightly result is late after a day and two hours, and has failed after a day and a half
LATE = timedelta(hours=26)
NIGHTLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=36), warn_window=LATE)

# the assets that are made of all tasks
result_asset = partial(dg.asset, group_name=RESULTS, freshness_policy=NIGHTLY)

# Declarative automation, for those who switch its sensor on. `missing` and not `eager`: eager
# passes over failed checks of earlier runs, and over partitions that were there before it was first
# evaluated; a failed cell waits for somebody to ask again.
BACKFILL = (
    dg.AutomationCondition.missing()
    & ~dg.AutomationCondition.any_deps_missing().ignore(dg.AssetSelection.assets(WEIGHTS))  # observed, never missing
    & ~dg.AutomationCondition.in_progress()
    & ~dg.AutomationCondition.execution_failed()
    & dg.AutomationCondition.all_deps_blocking_checks_passed()
)
# a table over all partitions would wait for the whole row as soon as a model is added
REBUILD = dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())


def describe_table(frame: "pd.DataFrame", meanings: Mapping[str, str]) -> dict[str, Any]:
    """Return the rows and columns of a table, and the meaning of the columns, as Dagster shows them."""
    columns = [dg.TableColumn(str(name), str(dtype), meanings.get(str(name))) for name, dtype in frame.dtypes.items()]
    return {"dagster/row_count": len(frame), "dagster/column_schema": dg.TableSchema(columns)}


def asset_key(task: str, stage: str) -> dg.AssetKey:
    """Return the key of a stage of a task."""
    return dg.AssetKey([task, str(stage)])  # Dagster writes no enum


def trainer_key(trainer: str, made: str) -> dg.AssetKey:
    """Return the key of a trainer's checkpoints or studies.

    Beside other groups, Dagster shows the last part of the key alone.
    """
    return dg.AssetKey([TRAINERS, f"{trainer}{made}"])


def tag_family(source: Source) -> dict[str, str]:
    """Return the tag by which Dagster finds all assets of a task's family: `tag:traube/family=pydocs`."""
    return {"traube/family": source.card.family}


def data_keys(tasks: Iterable[str]) -> list[dg.AssetKey]:
    """Return the keys of the assets that a `datasets` run of tasks makes."""
    return [asset_key(task, stage) for task in tasks for stage in ("corpus", get_source(task, None).card.type.table)]


def model_keys(tasks: Iterable[str], methods: Iterable[Method] | None = None) -> list[dg.AssetKey]:
    """Return the keys of the assets that an `evaluate` run of tasks makes, by default by methods of every kind."""
    keys = [asset_key(task, stage) for task in tasks for stage in get_source(task, None).card.type.stages]
    trains = methods is None or any(method.trains for method in methods)
    return [key for key in keys if trains or key.path[-1] != Stage.DEEP_CLUSTERINGS]


def tag_run(tasks: Iterable[str], model: str = "") -> dict[str, str]:
    """Return the tags of a run by which Dagster finds it and can limit what works at once."""
    tasks = list(tasks)
    kinds = sorted({get_source(task, None).card.type.name for task in tasks})
    tags = {"traube/task": ",".join(tasks), "traube/kind": ",".join(kinds), "traube/model": model}
    return {name: value for name, value in tags.items() if value}


def yield_with_checks(
    context: dg.AssetExecutionContext, result: dg.MaterializeResult
) -> Iterator[dg.MaterializeResult]:
    """Yield what a step made, and report its checks once more where another run made the same meanwhile.

    Of several runs Dagster shows the checks of the one that was created last, and takes them for outdated where another one
    ended later.
    """
    yield result
    if _was_made_meanwhile(context):
        time.sleep(1)  # which came first is seen in whole seconds
        for check in result.check_results or ():
            evaluation = dg.AssetCheckEvaluation(
                context.asset_key,
                str(check.check_name),
                check.passed,
                check.metadata,
                severity=check.severity,
                description=check.description,
            )
            context.instance.report_runless_asset_event(evaluation)


def _was_made_meanwhile(context: dg.AssetExecutionContext) -> bool:
    """Return whether another run that makes a step's asset was at work since this one was created."""
    record = context.instance.get_run_record_by_id(context.run.run_id)
    others = context.instance.get_runs(dg.RunsFilter(updated_after=record.create_timestamp)) if record else []
    return any(
        run.run_id != context.run.run_id
        and (
            run.job_name == context.run.job_name
            if run.asset_selection is None
            else context.asset_key in run.asset_selection
        )
        for run in others
    )


@contextmanager
def final_failures() -> Iterator[None]:
    """Turn an error into a failure of the step that is not tried again: it would fail in the same way."""
    try:
        yield
    except TraubeError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


def report_tracking(
    context: dg.AssetExecutionContext, log: Callable[[], dict[str, dg.MetadataValue]], kept: str = "scores are stored"
) -> dict[str, dg.MetadataValue]:
    """Return the metadata that logging to MLflow gives, or the reason why logging failed.

    No result is lost because the tracking server is down.
    """
    try:
        return log()
    except Exception as error:
        context.log.warning(f"{kept}, but not logged to MLflow: {error}")
        return {"mlflow": dg.MetadataValue.text(f"not logged: {error}")}
