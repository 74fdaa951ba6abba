"""Runs of the Dagster graph, started from the command line: in this process, on the instance that the UI shows."""

import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext, redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

import dagster as dg

from assets.common import (
    CHECKPOINTS,
    MADE_OF,
    MODELS,
    STUDIES,
    TASK_REPORTS,
    TRAININGS,
    data_keys,
    model_keys,
    tag_run,
    trainer_key,
)
from assets.registry import KEY as REGISTRY
from assets.sources import find_fingerprints, observe_raw, observe_weights
from assets.used import Used, find_used
from definitions import build_defs
from operations import LOCATION
from operations.children import is_served
from resources.databases import DAGSTER_DATABASE, get_dagster_home, make_dagster
from resources.experiment import default_uri
from sensors.lost_runs import end_lost_runs, end_unstarted_runs, tag_process
from traube._cli.launcher import prepare_home
from traube._cli.platform import Launcher
from traube._cli.printing import describe_failed_check
from traube._core import paths, settings, stopping
from traube._core.cards import name_card
from traube._core.progress import Progress
from traube._core.system_errors import explain_errors
from traube._pipeline.executors import Executor, ensure_executor
from traube._pipeline.params import load_params
from traube._pipeline.request import Request, list_wanted_models
from traube.models import card_errors, checkpoints, model_cards, split_cut

FAILED = "the run failed; see the Dagster UI (`make dev`)"
REPOSITORY = "__repository__"
TAGS = {
    ".dagster/repository": f"{REPOSITORY}@{LOCATION}",  # Dagster's UI lists runs by it; its own launchers set it
    "dagster/max_retries": "0",  # by the daemon: who started a command starts it again
}
OURS = re.compile(r"^traube\.[\w.]+: ")


def prepare() -> None:
    """Make the data directory and checkpoints/.

    The command line, `dagster dev` and MLflow then share one history.
    """
    home, project = paths.home(), paths.PROJECT
    prepare_home()
    instance = get_dagster_home()
    make_dagster(instance)
    os.environ["DAGSTER_HOME"] = str(instance)
    os.environ["MLFLOW_TRACKING_URI"] = default_uri()
    # a database that the environment of this process alone names is tried, and leaves no trace
    if home == project / ".traube" and (not settings.database() or settings.is_database_kept()):
        names = ("DAGSTER_HOME", "MLFLOW_TRACKING_URI", DAGSTER_DATABASE)
        values = {settings.HOME: str(home), **{name: os.environ.get(name) for name in names}}
        _write_environment(project / settings.FILE, values)


def _write_environment(file: Path, values: Mapping[str, str | None]) -> None:
    """Write the .env file by which commands of Dagster and MLflow find this data directory.

    A password is never written to a file of Traube's; other lines of the file stay.
    """
    if any("***" in settings.without_password(value or "") for value in values.values()):
        return
    with explain_errors(file):
        settings.write_env(file, values)


def align(instance: dg.DagsterInstance) -> list[str]:
    """Give an instance a partition for each model, and end lost runs; return their ids.

    Partitions of models that are gone are deleted, and the pool of trainings gets its limit.
    """
    assert MODELS.name is not None
    present, wanted = instance.get_dynamic_partitions(MODELS.name), list_wanted_models(load_params())
    instance.add_dynamic_partitions(MODELS.name, list(wanted))
    observe_weights(instance, find_fingerprints({*wanted} - {*present}))
    if not settings.database():  # other nodes have models of their own
        broken = [*(name_card(path) for path in card_errors()), *(folder.name for folder in checkpoints.folders())]
        known = {*wanted, *model_cards(), *broken}
        for name in {name for name in present if known.isdisjoint((name, split_cut(name)[0]))}:
            instance.delete_dynamic_partition(MODELS.name, name)
    pools = instance.event_log_storage
    if TRAININGS not in pools.get_concurrency_keys():  # the queue starts the first runs of a new pool all at once
        pools.initialize_concurrency_limit_to_default(TRAININGS)
    return [*end_lost_runs(instance), *([] if is_served() else end_unstarted_runs(instance))]


def _give_origin(instance: dg.DagsterInstance) -> None:
    """Give this process's runs the location that `traube dev` serves, so that its pages show and repeat them."""
    from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(LOCATION), REPOSITORY)
    create = instance.create_run_for_job

    def create_run_for_job(job_def: dg.JobDefinition, **given: Any) -> dg.DagsterRun:
        return create(job_def, **given, remote_job_origin=RemoteJobOrigin(repository, job_def.name))

    setattr(instance, "create_run_for_job", create_run_for_job)  # noqa: B010 (a type checker refuses the assignment)


class WithoutUnwritten:
    """A stream without the events that Dagster prints because it cannot store them.

    Dagster raises the reason, such as a full disk, too.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, unless it is such an event; return its length."""
        if text.startswith("Exception while writing logger call to event log"):
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class DagsterLauncher(Launcher):
    """A launcher of Dagster's jobs in this process."""

    def __init__(self, progress: Progress, verbose: bool = False, executor: Executor | None = None) -> None:
        prepare()
        self._open = ExitStack()
        workers = self._open.enter_context(ensure_executor(executor))
        # What steps print is seen on the terminal, and not copied to files by two more processes for each step, which
        # Ctrl-C would meet as well. The class goes by the name that Dagster's documentation gives for dagster.yaml.
        no_copies = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
        # with a folder of its own it is not temporary
        self.instance = dg.DagsterInstance.local_temp(os.environ["DAGSTER_HOME"], overrides={"compute_logs": no_copies})
        _give_origin(self.instance)
        self.lost = align(self.instance)
        self._build = partial(build_defs, progress=progress, workers=workers)
        self._loaded: tuple[Used, dg.Definitions] | None = None
        self.run_id: str | None = None  # of the run at work
        self.notes: list[str] = []
        stopping.add_last_words(self._cancel)
        self.level = "DEBUG" if verbose else "CRITICAL"  # of Dagster's log; its own events are of level DEBUG

    def __exit__(self, *raised: Any) -> None:
        self._open.__exit__(*raised)
        self.instance.dispose()

    @property
    def definitions(self) -> dg.Definitions:
        """The graph of what is used now."""
        return self._load()

    def _load(self, tasks: Collection[str] = (), trains: bool = False) -> dg.Definitions:
        """Return the graph with these tasks, which may have no data yet."""
        used = find_used(tasks, trains)
        if self._loaded is None or self._loaded[0].names != used.names:
            self._loaded = used, self._build(used)
        return self._loaded[1]

    def datasets(self, tasks: Sequence[str]) -> list[str]:
        """Read tasks, and return the errors, one line each."""
        observe_raw(self.instance, tasks)
        return self._execute(self._load(tasks), "datasets", data_keys(tasks), tag_run(tasks))

    def evaluate(self, model: str, tasks: Sequence[str], request: Request) -> list[str]:
        """Evaluate one model on tasks, and return the errors, one line each."""
        assert MODELS.name is not None
        self.instance.add_dynamic_partitions(MODELS.name, [model])
        observe_weights(self.instance, find_fingerprints([model]))
        benchmark = {
            "protocol": request.protocol_name,
            "methods": [m.name for m in request.methods or ()],
            "seeds": list(request.seeds or ()),
        }
        config = {"resources": {"benchmark": {"config": benchmark}}}
        methods = request.methods or request.protocol.methods()
        graph = self._load(tasks, any(method.trains for method in methods))
        return self._execute(
            graph, "evaluate", model_keys(tasks, methods), tag_run(tasks, model), config, partition_key=model
        )

    def train(self, trainer: str, task: str, model: str, recipe: dict[str, str], unlabeled: bool) -> list[str]:
        """Train a model on a task, and return the errors, one line each."""
        config = {"model": model, "recipe": recipe, "unlabeled": unlabeled}
        return self._execute_one([task], "train", trainer_key(trainer, CHECKPOINTS), config, partition_key=task)

    def tune(self, trainer: str, task: str, model: str, trials: int, recipe: dict[str, str]) -> list[str]:
        """Search for a trainer's recipe on a task, and return the errors, one line each."""
        config = {"model": model, "trials": trials, "recipe": recipe}
        return self._execute_one([task], "tune", trainer_key(trainer, STUDIES), config, partition_key=task)

    def sweep(self, name: str, tasks: Sequence[str], model: str, seeds: Sequence[int]) -> list[str]:
        """Compute the points of a sweep, and return the errors, one line each."""
        config = {"tasks": list(tasks), "model": model, "seeds": list(seeds)}
        return self._execute_one(tasks, "sweep", dg.AssetKey(["sweeps", name]), config)

    def publish(self, tasks: Collection[str] | None = None) -> list[str]:
        """Rebuild leaderboard, report, registry and the papers' tables, and return the errors, one line each.

        The tasks' pages are not rebuilt: `traube report` makes them when they are requested.
        """
        definitions = self.definitions
        graph = definitions.resolve_asset_graph()
        selected = definitions.resolve_job_def("publish").asset_layer.selected_asset_keys
        keys = [key for key in selected if key.path != [TASK_REPORTS]]
        if tasks is not None:
            made_of = {key: graph.get(key).metadata.get(MADE_OF) for key in keys}
            made_of[REGISTRY] = load_params().tasks
            keys = [key for key, of in made_of.items() if of is None or set(of) & set(tasks)]
        return self._execute(definitions, "publish", keys, {})

    def _execute_one(
        self, tasks: Collection[str], job: str, key: dg.AssetKey, config: dict[str, Any], **options: Any
    ) -> list[str]:
        config = {"ops": {key.to_python_identifier(): {"config": config}}}
        return self._execute(self._load(tasks), job, [key], tag_run(tasks), config, **options)

    def _execute(
        self,
        definitions: dg.Definitions,
        name: str,
        selection: list[dg.AssetKey],
        tags: Mapping[str, str],
        config: dict[str, Any] | None = None,
        **options: Any,
    ) -> list[str]:
        stopping.check()
        self.run_id = str(uuid4())
        stderr_context = nullcontext() if self.level == "DEBUG" else redirect_stderr(WithoutUnwritten(sys.stderr))
        try:
            with stderr_context:
                result = definitions.resolve_job_def(name).execute_in_process(
                    run_config={"loggers": {"console": {"config": {"log_level": self.level}}}, **(config or {})},
                    instance=self.instance,
                    asset_selection=selection,
                    tags={**tag_process(), **TAGS, **tags},
                    raise_on_error=False,
                    run_id=self.run_id,
                    **options,
                )
        except KeyboardInterrupt:  # before its first step, or after its last one
            self._cancel()
            raise

        raised = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
        interrupted = any(error and error.cls_name == "DagsterExecutionInterruptedError" for error in raised)
        if interrupted or (stopping.get_signal() and not result.success):
            self._cancel()
            raise KeyboardInterrupt
        stopping.check()

        errors: list[str] = []
        for check in result.get_asset_check_evaluations():
            if check.passed or check.blocking is None:
                continue
            rows, page = (check.metadata.get(name) for name in ("offending_rows", "data_docs"))
            asset, broken = check.asset_key.to_user_string(), check.description or ""
            number = int(str(rows.value)) if rows else None
            line = describe_failed_check(asset, check.check_name, check.blocking, broken, number, page and page.value)
            (errors if check.blocking else self.notes).append(line)
        noted = "\n".join(self.notes)
        for event in result.get_asset_materialization_events():
            long_texts = event.materialization.metadata.get("long_texts")
            if long_texts and str(long_texts.value) not in noted:  # where all vectors are alike, the check says so
                self.notes.append(f"{event.materialization.asset_key.to_user_string()}: {long_texts.value}")
        return [] if result.success else [*errors, *_list_step_errors(result)] or [FAILED]

    def _cancel(self) -> None:
        """Cancel the run at work: Dagster calls an interrupted run in this process a failure, which would raise an alarm."""
        run = self.instance.get_run_by_id(self.run_id) if self.run_id else None
        if run and run.status not in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED):
            self.instance.report_run_canceled(run, "stopped with Ctrl-C")


def _list_step_errors(result: dg.ExecuteInProcessResult) -> list[str]:
    errors = []
    for event in result.all_events:
        if not event.is_step_failure:
            continue
        raised, deliberate = event.step_failure_data.error, event.step_failure_data.user_failure_data
        if raised and raised.cls_name == "DagsterAssetCheckFailedError":
            continue  # the check reports it
        cause = (raised.cause or raised).message.strip() if raised else "failed"
        # a line for people, without the class of error
        text = deliberate.description if deliberate else OURS.sub("", cause)
        errors.append(f"{str(event.step_key).replace('__', '/')}: {text}")
    return errors
