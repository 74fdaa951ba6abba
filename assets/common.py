"""What all stages share: keys, partitions, and the guard against checks that failed before."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import Any, TypeAlias

import dagster as dg

from resources.benchmark import EncoderResource, StorageResource
from traube.components import Method
from traube.core.errors import TraubeError, Unsupported
from traube.pipeline.plan import Plan, Request
from traube.pipeline.survey import survey_stored
from traube.tasks import Source, get_source
from traube.tasks.task import Stage

Job: TypeAlias = Any  # a JobDefinition, or what `define_asset_job` makes: its class has no public name
PAGE, PAGES = "report", ("traube/page", "task")  # a task's page, and the tag of all of them

NIGHT = "traube/night"  # tag of a run that is part of a night: the night's date

OF_TASKS = "traube/tasks"  # metadata of a table that is made of these tasks alone: no other one changes it

MODELS = dg.DynamicPartitionsDefinition(name="models")

# what every night makes anew is late after a day and a bit, and amiss after a day and a half
NIGHTLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=36), warn_window=timedelta(hours=26))

# Declarative automation, for those who switch its sensor on. `missing` and not `eager`: eager
# passes over failed checks of earlier runs, and over partitions that were there before it was first
# evaluated; a failed cell waits for somebody to ask again.
FILL = (
    dg.AutomationCondition.missing()
    & ~dg.AutomationCondition.any_deps_missing()
    & ~dg.AutomationCondition.in_progress()
    & ~dg.AutomationCondition.execution_failed()
    & dg.AutomationCondition.all_deps_blocking_checks_passed()
)
# a table over all partitions would wait for the whole row as soon as a model is added
REBUILD = dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())
SECONDS_TO_WAIT = 60


def asset_key(task: str, stage: str) -> dg.AssetKey:
    return dg.AssetKey([task, str(stage)])  # Dagster writes no enum


def data_keys(tasks: Iterable[str]) -> list[dg.AssetKey]:
    """What a `datasets` run of some tasks makes."""
    return [asset_key(task, stage) for task in tasks for stage in ("corpus", get_source(task, None).card.type.table)]


def model_keys(tasks: Iterable[str], methods: Iterable[Method]) -> list[dg.AssetKey]:
    """What an `evaluate` run of some tasks makes, those of clustering by some methods."""
    trains = any(method.trains for method in methods)
    return [key for key in all_model_keys(tasks) if trains or key.path[-1] != Stage.DEEP_CLUSTERINGS]


def all_model_keys(tasks: Iterable[str]) -> list[dg.AssetKey]:
    """What an `evaluate` run of some tasks can make."""
    return [asset_key(task, stage) for task in tasks for stage in get_source(task, None).card.type.stages]


def plan_of(task: str, model: str, request: Request, encoder: EncoderResource, storage: StorageResource) -> Plan:
    """Plan what a request asks of a stored task and a model.

    Raises
    ------
    TraubeError
        If the task has not been read, or there is no such model, or it cannot compare pairs.
    """
    loaded = encoder.model(model, request.protocol.precision)
    plan = Plan.of(replace(request, tasks=[task]), survey_stored([task], loaded, storage.open()))
    if not plan.total:
        raise Unsupported(f"model '{model}' compares texts for a query, and pairs have none")
    return plan


@contextmanager
def final_failures() -> Iterator[None]:
    """Turn an error into a failure of the step that is not tried again: it would fail in the same way."""
    try:
        yield
    except TraubeError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


def model_asset(
    source: Source, stage: str, upstream: Iterable[str], **about: Any
) -> Callable[[Callable[..., dg.MaterializeResult]], dg.AssetsDefinition]:
    """Decorate what computes a stage of a task for a model, the partition.

    It is at work once for a task and a model, among all processes and machines that share the storage: whoever waited
    finds what the other has stored. Its errors are final failures.
    """

    def decorate(compute: Callable[..., dg.MaterializeResult]) -> dg.AssetsDefinition:
        @wraps(compute)
        def alone(context: dg.AssetExecutionContext, storage: StorageResource, **more: Any) -> dg.MaterializeResult:
            with final_failures(), storage.open().hold(source.name, context.partition_key, "cells"):
                return compute(context, storage=storage, **more)

        return dg.asset(
            key=asset_key(source.name, stage),
            deps=[asset_key(source.name, name) for name in upstream],
            partitions_def=MODELS,
            automation_condition=FILL,
            group_name=source.card.family,
            **about,
        )(alone)

    return decorate


def refuse_failed_checks(
    context: dg.AssetExecutionContext,
    specs: Iterable[dg.AssetCheckSpec],
    check: Callable[[], Iterable[dg.AssetCheckResult]],
) -> None:
    """Stop where a blocking check upstream failed in an earlier run: Dagster sees one run only. Where one was begun
    and not finished (the process was killed, the disk was full), `check` makes all of them now.
    """
    passed, is_unfinished = dict[dg.AssetCheckKey, bool](), False
    blocking = [spec.key for spec in specs if spec.blocking]
    for key in blocking:
        event = _latest_evaluation(context, key)
        if event is not None and event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            passed[key] = event.asset_check_evaluation_data.passed
        elif event is not None:
            is_unfinished = True

    for result in check() if is_unfinished else ():
        assert result.asset_key is not None
        assert result.check_name is not None
        key = dg.AssetCheckKey(result.asset_key, result.check_name)
        passed[key] = result.passed
        evaluation = dg.AssetCheckEvaluation(
            key.asset_key, key.name, result.passed, result.metadata, None, result.severity, result.description
        )
        context.instance.report_runless_asset_event(evaluation)  # found outside of the check's own step

    for key in blocking:
        if not passed.get(key, True):
            raise dg.Failure(
                f"{key.asset_key.to_user_string()}: the blocking check '{key.name}' failed; mend the data, and "
                "`traube run` reads it again",
                allow_retries=False,
            )


def told(
    context: dg.AssetExecutionContext, tell: Callable[[], dict[str, dg.MetadataValue]]
) -> dict[str, dg.MetadataValue]:
    """What telling MLflow gives, or why it could not be told: no result is lost because the tracking server is."""
    try:
        return tell()
    except Exception as error:
        context.log.warning(f"scores are stored, but MLflow could not be told: {error}")
        return {"mlflow": dg.MetadataValue.text(f"not logged: {error}")}


def _latest_evaluation(context: dg.AssetExecutionContext, key: dg.AssetCheckKey) -> dg.DagsterEvent | None:
    """What is known of a check. What another run is about to find out is waited for."""
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while True:
        record = context.instance.get_latest_asset_check_evaluation_record(key)
        event = record.event.dagster_event if record and record.event else None
        if record is None or event is None or event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            return event
        run = context.instance.get_run_by_id(record.run_id)
        if run is None or run.is_finished or time.monotonic() > deadline:
            return event
        time.sleep(0.2)
