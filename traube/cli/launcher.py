"""The library's own launcher: it computes what is missing in this process, with nothing running.

A platform brings another one with the same methods (`traube.cli.platform`), whose runs its UI
shows. Both do the same work, by `traube.engine.stages`, and say what failed in the same words.
"""

import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from traube.benchmark.params import load_params
from traube.benchmark.plan import Request, request_of
from traube.benchmark.record import Recorder
from traube.cli.printing import err, escape, failed_check
from traube.engine.executors import Executor, ensure_executor
from traube.engine.pair_cells import pair_cells, score_missing
from traube.engine.progress import Progress
from traube.engine.stages import (
    cluster_missing,
    draw_splits,
    encode,
    encode_pairs,
    failed_cells,
    read_corpus,
    read_pairs,
    score_clustered,
)
from traube.engine.workbench import Workbench
from traube.foundation import paths, settings, stopping
from traube.foundation.errors import TraubeError, reason
from traube.foundation.files import locked
from traube.foundation.identity import about
from traube.foundation.share import of_home
from traube.foundation.system_errors import explain_system_error, explained
from traube.models import Model, Precision, load_model
from traube.papers import Context, papers
from traube.papers.files import write_figure, write_table
from traube.quality import (
    Finding,
    Table,
    Validation,
    data_docs,
    in_own_process,
    keep_findings,
    kept_verdicts,
    refuse_kept,
    validate_corpus,
    validate_pairs,
    validate_splits,
)
from traube.report.publish import publish_index, publish_leaderboard, publish_regressions
from traube.store import Store
from traube.store.pairs import PairStore
from traube.tasks import PairSource, Source, get_pair_source, get_source, pair_sources
from traube.tasks.scored_pairs import PairTask
from traube.tasks.task import Task, TaskCard

TABLES: tuple[Table, ...] = ("corpus", "splits")
PAIR_TABLES: tuple[Table, ...] = ("corpus", "pairs")


def prepare_home() -> None:
    """Make the data directory and the folder of checkpoints."""
    home = paths.home()
    with explained(home):
        home.mkdir(parents=True, exist_ok=True)
    if settings.share():
        of_home()  # which home it is comes from there
    about(home)
    with explained(paths.checkpoints()):
        paths.checkpoints().mkdir(parents=True, exist_ok=True)


class Launcher:
    """Computes in this process.

    Parameters
    ----------
    progress : who is told of the work as it is done
    verbose : print warnings of single cells, and tracebacks
    executor : does the work; by default one that is made and ended here

    Attributes
    ----------
    notes : what checks found that stops nothing, a line each
    refused : the tasks that checks stopped
    lost : ids of runs whose process is gone; always empty, because nobody keeps runs here
    """

    def __init__(self, progress: Progress, verbose: bool = False, executor: Executor | None = None) -> None:
        prepare_home()
        self.progress, self.verbose = progress, verbose
        self._open = ExitStack()
        self.executor = self._open.enter_context(ensure_executor(executor))
        self.workbench = Workbench.at(paths.home(), self.executor)
        self.notes: list[str] = []
        self.refused: set[str] = set()
        self.lost: list[str] = []

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *raised: Any) -> None:
        self._open.__exit__(*raised)

    @property
    def store(self) -> Store:
        """Where results are kept."""
        return self.workbench.store

    def datasets(self, tasks: Sequence[str]) -> list[str]:
        """Read tasks and check their tables. Returns the errors, one line each."""
        errors: list[str] = []
        known = pair_sources()
        for name in tasks:
            stopping.check()
            if name in known:
                self._read_pairs(get_pair_source(name), errors)
            else:
                self._read(get_source(name), errors)
        return errors

    def evaluate(self, model: str, tasks: Sequence[str], request: Request) -> list[str]:
        """Evaluate one model on tasks. Returns the errors, one line each."""
        errors: list[str] = []
        known = pair_sources()
        with self._step(model, errors):
            loaded = load_model(model, precision=request.protocol.precision)
            for task in tasks:
                stopping.check()
                work = self._evaluate_pairs if task in known else self._evaluate
                with self._step(f"{task}/embeddings", errors), locked(self.store.claim(task, model)):
                    work(task, loaded, request, errors)
        return errors

    def publish(self, tasks: Collection[str] | None = None) -> list[str]:
        """Rebuild leaderboard and report, and the papers' tables. Returns the errors, one line each.

        Parameters
        ----------
        tasks : all that has changed: what is made of other tasks alone stays as it is. By default
            everything is rebuilt
        """
        stopping.check()
        errors: list[str] = []
        with self._step("leaderboard", errors):
            params = load_params()
            publish_leaderboard(self.store, request_of(params), params.protocols)
            with self._step("regressions", errors):
                publish_regressions(self.store, params.protocols, params.nightly.timezone)
                with self._step("report", errors):
                    publish_index(self.store, paths.home())
            self._publish_papers(tasks, errors)
        return errors

    def _publish_papers(self, tasks: Collection[str] | None, errors: list[str]) -> None:
        params = load_params()
        context = Context(
            workbench=self.workbench,
            protocols=params.protocols,
            protocol=params.protocol,
            checkpoints=paths.checkpoints(),
            studies=paths.home() / "studies",
            model=_model,
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

    def _read(self, source: Source, errors: list[str]) -> None:
        name, card = source.name, source.card
        with self._step(f"{name}/corpus", errors):
            corpus = read_corpus(source, self.store).texts
            on_corpus = in_own_process(self.executor, validate_corpus, card, corpus, data_docs())
            if self._stops(name, "corpus", on_corpus, errors):
                return
            with self._step(f"{name}/splits", errors):
                splits, manifest = draw_splits(source, self.store)
                on_splits = in_own_process(self.executor, validate_splits, card, splits, corpus, data_docs())
                # only now: a task whose checks were cut short is read again
                self.store.complete(card, manifest)
                found: dict[Table, list[Finding]] = {"corpus": on_corpus.findings, "splits": on_splits.findings}
                keep_findings(self.store.checks(name), manifest.data_version, found)
                self._stops(name, "splits", on_splits, errors)

    def _read_pairs(self, source: PairSource, errors: list[str]) -> None:
        name, store = source.name, PairStore.of(self.store)
        with self._step(f"{name}/corpus", errors):
            task = read_pairs(source, store)
            on_corpus = in_own_process(
                self.executor, validate_corpus, source.card.for_checks(), task.corpus, data_docs()
            )
            if self._stops(name, "corpus", on_corpus, errors):
                return
            with self._step(f"{name}/pairs", errors):
                on_pairs = in_own_process(
                    self.executor, validate_pairs, task.card, task.pairs, task.corpus, data_docs()
                )
                store.complete(name)
                found: dict[Table, list[Finding]] = {"corpus": on_corpus.findings, "pairs": on_pairs.findings}
                keep_findings(store.checks(name), task.data_version, found)
                self._stops(name, "pairs", on_pairs, errors)

    def _evaluate(self, name: str, model: Model, request: Request, errors: list[str]) -> None:
        card, version = get_source(name).card, self.workbench.manifest(name).data_version
        refuse_failed_checks(
            card, self.store.checks(name), version, TABLES, lambda: self._check_again(name, self.workbench.task(name))
        )
        encoded = encode(name, model, self.workbench, self.progress)
        failed = [check for check in encoded.checks if not check.passed]
        self.notes += [failed_check(f"{name}/embeddings", check.name, False) for check in failed if not check.blocking]
        stopped = [failed_check(f"{name}/embeddings", check.name, True) for check in failed if check.blocking]
        errors += stopped
        if stopped:
            return
        with self._step(f"{name}/clusterings", errors):
            recorder = Recorder(self.store)
            cluster_missing(name, model, request, self.workbench, recorder, warn=self._warn, progress=self.progress)
            with self._step(f"{name}/scores", errors):
                scored = score_clustered(name, model, request, self.workbench, progress=self.progress)
                if line := failed_cells(self.store, name, scored.asked):
                    raise TraubeError(line)

    def _evaluate_pairs(self, name: str, model: Model, request: Request, errors: list[str]) -> None:
        store = PairStore.of(self.store)
        read, card = store.read(name), get_pair_source(name).card.for_checks()
        refuse_failed_checks(
            card, store.checks(name), read.data_version, PAIR_TABLES, lambda: self._check_pairs_again(read)
        )
        task, _ = encode_pairs(name, model, self.workbench, self.progress)
        with self._step(f"{name}/pair_scores", errors):
            score_missing(task, model, pair_cells(task, model), self.workbench, progress=self.progress)

    def _check_again(self, name: str, task: Task) -> dict[Table, list[Finding]]:
        card = get_source(name).card
        on_corpus = in_own_process(self.executor, validate_corpus, card, task.corpus, data_docs())
        on_splits = in_own_process(self.executor, validate_splits, card, task.splits, task.corpus, data_docs())
        return {"corpus": on_corpus.findings, "splits": on_splits.findings}

    def _check_pairs_again(self, task: PairTask) -> dict[Table, list[Finding]]:
        on_corpus = in_own_process(self.executor, validate_corpus, task.card.for_checks(), task.corpus, data_docs())
        on_pairs = in_own_process(self.executor, validate_pairs, task.card, task.pairs, task.corpus, data_docs())
        return {"corpus": on_corpus.findings, "pairs": on_pairs.findings}

    def _stops(self, name: str, table: str, validation: Validation, errors: list[str]) -> bool:
        """Say which checks failed; whether one of them stops the task."""
        failed = [finding for finding in validation.findings if not finding.passed]
        lines = [
            (
                f.blocking,
                failed_check(f"{name}/{table}", f.check.name, f.blocking, f.broken, f.offending, validation.page),
            )
            for f in failed
        ]
        errors += [line for blocking, line in lines if blocking]
        self.notes += [line for blocking, line in lines if not blocking]
        if any(blocking for blocking, _ in lines):
            self.refused.add(name)
            return True
        return False

    @contextmanager
    def _step(self, name: str, errors: list[str]) -> Iterator[None]:
        """Note an error of a step in a line, so that the others go on."""
        try:
            yield
        except Exception as error:
            stopping.check()  # a library may have made another error of the end
            if self.verbose and not isinstance(error, TraubeError):
                err.print(escape(traceback.format_exc()))
            line = str(error) if isinstance(error, TraubeError) else explain_system_error(error) or reason(error)
            errors.append(f"{name}: {line}")

    def _warn(self, message: str) -> None:
        if self.verbose:
            err.print(f"[yellow]warning:[/] {escape(message)}")


def _model(name: str, precision: Precision | None) -> Model:
    return load_model(name, precision=precision)


def refuse_failed_checks(
    card: TaskCard,
    kept: Path,
    data_version: str,
    tables: tuple[Table, ...],
    check: Callable[[], dict[Table, list[Finding]]],
) -> None:
    """Stop where a blocking check failed when a task was read, or one failed that blocks since.

    Parameters
    ----------
    kept : where it is kept what the checks found
    check : makes them again, where nothing is kept of this version of the data

    Raises
    ------
    TraubeError
        If a check stops the task.
    """
    if kept_verdicts(kept, data_version, tables) is None:
        keep_findings(kept, data_version, check())
    refuse_kept(card, kept, data_version, tables)
