"""What all stages share: keys, partitions, and the guard against checks that failed before."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import Any, TypeAlias, TypeGuard, TypeVar

import dagster as dg

from resources.encoder import EncoderResource
from resources.storage import StorageResource
from traube.components import Method
from traube.core.errors import TraubeError, Unsupported
from traube.pipeline.plan import Plan, Request
from traube.pipeline.survey import survey_stored
from traube.tasks import get_source
from traube.tasks.task import Stage

T = TypeVar("T")
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


def claimed(task: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Have a stage of a task and a model be at work once, among all processes and machines that share
    the storage: whoever waited finds what the other has stored.
    """

    def wrap(compute: Callable[..., T]) -> Callable[..., T]:
        @wraps(compute)
        def alone(context: dg.AssetExecutionContext, storage: StorageResource, **more: Any) -> T:
            try:
                with storage.open().hold(task, context.partition_key, "cells"):
                    return compute(context, storage=storage, **more)
            except TraubeError as error:  # what is shared cannot be reached
                raise dg.Failure(str(error), allow_retries=False) from error

        return alone

    return wrap


def refuse_failed_checks(
    context: dg.AssetExecutionContext,
    specs: Iterable[dg.AssetCheckSpec],
    check: Callable[[], Iterable[dg.AssetCheckResult]],
) -> None:
    """Stop where a blocking check upstream failed in an earlier run: Dagster sees one run only. Where
    one was begun and not finished (the process was killed, the disk was full), all are made now.

    Parameters
    ----------
    check : makes these checks
    """
    events = {spec.key: _latest_evaluation(context, spec.key) for spec in specs if spec.blocking}
    passed = {key: event.asset_check_evaluation_data.passed for key, event in events.items() if _is_finished(event)}
    if any(event is not None and not _is_finished(event) for event in events.values()):
        passed |= _make_again(context.instance, check())
    for key in events:
        if not passed.get(key, True):
            raise dg.Failure(
                f"{key.asset_key.to_user_string()}: the blocking check '{key.name}' failed; mend the data, and "
                "`traube run` reads it again",
                allow_retries=False,
            )


def _is_finished(event: dg.DagsterEvent | None) -> TypeGuard[dg.DagsterEvent]:
    return event is not None and event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION


def told(
    context: dg.AssetExecutionContext, tell: Callable[[], dict[str, dg.MetadataValue]]
) -> dict[str, dg.MetadataValue]:
    """What telling MLflow gives, or why it could not be told: a result is never lost, nor a run
    failed, because the tracking server is.
    """
    try:
        return tell()
    except Exception as error:
        context.log.warning(f"scores are stored, but MLflow could not be told: {error}")
        return {"mlflow": dg.MetadataValue.text(f"not logged: {error}")}


def _make_again(instance: dg.DagsterInstance, results: Iterable[dg.AssetCheckResult]) -> dict[dg.AssetCheckKey, bool]:
    """Note what checks found outside of their own step; whether each passed."""
    passed = {}
    for result in results:
        assert result.asset_key is not None
        assert result.check_name is not None
        key = dg.AssetCheckKey(result.asset_key, result.check_name)
        passed[key] = result.passed
        evaluation = dg.AssetCheckEvaluation(
            key.asset_key, key.name, result.passed, result.metadata, None, result.severity, result.description
        )
        instance.report_runless_asset_event(evaluation)
    return passed


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
