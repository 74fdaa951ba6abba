"""The library's own launcher, in this process; a platform brings one with the same methods (`traube._cli.platform`)."""

import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from traube._cli.platform import Launcher
from traube._cli.printing import describe_failed_check, err, escape
from traube._core import paths, stopping
from traube._core.errors import TraubeError, describe_error
from traube._core.progress import Progress
from traube._core.system_errors import explain_error, explain_errors
from traube._pipeline.events import Clustered, Encoded, Failed, Scored
from traube._pipeline.executors import Executor, ensure_executor
from traube._pipeline.params import load_params
from traube._pipeline.request import Request, make_request
from traube._pipeline.run import cluster, encode, score
from traube._pipeline.stages import describe_failures, draw, read_corpus
from traube._pipeline.survey import plan_stored
from traube._pipeline.validation.findings import refuse_stored
from traube._pipeline.validation.validate import Validation, validate_version
from traube._pipeline.workbench import Workbench
from traube._reports.pages import publish_index, publish_leaderboard, publish_regressions
from traube._reports.papers import Context, papers
from traube._reports.papers.spec import write_figure, write_table
from traube._storage import open_storage
from traube.models import Model, load_model
from traube.models.checkpoint_exchange import exchange_with_nodes
from traube.tasks import get_source
from traube.tasks.stored import complete_task
from traube.tasks.task import Stage


def prepare_home() -> None:
    """Make the data directory and the folder of checkpoints, and fetch those of other nodes."""
    home = paths.home()
    with explain_errors(home):
        home.mkdir(parents=True, exist_ok=True)
    open_storage(home)
    with explain_errors(paths.checkpoints()):
        paths.checkpoints().mkdir(parents=True, exist_ok=True)
    exchange_with_nodes()


class LocalLauncher(Launcher):
    """Launcher that computes in this process; `verbose` prints warnings of single cells, and tracebacks."""

    def __init__(self, progress: Progress, verbose: bool = False, executor: Executor | None = None) -> None:
        prepare_home()
        self.progress, self.verbose = progress, verbose
        self._open = ExitStack()
        self.executor = self._open.enter_context(ensure_executor(executor))
        self.workbench = Workbench.at(paths.home(), self.executor)
        self.storage = self.workbench.storage
        self.notes: list[str] = []  # what checks found that stops nothing, a line each
        self.lost: list[str] = []  # ids of runs whose process is gone; empty, since only a platform records runs

    def __exit__(self, *raised: Any) -> None:
        self._open.__exit__(*raised)

    def datasets(self, tasks: Sequence[str]) -> list[str]:
        """Read tasks, check their tables, and return the errors, one line each."""
        # a step lies within the one that it needs: an error skips what follows it there, and the next task goes on
        errors: list[str] = []
        for task in tasks:
            stopping.check()
            source = get_source(task, None)
            name, table = source.name, source.card.type.table
            with self._step(f"{name}/corpus", errors):
                read = read_corpus(source, self.storage)
                validate = partial(validate_version, self.storage, source.card, corpus=read.texts)
                on_corpus = validate("corpus", read.texts, version=read.version)
                if self._note_findings(name, "corpus", on_corpus, errors):
                    continue
                with self._step(f"{name}/{table}", errors):
                    rows, manifest = draw(source, self.storage)
                    validation = validate(table, rows, version=manifest.data_version)
                    complete_task(self.storage, source.card)  # after the checks: else the task is read again
                    self._note_findings(name, table, validation, errors)
        return errors

    def evaluate(self, model: str, tasks: Sequence[str], request: Request) -> list[str]:
        """Evaluate one model on tasks, and return the errors, one line each."""
        errors: list[str] = []
        with self._step(model, errors):
            loaded = load_model(model, precision=request.protocol.precision)
            for task in tasks:
                stopping.check()
                with self._step(f"{task}/embeddings", errors):
                    self._evaluate(task, loaded, request, errors)
        return errors

    def publish(self, tasks: Collection[str] | None = None) -> list[str]:
        """Rebuild leaderboard, report and the papers' tables, of `tasks` if only these changed; return the errors."""
        stopping.check()
        errors: list[str] = []
        with self._step("leaderboard", errors):
            params = load_params()
            publish_leaderboard(self.storage, make_request(params), params.protocols)
            with self._step("regressions", errors):
                publish_regressions(self.storage, params.protocols, params.nightly.timezone)
                with self._step("report", errors):
                    publish_index(self.storage, paths.home())

            context = Context(
                workbench=self.workbench,
                protocols=params.protocols,
                protocol=params.protocol,
                model=lambda name, precision: load_model(name, precision=precision),
                warn=self._warn,
                progress=self.progress,
            )
            for name, paper in papers().items():
                if tasks is not None and paper.tasks and not set(paper.tasks) & set(tasks):
                    continue
                for table in paper.tables:
                    with self._step(f"papers/{name}/{table.name}", errors):
                        write_table(paths.home(), name, table, context)
                for figure in paper.figures:
                    with self._step(f"papers/{name}/{figure.name}", errors):
                        write_figure(paths.home(), name, figure, context)
        return errors

    def _evaluate(self, name: str, model: Model, request: Request, errors: list[str]) -> None:
        request = replace(request, tasks=[name])
        refuse_stored(self.storage, name)
        card = get_source(name, None).card
        before = len(errors)
        for stage in card.type.stages:
            with self._step(f"{name}/{stage}", errors), self.workbench.hold(name, model.name, stage) as workbench:
                # what is at hand is looked up for each stage: the one before it, or another process, has stored more
                plan = plan_stored(request, model, self.storage)
                work = plan.only(stage), workbench, self.progress
                for encoded in encode(*work):
                    self._note_encoded(encoded, errors)
                for clustered in cluster(*work):
                    self._warn_of(clustered)
                for scored in score(*work):
                    self._warn_of(scored)
                line = describe_failures(self.storage, plan.cell_ids) if stage is Stage.SCORES else ""
                errors += [f"{name}/{stage}: {line}"] if line else []
            if len(errors) > before:
                return

    def _note_encoded(self, event: Encoded, errors: list[str]) -> None:
        for check in event.checks:
            if not check.passed:
                asset = f"{event.task}/embeddings"
                line = describe_failed_check(asset, check.name, check.blocking, check.reason)
                (errors if check.blocking else self.notes).append(line)
        if event.long_texts and all(check.passed for check in event.checks):
            self.notes.append(f"{event.task}/embeddings: {event.long_texts}")

    def _warn_of(self, event: Clustered | Scored | Failed) -> None:
        if event.reason:
            self._warn(f"{event.cell.title}: {event.status}: {event.reason}")

    def _note_findings(self, name: str, table: str, validation: Validation, errors: list[str]) -> bool:
        """Note the checks that failed, and return whether one of them stops the task."""
        failed = [finding for finding in validation.findings if not finding.passed]
        for f in failed:
            line = describe_failed_check(f"{name}/{table}", f.check.name, f.blocking, f.broken, f.offending)
            (errors if f.blocking else self.notes).append(line)
        return any(finding.blocking for finding in failed)

    @contextmanager
    def _step(self, name: str, errors: list[str]) -> Iterator[None]:
        """Note an error of a step in a line, so that the others go on."""
        try:
            yield
        except Exception as error:
            stopping.check()  # a library may have turned the interruption into another error
            if self.verbose and not isinstance(error, TraubeError):
                err.print(escape(traceback.format_exc()))
            errors.append(f"{name}: {explain_error(error) or describe_error(error)}")

    def _warn(self, message: str) -> None:
        if self.verbose:
            err.print(f"[yellow]warning:[/] {escape(message)}")
