"""`traube run`: compute what is missing of the benchmark."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from traube._cli import platform
from traube._cli.given import GivenTask, find_tasks, make_format
from traube._cli.leaderboard import print_leaderboard
from traube._cli.options import (
    Budget,
    Encoding,
    Methods,
    Models,
    NoHeader,
    ProtocolName,
    Quote,
    Seeds,
    Separator,
    Sheet,
    Tasks,
    Verbose,
)
from traube._cli.printing import (
    describe_duration,
    err,
    escape,
    out,
    pluralize,
    print_notes,
    print_outdated,
    print_unavailable,
    show_progress,
)
from traube._cli.recommend import print_answer, print_language
from traube._core import paths
from traube._core.errors import Invalid, TraubeError, Unavailable
from traube._core.inputs import is_file
from traube._core.progress import Progress

if TYPE_CHECKING:
    from traube._pipeline.executors import Executor
    from traube._pipeline.plan import Plan
    from traube._pipeline.request import Request
    from traube._storage import Storage

app = typer.Typer()
LISTED = 20  # missing cells of which each is listed without -v
ANSWERED = 3  # tasks of which a run says at its end which model is best
FEW_TEXTS = 64 * 2**10  # bytes of files


Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE]...", help="Your own texts, - for stdin, or a task's name.", show_default=False),
]
Text = Annotated[str | None, typer.Option(help="Column of FILE with the texts. Default: the obvious one.")]
Labels = Annotated[
    list[str] | None, typer.Option(help="Column of FILE with labels; repeat for more. Default: the obvious one.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print what would be computed.")]


@app.command()
def run(
    file: Files = None,
    text: Text = None,
    labels: Labels = None,
    separator: Separator = None,
    quote: Quote = None,
    no_header: NoHeader = False,
    encoding: Encoding = None,
    sheet: Sheet = None,
    task: Tasks = None,
    model: Models = None,
    method: Methods = None,
    seed: Seeds = None,
    protocol: ProtocolName = None,
    budget: Budget = None,
    dry_run: DryRun = False,
    verbose: Verbose = False,
) -> None:
    """Compute the missing cells, then update the leaderboard and the report.

    Examples
    --------
    traube run tickets.csv -m minilm -m tfidf
    traube run -t pydocs_s2s --dry-run

    Stored cells are never computed again, and a stopped run continues where it stopped. A file
    gets a card below TRAUBE_HOME, which names its columns; other commands take the file as
    well.
    """
    from traube._pipeline.forgotten import recall
    from traube._pipeline.params import load_params
    from traube._pipeline.request import make_request
    from traube._pipeline.survey import plan
    from traube._reports.tables import mark_outdated
    from traube._storage import open_storage
    from traube.models import is_endpoint
    from traube.tasks import PAIRS, sources

    form = make_format(separator, quote, no_header, encoding, sheet)
    if (text or labels) and not file:
        raise Invalid("--text and --labels name columns of a FILE: name one, as in `traube run tickets.csv`")
    if form.model_dump(exclude_none=True) and not file:
        raise Invalid("--separator and the like say how a FILE is written: name one, as in `traube run tickets.csv`")
    given = [*find_tasks(file or (), text, labels or (), form, reread=True), *map(GivenTask, task or ())]
    task = [one.name for one in given] or None
    params, pairs = load_params(), sources(PAIRS)
    tasks = [name for name in task or () if name not in pairs]
    request = make_request(params, protocol or params.protocol_for(tasks), method or (), seed or ())
    models = model or _choose_models(request.models, given)
    request = replace(request, models=models, tasks=task or request.tasks)
    storage = open_storage(paths.home())
    if not dry_run:
        if recall(storage, model or ()):
            mark_outdated(storage)
        fetch(task or (), model or [name for name in request.models if is_endpoint(name)])
    before = plan(request, storage)
    for name in {*(task or ()), *(model or ())} & set(before.unavailable):
        raise Unavailable(f"{name} is unavailable: {before.unavailable[name]}")
    if dry_run:
        _print_plan(before, storage, verbose)
        return
    finished = compute(request, storage, before, verbose)
    tried = [name for name in request.models if name not in before.unavailable]
    _answer(storage, request, tasks[:ANSWERED], tried)
    if not finished:
        raise typer.Exit(1)


def _choose_models(models: Sequence[str], given: Sequence[GivenTask]) -> Sequence[str]:
    """Return the models of params.yaml; for files alone, the default one is that of their languages."""
    from traube._pipeline.default_model import DEFAULT, choose_model

    chosen = [choose_model(task.languages) for task in given if task.languages is not None]
    if DEFAULT not in models or not chosen or len(chosen) < len(given):
        return models
    for reason in dict.fromkeys(default.reason for default in chosen if default.reason):
        err.print(escape(f"{reason}; -m names others"), highlight=False, soft_wrap=True)
    defaults = [default.name for default in chosen]
    return list(dict.fromkeys(name for model in models for name in (defaults if model == DEFAULT else [model])))


def _answer(storage: "Storage", request: "Request", tasks: list[str], tried: list[str]) -> None:
    """Print the best model of each task, or the models for its language if it has no labels."""
    from traube._reports.recommendation import recommend
    from traube.comparison.standings import Unlabeled

    for name in tasks:
        try:
            print_answer(recommend(storage, name, request.protocol_name, request.protocol))
        except Unlabeled as error:
            print_language(storage, name, tried)
            out.print(f"{error}.", highlight=False, soft_wrap=True)
        except TraubeError:  # its data cannot be used, or nothing of the protocol's own is scored
            continue


def compute(request: "Request", storage: "Storage", before: "Plan", verbose: bool = False) -> bool:
    """Run datasets, evaluate and publish as far as needed by `before`, the present plan.

    Returns whether all went well.
    """
    from traube._pipeline.executors import make_executor
    from traube._reports.tables import mark_outdated, tables_are_current
    from traube.components import get_reducer
    from traube.tasks import own_tasks

    print_unavailable(before.unavailable)
    if before.unavailable and not before.total and not before.unread and storage.read_cells().empty:
        gone = before.unavailable.keys()
        user_tasks = sorted(own_tasks() - gone) if {*request.tasks} <= gone else []
        yours = f"; `traube run -t {user_tasks[0]}` evaluates your own data" if user_tasks else ""
        raise Unavailable(f"nothing can be computed: the lines above say what is missing, and what mends it{yours}")
    current = tables_are_current(storage)
    untracked: Callable[[Request], dict[str, list[str]]] = platform.part("untracked") or (lambda _: {})
    debts = {name: tasks for name, tasks in untracked(request).items() if name not in before.unavailable}
    stopped = _stopped(request.tasks, before, storage)
    if current and not before.unread and not before.count and not debts:
        out.print(f"Nothing is missing: {pluralize(before.total, 'cell')} up to date.")
        print_notes(stopped, "failed", "bold red")
        return not stopped
    # of tables that show all that is stored, only those of the tasks that this run touches are rebuilt
    narrow = current or storage.read_cells().empty
    with make_executor() as executor, show_progress(hidden=verbose) as (progress, set_total):
        if before.unread and (warm_up := platform.part("warm_up")):
            warm_up(executor)  # another process imports what pages of checks need, while this one starts Dagster
        with _find_launcher()(progress, verbose, executor) as launcher:  # only now: Dagster takes a second to import
            if (before.unread or before.count) and not _has_few_texts(request.tasks):
                # the workers import now, beside the reading; earlier, they would slow down the import of Dagster
                methods = request.methods or request.protocol.methods()
                executor.warm_up([get_reducer(name) for name in dict.fromkeys(m.reducer for m in methods)])
            for lost in launcher.lost:
                err.print(f"run {lost} was lost: its process no longer exists. Its finished cells are kept")
            errors, touched = _evaluate(launcher, executor, request, storage, before, progress, set_total)
            for name, tasks in untracked(request).items() if debts else ():  # what an earlier run left
                out.print(f"Reporting {name} on {', '.join(tasks)} to MLflow")
                errors += launcher.evaluate(name, tasks, request)
            executor.close()  # the workers take a second to end, and do so while this process publishes
            unpublished = launcher.publish(touched if narrow else None)
            if unpublished:
                mark_outdated(storage)
    print_notes(launcher.notes)
    errors += [*stopped, *unpublished]
    print_notes(errors, "failed", "bold red")
    if not errors:
        report = paths.home() / "report" / "index.html"
        if not touched:
            out.print(f"Nothing was missing: {pluralize(before.total, 'cell')} up to date; the tables were rebuilt.")
        where = f"; the report is {report}" if report.exists() else ""
        out.print(f"Done. `traube leaderboard` shows the results, `traube report TASK` a task's page{where}")
    return not errors


def _has_few_texts(tasks: Sequence[str]) -> bool:
    """Return whether the tasks' files are so small that no worker processes will be started."""
    from traube.tasks import get_source

    files = [file for name in tasks for file in get_source(name, None).files()]
    return all(is_file(file) for file in files) and sum(file.stat().st_size for file in files) <= FEW_TEXTS


def _find_launcher() -> platform.NewLauncher:
    """Return the platform's launcher, or the library's own."""
    if of_platform := platform.part("launcher"):
        return cast("platform.NewLauncher", of_platform)
    from traube._cli.launcher import LocalLauncher

    return LocalLauncher


def _evaluate(
    launcher: platform.Launcher,
    executor: "Executor",
    request: "Request",
    storage: "Storage",
    before: "Plan",
    progress: Progress,
    set_total: Callable[[int], None],
) -> tuple[list[str], set[str]]:
    """Read tasks that are not ingested and evaluate missing cells; return the errors and the changed tasks."""
    from traube._pipeline.ahead import encode_ahead
    from traube._pipeline.expected import describe_slow_cells
    from traube._pipeline.survey import plan
    from traube._reports.tables import leaderboard
    from traube.tasks.stored import read_ingested

    errors = []
    if before.unread:
        out.print(f"Reading {', '.join(before.unread)}")
        errors = launcher.datasets(before.unread)
    todo = plan(request, storage)
    print_unavailable({name: why for name, why in todo.unavailable.items() if name not in before.unavailable})
    print_outdated(storage.read_cells())
    print_notes(describe_slow_cells(storage, todo.missing_cells))
    set_total(todo.count)

    lacking = [set(by_task) for by_task in todo.missing.values()]  # tasks, by model
    tasks = set().union(*lacking)
    if todo.count:
        of_what = f"{pluralize(len(lacking), 'model')} on {pluralize(len(tasks), 'task')}"
        out.print(f"{pluralize(todo.count, 'cell')} of {of_what}: {_how_long(todo, storage, executor.n_workers)}")
    # the shortest of several tasks that all models lack: its table can be shown while the others are computed
    common, first = set.intersection(*lacking) if lacking else set(), None
    if common and len(tasks) > 1:
        first = min(common, key=lambda task: read_ingested(storage, task, "corpus")["text"].str.len().sum())

    touched, turns = set(before.unread), list(todo.in_turn(first))
    with encode_ahead(storage, _requests_ahead(todo, request, turns)) as wait:
        for position, (name, counts) in enumerate(turns):
            touched.update(counts)
            out.print(f"Evaluating {name}: {pluralize(sum(counts.values()), 'cell')} on {', '.join(counts)}")
            wait(position, progress)
            errors += launcher.evaluate(name, list(counts), request)
            if first in counts and position + 1 in (2, len(lacking)):  # once two can be compared, and once all can
                table = leaderboard(storage, protocols={request.protocol_name: request.protocol}, tasks=[first])
                best = table[table["best"].astype(bool)]
                if not best.empty:
                    if left := len(lacking) - position - 1:
                        out.print(f"\nSo far; {pluralize(left, 'model')} to come:")
                    print_leaderboard(best)
    return errors, touched


def _requests_ahead(todo: "Plan", request: "Request", turns: list[tuple[str, dict[str, int]]]) -> list["Request"]:
    """Return the encoding requests of each turn.

    There are none if there is one turn only, trainings need the processor, or a cluster does the work.
    """
    from traube._pipeline.executors import engine

    if len(turns) < 2 or engine() != "local" or todo.trains:
        return []
    return [replace(request, models=[name], tasks=list(counts)) for name, counts in turns]


def _stopped(tasks: Iterable[str], plan: "Plan", storage: "Storage") -> list[str]:
    """Return the errors of tasks that a check stops, given their cards as they are now.

    Only tasks without cells to compute are checked.
    """
    from traube._pipeline.validation.findings import refuse_stored

    errors, lacking = [], set().union(*plan.missing.values())
    for task in tasks:
        if task not in lacking and task not in plan.unread:
            try:
                refuse_stored(storage, task)
            except TraubeError as error:
                errors.append(str(error))
    return errors


def _how_long(todo: "Plan", storage: "Storage", n_workers: int) -> str:
    from traube._pipeline.expected import estimate_run_seconds

    words = describe_duration(estimate_run_seconds(storage, todo.missing, n_workers))
    return f"{words}, and what trainings take" if todo.trains else words


def fetch(tasks: Iterable[str], models: Iterable[str]) -> None:
    """Download the tasks and models that the command line names and that are not on this machine."""
    from traube.models import load_model
    from traube.models.naming import forget_model, near_hub_ids
    from traube.tasks import get_source

    for task in tasks:
        get_source(task, None).fetch()
    for name in models:
        model = load_model(name)
        try:
            model.fetch()
        except Unavailable as error:
            forget_model(name)
            near = " or ".join(near_hub_ids(model.card.weights or ""))
            raise Unavailable(f"{error}{f'; did you mean {near}?' if near else ''}") from None


def _print_plan(plan: "Plan", storage: "Storage", verbose: bool) -> None:
    from traube._pipeline.executors import make_executor
    from traube._pipeline.expected import describe_sending

    each = verbose or plan.count <= LISTED
    for name in plan.unread:
        out.print(f"read     {name} (which of its cells are missing is known afterwards)")
    for model, by_task in plan.missing.items():
        for task, cells in by_task.items():
            out.print(f"evaluate {model} on {task}: {pluralize(len(cells), 'cell')}")
            for cell in cells if each else ():
                seed = "" if cell.seed is None else f" seed {cell.seed}"
                out.print(f"           {cell.method.name}{seed}  [dim]{cell.cell_id}[/]")
    for line in describe_sending(storage, plan.missing):
        out.print(f"to send: {escape(line)}", highlight=False, soft_wrap=True)
    print_unavailable(plan.unavailable)
    more = f", and those of {', '.join(plan.unread)}" if plan.unread else ""
    hint = "" if each else " (-v lists them)"
    out.print(f"{plan.count} of {pluralize(plan.total, 'cell')} missing{hint}{more}")
    if plan.count:
        with make_executor() as executor:
            out.print(f"to compute: {_how_long(plan, storage, executor.n_workers)}")
    print_outdated(storage.read_cells())
