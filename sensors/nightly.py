"""The nightly runs: one for each model that lacks cells, then leaderboard, report and recent changes."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from zoneinfo import ZoneInfo

import dagster as dg

from assets.common import MODELS, NIGHT, UNFINISHED, model_keys, tag_run
from assets.sources import observe_weights
from resources.benchmark import BenchmarkResource
from resources.untracked import find_untracked
from sensors import Loaded
from traube._core import paths
from traube._core.errors import TraubeError
from traube._pipeline.params import Nightly, Params, load_params
from traube._pipeline.plan import Plan
from traube._pipeline.request import Request
from traube._pipeline.survey import plan
from traube._storage import open_storage
from traube.models import is_endpoint, load_model
from traube.models.endpoint import limit_unattended


def schedules(loaded: Loaded) -> list[dg.ScheduleDefinition]:
    """Return the schedules `nightly_benchmark` and `nightly_publish`.

    `nightly_benchmark` evaluates missing cells, if there are any. With `nightly_publish` a nightly run ends with
    tables in any case, those of its last run or its own.
    """
    nightly = read_nightly()
    nightly_schedule = partial(
        dg.schedule,
        cron_schedule=nightly.cron,
        execution_timezone=nightly.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING if nightly.enabled else dg.DefaultScheduleStatus.STOPPED,
    )

    @nightly_schedule(
        name="nightly_benchmark",
        job=loaded.jobs["evaluate"],
        description="Asks the plan which cells are missing, and evaluates one model a run.",
    )
    def nightly_benchmark(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        assert MODELS.name is not None
        faults = _look_at_endpoints(load_params())
        request, todo, work, runs = _find_lacking(context.instance)
        unavailable = [f"{name} is unavailable: {reason}" for name, reason in todo.unavailable.items()]
        for note in (*faults, *loaded.split(request.tasks)[1], *unavailable):
            context.log.warning(note)
        if not work:
            return dg.SkipReason(f"nothing is missing: {todo.total} cells are up to date")
        open_work = _drop_busy(work, runs)
        if not open_work:
            return dg.SkipReason(f"runs for the {todo.count} missing cells are at work or waiting already")
        context.instance.add_dynamic_partitions(MODELS.name, list(open_work))
        models = todo.at_hand.models
        observe_weights(context.instance, {name: models[name].fingerprint for name in open_work if name in models})
        night = context.scheduled_execution_time.isoformat()
        return [
            dg.RunRequest(
                run_key=f"{model}@{night}",
                partition_key=model,
                asset_selection=model_keys(there, request.protocol.methods()),
                tags={**tag_run(there, model), **_tag_night(context)},
            )
            for model, tasks in open_work.items()
            if (there := loaded.split(tasks)[0])
        ]

    @nightly_schedule(
        name="nightly_publish",
        job=loaded.jobs["publish"],
        description="Leaderboard, registry, regressions and report where nothing is missing: each run is published itself.",
    )
    def nightly_publish(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        _, _, work, runs = _find_lacking(context.instance)
        tonight = [run for run in runs if _tag_night(context).items() <= run.tags.items()]
        if tonight or _drop_busy(work, runs):
            return dg.SkipReason("the runs of the night are published when they end")
        return dg.RunRequest(
            run_key=f"publish@{context.scheduled_execution_time.isoformat()}", tags=_tag_night(context)
        )

    return [nightly_benchmark, nightly_publish]


def read_nightly() -> Nightly:
    """Return when nightly runs start. A broken params.yaml fails each command and tick, but not the loading of the graph."""
    try:
        return load_params().nightly
    except TraubeError:
        return Nightly()


def _look_at_endpoints(params: Params) -> list[str]:
    """Ask the benchmark's models behind endpoints whether they are the same; return the errors.

    A model that changed silently is another one, and lacks cells.
    """
    errors = []
    for name in filter(is_endpoint, params.models):
        try:
            limit_unattended(model := load_model(name), params.nightly.budget)
            model.fetch()
        except TraubeError as error:
            errors.append(str(error))
    return errors


def _find_lacking(
    instance: dg.DagsterInstance,
) -> tuple[Request, Plan, dict[str, list[str]], Sequence[dg.DagsterRun]]:
    """Return request, plan, incomplete tasks by model, and the evaluations under way.

    Incomplete tasks are those that lack cells or are not tracked.
    """
    request = BenchmarkResource().request()
    todo = plan(request, open_storage(paths.home()))
    work = {model: list(by_task) for model, by_task in todo.missing.items()}
    for model, tasks in find_untracked(request).items():
        if model not in todo.unavailable:
            work[model] = list(dict.fromkeys([*work.get(model, []), *tasks]))
    return request, todo, work, instance.get_runs(dg.RunsFilter(job_name="evaluate", statuses=[*UNFINISHED]))


def _drop_busy(work: Mapping[str, list[str]], runs: Iterable[dg.DagsterRun]) -> dict[str, list[str]]:
    busy = {run.tags.get("dagster/partition") for run in runs}
    return {model: tasks for model, tasks in work.items() if model not in busy}


def _tag_night(context: dg.ScheduleEvaluationContext) -> dict[str, str]:
    zone = ZoneInfo(load_params().nightly.timezone)
    return {NIGHT: context.scheduled_execution_time.astimezone(zone).date().isoformat()}
