"""`traube run` computes what is missing of the benchmark; `traube reproduce` computes a stored cell
again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from traube.cli.best import print_answer
from traube.cli.options import Methods, Models, ProtocolName, Seeds, Tasks, Verbose
from traube.cli.printing import (
    about,
    bars,
    counted,
    err,
    escape,
    out,
    print_errors,
    print_notes,
    print_outdated,
    print_unavailable,
)
from traube.foundation.errors import TraubeError

if TYPE_CHECKING:
    from traube.benchmark.plan import Cell, Plan, Request
    from traube.engine.executors import Executor
    from traube.store import Store

    Missing = Mapping[str, Mapping[str, Sequence[Cell]]]  # cells by model and task

app = typer.Typer()
LISTED = 20  # missing cells of which each is listed without -v
ANSWERED = 3  # tasks of which a run says at its end which model is best


class Outcome(NamedTuple):
    """Whether all that was asked for went well, and the tasks that checks of their data stopped."""

    finished: bool
    refused: frozenset[str] = frozenset()


@app.command()
def run(
    task: Tasks = None,
    model: Models = None,
    method: Methods = None,
    seed: Seeds = None,
    protocol: ProtocolName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be computed.")] = False,
    verbose: Verbose = False,
) -> None:
    """Compute the missing cells, then update the leaderboard and the report.

    Stored cells are never computed again, and a stopped run continues where
    it stopped. In a checkout the Dagster UI (`traube dev`) shows every run.
    """
    from traube.benchmark.params import load_params
    from traube.benchmark.plan import Request, plan, wanted_models
    from traube.engine.pair_cells import plan_pairs
    from traube.foundation import paths
    from traube.store import Store
    from traube.store.pairs import PairStore
    from traube.tasks import pair_sources

    params, known = load_params(), pair_sources()
    pairs = [name for name in task or () if name in known]
    tasks = [name for name in task or () if name not in known]
    name = protocol or params.protocol_for(tasks)
    chosen = params.chosen(name)
    request = Request(
        tasks=tasks if task else params.tasks,
        models=model or wanted_models(params),
        protocol_name=name,
        protocol=chosen,
        methods=[chosen.method(m) for m in method] if method else None,
        seeds=seed,
        pair_tasks=pairs if task else params.pair_tasks,
    )
    store = Store(paths.home() / "store")
    if not dry_run:
        fetch(tasks, model or ())
        for pair_task in pairs:
            known[pair_task].fetch()
    before = plan(request, store)
    for pair_task, reason in plan_pairs(request, PairStore.of(store)).unavailable.items():
        if pair_task in pairs:
            raise TraubeError(f"{pair_task} is unavailable: {reason}")
    for name in {*(task or ()), *(model or ())} & set(before.unavailable):
        raise TraubeError(f"{name} is unavailable: {before.unavailable[name]}")
    if dry_run:
        _print_plan(before, store, verbose)
        _print_pairs(request, store)
        return
    outcome = compute(request, store, before, verbose)
    if task:  # one that failed takes no answer from the others
        _print_best(request, store, outcome.refused)
    if not outcome.finished:
        raise typer.Exit(1)


def _print_best(request: "Request", store: "Store", refused: Collection[str]) -> None:
    """Say which model groups the texts of each task best, where that can be said: not of data that checks refused."""
    from traube.comparison.standings import Unlabelled
    from traube.report.best import best_on

    for name in [name for name in request.tasks if name not in refused][:ANSWERED]:
        try:
            print_answer(best_on(store, name, request.protocol_name, request.protocol))
        except Unlabelled as error:
            out.print(f"{error}.", highlight=False, soft_wrap=True)
        except TraubeError:  # nothing of the protocol's own is scored
            continue


def compute(request: "Request", store: "Store", before: "Plan", verbose: bool = False) -> Outcome:
    """Run datasets, evaluate and publish as far as they are needed, and say so.

    Parameters
    ----------
    before : the plan of the request as it is now
    """
    from traube.cli import platform
    from traube.engine.executors import make_executor
    from traube.engine.pair_cells import plan_pairs
    from traube.foundation import paths
    from traube.report.tables import have_made_anew, tables_are_current
    from traube.store.pairs import PairStore

    pairs = plan_pairs(request, PairStore.of(store))
    print_unavailable(before.unavailable | pairs.unavailable)
    if before.unavailable and not before.total and not before.unread and not pairs.unread and store.cells().empty:
        raise TraubeError("nothing can be computed: the lines above say what is missing, and what mends it")
    current = tables_are_current(store)
    unlogged: Callable[[Request], dict[str, list[str]]] = platform.part("unlogged") or (lambda _: {})
    untold = {name: tasks for name, tasks in unlogged(request).items() if name not in before.unavailable}
    if current and not before.unread and not before.count and not untold and not pairs.unread and not pairs.missing:
        out.print(f"Nothing is missing: {counted(before.total, 'cell')} up to date.")
        return Outcome(finished=True)
    # of tables that show all that is stored, only those of the tasks that this run touches are
    # rebuilt
    narrow = current or store.cells().empty
    with make_executor() as executor, bars(hidden=verbose) as (progress, set_total):
        _warm_up(executor, request, before)
        new_launcher = platform.part("launcher") or _own_launcher()  # only now: Dagster takes a second to import
        with new_launcher(progress, verbose, executor) as launcher:
            for lost in launcher.lost:
                err.print(f"run {lost} was lost: its process no longer exists. Its finished cells are kept")
            errors, touched = _evaluate(launcher, executor, request, store, before, set_total)
            for name, tasks in unlogged(request).items() if untold else ():  # what an earlier run left
                out.print(f"Telling MLflow of {name} on {', '.join(tasks)}")
                errors += launcher.evaluate(name, tasks, request)
            executor.close()  # the workers take a second to end, and do so while this process publishes
            unpublished = launcher.publish(touched if narrow else None)
            if unpublished:
                have_made_anew(store)
    print_notes(launcher.notes)
    errors += unpublished
    print_errors(errors)
    if not errors:
        report = paths.home() / "report" / "index.html"
        if not touched:
            out.print(f"Nothing was missing: {counted(before.total, 'cell')} up to date; the tables were made anew.")
        out.print(
            "Done. `traube leaderboard` shows the results, `traube open TASK` a task's page"
            + (f"; the report is {report}" if report.exists() else "")
        )
    return Outcome(not errors, frozenset(launcher.refused))


def _own_launcher() -> Callable[..., Any]:
    from traube.cli.launcher import Launcher

    return Launcher


def _warm_up(executor: "Executor", request: "Request", before: "Plan") -> None:
    """Have other processes import what the checks and the request's reducers need, while this one
    starts Dagster.
    """
    from traube import quality
    from traube.methods import get_reducer

    if before.unread:
        quality.warm_up(executor)
    if before.unread or before.count:
        methods = request.methods or request.protocol.methods()
        executor.warm_up([get_reducer(name) for name in dict.fromkeys(m.reducer for m in methods)])


def _evaluate(
    launcher: Any,
    executor: "Executor",
    request: "Request",
    store: "Store",
    before: "Plan",
    set_total: Callable[[int], None],
) -> tuple[list[str], set[str]]:
    """Read what is unread and evaluate what is missing; the errors, and the tasks that were
    touched.
    """
    from traube.benchmark.expected import slow_cells
    from traube.benchmark.plan import plan
    from traube.engine.executors import engine
    from traube.engine.pair_cells import plan_pairs, unread_pairs
    from traube.models import load_model
    from traube.models.transformer import import_libraries
    from traube.store.pairs import PairStore

    errors, pair_store = [], PairStore.of(store)
    unread = [*before.unread, *unread_pairs(request.pair_tasks, pair_store)[0]]
    if unread:
        out.print(f"Reading {', '.join(unread)}")
        errors = launcher.datasets(unread)
    todo = plan(request, store)
    print_unavailable({name: why for name, why in todo.unavailable.items() if name not in before.unavailable})
    print_outdated(store.cells())
    print_notes(
        slow_cells(store, (cell for found in todo.missing.values() for cells in found.values() for cell in cells))
    )
    set_total(todo.count)
    if todo.count:
        out.print(f"{_how_much(todo)}: {_how_long(todo, store, executor.n_workers)}")
    touched = set(unread)
    first = _shortest(todo.missing, store)
    for position, (name, counts) in enumerate(_in_turn(todo.missing, first)):
        if position == 1 and engine() == "local" and any(load_model(name).weight_bytes for name in todo.missing):
            # the workers are busy with the first model, and this process has imported all else that it needs
            Thread(target=import_libraries, daemon=True).start()
        touched.update(counts)
        out.print(f"Evaluating {name}: {counted(sum(counts.values()), 'cell')} on {', '.join(counts)}")
        errors += launcher.evaluate(name, list(counts), request)
        if first in counts and name == list(todo.missing)[-1]:
            _print_first(store, request, first)
    for name, tasks in plan_pairs(request, pair_store).missing.items():
        touched.update(tasks)
        out.print(f"Evaluating {name} on the pairs of {', '.join(tasks)}")
        errors += launcher.evaluate(name, tasks, request)
    return errors, touched


def _how_much(todo: "Plan") -> str:
    tasks = {task for by_task in todo.missing.values() for task in by_task}
    return f"{counted(todo.count, 'cell')} of {counted(len(todo.missing), 'model')} on {counted(len(tasks), 'task')}"


def _how_long(todo: "Plan", store: "Store", n_workers: int) -> str:
    from traube.benchmark.expected import expected_seconds

    trains = any(
        cell.method.trains for by_task in todo.missing.values() for cells in by_task.values() for cell in cells
    )
    words = about(expected_seconds(store, todo.missing, n_workers))
    return f"{words}, and what trainings take" if trains else words


def _shortest(missing: "Missing", store: "Store") -> str | None:
    """The task with the fewest characters, of several that all models lack: its table can be shown while the others
    are computed.
    """
    common = set.intersection(*(set(by_task) for by_task in missing.values())) if missing else set()
    several = len({task for by_task in missing.values() for task in by_task}) > 1
    return min(common, key=lambda task: store.corpus(task)["text"].str.len().sum()) if common and several else None


def _in_turn(missing: "Missing", first: str | None) -> Iterator[tuple[str, dict[str, int]]]:
    """Models, each with tasks and their numbers of cells: the first task by every model, then all others."""
    counts = {model: {task: len(cells) for task, cells in by_task.items()} for model, by_task in missing.items()}
    if first:
        yield from ((model, {first: by_task.pop(first)}) for model, by_task in counts.items())
    yield from ((model, by_task) for model, by_task in counts.items() if by_task)


def _print_first(store: "Store", request: "Request", task: str) -> None:
    """The table of a task that is done, while others are computed."""
    from traube.cli.show import print_leaderboard
    from traube.report.tables import leaderboard

    table = leaderboard(store, protocols={request.protocol_name: request.protocol}, tasks=[task])
    best = table[table["best"].astype(bool)]
    if not best.empty:
        print_leaderboard(best)


def fetch(tasks: Iterable[str], models: Iterable[str]) -> None:
    """Download the tasks and models that were named on the command line and are not on this
    machine.
    """
    from traube.models import load_model
    from traube.tasks import get_source

    for task in tasks:
        get_source(task).fetch()
    for model in map(load_model, models):
        model.fetch()


def _print_plan(plan: "Plan", store: "Store", verbose: bool) -> None:
    from traube.engine.executors import make_executor

    each = verbose or plan.count <= LISTED
    for name in plan.unread:
        out.print(f"read     {name} (which of its cells are missing is known afterwards)")
    for model, by_task in plan.missing.items():
        for task, cells in by_task.items():
            out.print(f"evaluate {model} on {task}: {counted(len(cells), 'cell')}")
            for cell in cells if each else ():
                seed = "" if cell.seed is None else f" seed {cell.seed}"
                out.print(f"           {cell.method.name}{seed}  [dim]{cell.cell_id}[/]")
    print_unavailable(plan.unavailable)
    more = f", and those of {', '.join(plan.unread)}" if plan.unread else ""
    hint = "" if each else " (-v lists them)"
    out.print(f"{plan.count} of {counted(plan.total, 'cell')} missing{hint}{more}")
    if plan.count:
        with make_executor() as executor:
            out.print(f"to compute: {_how_long(plan, store, executor.n_workers)}")
    print_outdated(store.cells())


def _print_pairs(request: "Request", store: "Store") -> None:
    from traube.engine.pair_cells import plan_pairs
    from traube.store.pairs import PairStore

    pairs = plan_pairs(request, PairStore.of(store))
    for name in pairs.unread:
        out.print(f"read     {name} (pairs)")
    for model, tasks in pairs.missing.items():
        out.print(f"evaluate {model} on the pairs of {', '.join(tasks)}")
    print_unavailable(pairs.unavailable)


@app.command()
def reproduce(
    cell: Annotated[str, typer.Argument(help="The id of a cell, or the start of one; `traube explain` shows ids.")],
) -> None:
    """Compute a stored cell again and compare.

    The exit code is 1 if the result differs.
    """
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.models import EmbeddingCache
    from traube.report.reproduce import reproduce as again
    from traube.store import Store

    with bars() as (progress, _):
        cache = EmbeddingCache(paths.home() / "embeddings")
        reproduction = again(Store(paths.home() / "store"), cache, load_params().protocols, cell, progress)
    for change in reproduction.changed:
        out.print(f"changed since then: {escape(str(change))}")
    clusters = "the clusters are the same" if reproduction.clusters_equal else "the clusters differ"
    scores = f"{len(reproduction.scores)} scores differ by at most {reproduction.difference:.2g}"
    verdict = "[green]equal[/]" if reproduction.equal else "[red]not equal[/]"
    out.print(
        f"{verdict}: cell {reproduction.cell_id}: {clusters}; {scores}; "
        f"vectors by at most {reproduction.vectors:.2g} (1 - cosine)"
    )
    if not reproduction.equal:
        raise typer.Exit(1)
