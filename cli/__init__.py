"""`traube`: run the benchmark and read its results without a UI."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from traube.foundation.errors import TraubeError, unknown
from traube.foundation.files import in_words

if TYPE_CHECKING:
    from cli.launch import Launcher

SHOWN = 30  # models of a table, unless all are asked for

# Heavy imports (dagster, mlflow, scikit-learn, torch) are inside the commands, so that `--help` is quick.

out = Console(soft_wrap=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


class _Group(TyperGroup):
    """Shows an error that the user can mend as one line, with exit code 1; Ctrl-C ends with 130."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TraubeError as error:
            err.print(f"[bold red]error:[/] {_escape(str(error))}")
            sys.exit(1)
        except OSError as error:
            err.print(f"[bold red]error:[/] {_escape(in_words(error))}")
            sys.exit(1)
        except KeyboardInterrupt:
            err.print("stopped; what is finished is kept, the same command goes on from there")
            sys.exit(130)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    help="Which text embedding groups these texts best?\n\nStart with [bold]traube run[/], then [bold]traube leaderboard[/]. "
    "Everything written lies below TRAUBE_HOME (default .traube/), raw data below TRAUBE_RAW (default data/raw/).",
)

Tasks = Annotated[
    list[str] | None, typer.Option("--task", "-t", help="Task; may be given several times. Default: params.yaml.")
]
Models = Annotated[
    list[str] | None, typer.Option("--model", "-m", help="Model; may be given several times. Default: params.yaml.")
]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Reducer/clusterer, like umap/hdbscan. Default: the protocol's.")
]
Seeds = Annotated[
    list[int] | None, typer.Option("--seed", min=0, help="Seed; may be given several times. Default: the protocol's.")
]
ProtocolName = Annotated[
    str | None, typer.Option("--protocol", "-p", help="Protocol of params.yaml. Default: the one chosen there.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


@app.command()
def init() -> None:
    """Make the home folder ready: the Dagster instance, the MLflow store and .env. `make setup` calls it."""
    from cli.launch import prepare
    from resources.tracking import connect, default_uri

    prepare()
    connect(default_uri())


@app.command()
def run(
    task: Tasks = None,
    model: Models = None,
    method: Methods = None,
    seed: Seeds = None,
    protocol: ProtocolName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be computed, and stop.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show Dagster's log.")] = False,
) -> None:
    """Compute what is missing of the benchmark, and publish leaderboard and report.

    What is stored is never computed again; a stopped run goes on where it was. Runs show up in the Dagster UI (`make dev`).
    """
    from traube.benchmark.params import load_params
    from traube.benchmark.plan import Request, plan, wanted_models
    from traube.foundation import paths
    from traube.store import Store

    params = load_params()
    chosen = params.chosen(protocol)
    request = Request(
        tasks=task or params.tasks,
        models=model or wanted_models(params),
        protocol_name=protocol or params.protocol,
        protocol=chosen,
        methods=[chosen.method(m) for m in method] if method else None,
        seeds=seed,
    )
    store = Store(paths.home() / "store")
    if not dry_run:
        _fetch(task or (), model or ())
    before = plan(request, store)
    for name in {*(task or ()), *(model or ())} & set(before.unavailable):
        raise TraubeError(f"{name} is unavailable: {before.unavailable[name]}")
    if dry_run:
        _print_plan(before)
    elif not _compute(request, store, before, verbose):
        raise typer.Exit(1)


def _compute(request: Any, store: Any, before: Any, verbose: bool) -> bool:
    """Run datasets, evaluate and publish as far as they are needed; whether all went well."""
    from cli.launch import Launcher
    from traube.benchmark.plan import plan
    from traube.report.tables import tables_are_current

    if not (before.unread or before.count) and tables_are_current(store):
        _print_unavailable(before)
        out.print(f"Nothing is missing: {before.total} cells are up to date.")
        return True
    errors: list[str] = []
    with _bars() as (progress, set_total), Launcher(progress, verbose) as launcher:
        for lost in launcher.lost:
            err.print(f"the run {lost} was lost (its process is gone); its finished cells are kept")
        if before.unread:
            out.print(f"Reading {', '.join(before.unread)}")
            errors += launcher.datasets(before.unread)
        todo = plan(request, store)
        _print_unavailable(todo)
        _print_outdated()
        set_total(todo.count)
        for name, by_task in todo.missing.items():
            out.print(f"Evaluating {name}: {sum(map(len, by_task.values()))} cells on {', '.join(by_task)}")
            errors += launcher.evaluate(name, list(by_task), request)
        errors += launcher.publish()
    for error in errors:
        err.print(f"[bold red]failed:[/] {_escape(error)}")
    return not errors


def _fetch(tasks: Iterable[str], models: Iterable[str]) -> None:
    """Download the tasks and models that were named on the command line and are not on this machine."""
    from traube.models import load_model
    from traube.tasks import get_source

    for task in tasks:
        get_source(task).fetch()
    for model in map(load_model, models):
        model.fetch()


def _print_unavailable(plan: Any) -> None:
    for name, reason in plan.unavailable.items():
        err.print(f"[yellow]unavailable:[/] {_escape(name)}: {_escape(reason)}")


def _print_plan(plan: Any) -> None:
    for name in plan.unread:
        out.print(f"read     {name} (its cells are known then)")
    for model, by_task in plan.missing.items():
        for task, cells in by_task.items():
            out.print(f"evaluate {model} on {task}: {len(cells)} cells")
            for cell in cells:
                seed = "" if cell.seed is None else f" seed {cell.seed}"
                out.print(f"           {cell.method.name}{seed}  [dim]{cell.cell_id}[/]")
    _print_unavailable(plan)
    more = f", and those of {', '.join(plan.unread)}" if plan.unread else ""
    out.print(f"{plan.count} of {plan.total} cells are missing{more}")
    _print_outdated()


def _print_outdated() -> int:
    """Say that stored cells no longer count because the code or a library that computes them is another now; how many."""
    from traube.benchmark.current import outdated
    from traube.foundation import paths
    from traube.store import Store

    number = outdated(Store(paths.home() / "store").cells())
    if number:
        err.print(
            f"{number} stored cells were computed by other versions of Traube or its libraries. They are kept, and not shown "
            "beside today's; `traube run` computes what it is asked for again (`traube explain` names the versions)."
        )
    return number


@contextmanager
def _bars() -> Iterator[tuple[Any, Any]]:
    """Live progress: all cells, and the stage at work. Yields what the engine reports to, and how to set the number of cells."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    from traube.engine import progress

    class Rate(ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.1f}/s" if speed else "", style="dim")

    columns = (
        TextColumn("{task.description:>11}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=err, transient=True) as bars:
        cells = bars.add_task("cells", total=None)
        stage = bars.add_task("", total=None, visible=False)
        current = {"stage": ""}

        def total(name: str, amount: int) -> None:
            current["stage"] = name
            bars.reset(stage, description=name, total=amount, visible=True)

        def done(name: str, amount: int) -> None:
            if name == "cells":
                bars.advance(cells, amount)
            elif name == current["stage"]:
                bars.advance(stage, amount)

        yield progress.Progress(total, done), lambda n: bars.update(cells, total=n)


@app.command()
def leaderboard(
    task: Annotated[
        list[str] | None, typer.Option("--task", "-t", help="Only this task; may be given several times.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="Only this model; may be given several times.")
    ] = None,
    protocol: Annotated[str | None, typer.Option("--protocol", "-p", help="Only this protocol.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="Another metric than each task's main one, like acc/noise_as_cluster.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every method, not only each model's best.")] = False,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    show_imported: Annotated[
        bool, typer.Option("--imported", help="Show what was imported (`traube import`) as tables of its own.")
    ] = False,
) -> None:
    """Show each model's best method, with its 95 % interval over splits, by task and level.

    Methods and seeds that were asked for beside a protocol's own are shown in tables of their own, marked "own choice".
    """
    from traube.benchmark.params import load_params
    from traube.benchmark.plan import Request, unavailable, wanted_models
    from traube.foundation import paths
    from traube.foundation.errors import unknown
    from traube.metrics import full_name
    from traube.report.tables import leaderboard as build
    from traube.store import Store

    if metric:
        full_name(metric)
    store, params = Store(paths.home() / "store"), load_params()
    request = Request(params.tasks, wanted_models(params), params.protocol, params.chosen())
    table = build(store, unavailable(request, store), metric, params.protocols)
    if metric and not (table["status"] == "done").any():
        raise TraubeError(
            f"there is no score by {metric}: silhouette is of tasks without labels, all others of tasks with labels"
        )
    for column, wanted in (("task", task), ("model", model), ("protocol", [protocol] if protocol else None)):
        scored = sorted({name for name in table[column].dropna() if name})
        for name in wanted or ():
            if name not in scored:
                raise unknown(f"scored {column}", name, scored)
        table = table[table[column].isin(wanted)] if wanted else table
    if not every:
        table = table[table["best"].astype(bool) | (table["status"] != "done")]
    if as_json:
        print(table.to_json(orient="records", indent=1))  # noqa: T201
    elif as_csv:
        print(table.to_csv(index=False), end="")  # noqa: T201
    else:
        _print_leaderboard(table, every)
        if show_imported:
            _print_imported(store, task)


def _print_leaderboard(table: Any, every: bool) -> None:
    import pandas as pd

    from traube.report.tables import places, shown_name

    done = table[table["status"] == "done"]
    if not _print_outdated() and done.empty:
        out.print("Nothing has been evaluated yet: traube run")
    for (task, level, protocol, own_choice), rows in done.groupby(["task", "level", "protocol", "own_choice"]):
        first = rows.iloc[0]
        protocol = f"{protocol}, own choice" if own_choice else protocol
        title = (
            f"{task}, {_escape(level)}: {first['metric']} x100, {int(first['splits'])} split(s), protocol {protocol}"
        )
        shown = Table(
            "#",
            "model",
            "method" if every else "best method",
            "score",
            "sd",
            "95 % interval",
            "seeds",
            title=title,
            title_justify="left",
        )
        for row in rows.head(len(rows) if every else SHOWN).itertuples(index=False):
            interval = f"{100 * row.low:.2f} to {100 * row.high:.2f}" if pd.notna(row.low) else "-"
            shown.add_row(
                places(row),
                shown_name(row),
                row.method,
                f"{100 * row.mean:.2f}",
                f"{100 * row.sd:.2f}" if pd.notna(row.sd) else "-",
                interval,
                str(int(row.seeds)),
            )
        out.print(shown)
        if len(rows) > SHOWN and not every:
            out.print(f"[dim]and {len(rows) - SHOWN} more models: --all shows them, --model one of them[/]")
        for note in sorted(set(rows["note"]) - {""}):
            out.print(f"[dim]interval and places: {_escape(note)}[/]")
    if len(done):
        out.print("[dim]#: the places that the data allow; models whose places overlap are ties[/]")
    if done["seen"].any():
        out.print("[dim]\N{DAGGER}: trained on the task's texts, without labels[/]")
    others = table[table["status"] != "done"].astype(object).fillna("")
    for (status, reason), rows in others.groupby(["status", "reason"]):
        columns = ("method",) if status == "unsupported" else ("task", "model", "method")
        what = sorted({" ".join(filter(None, row)) for row in rows[list(columns)].itertuples(index=False)})
        names = ", ".join(what[:4]) + (f" and {len(what) - 4} more" if len(what) > 4 else "")
        out.print(f"[yellow]{status}[/] {_escape(names)}: {_escape(reason)}")


def _print_imported(store: Any, tasks: list[str] | None) -> None:
    """Published results, of the tasks asked for by our name or MTEB's."""
    from traube.report.exchange import imported_results

    rows = imported_results(store)
    if tasks:
        cards = filter(None, map(store.card, tasks))
        rows = rows[rows["task"].isin({*tasks, *(card.mteb for card in cards)})]
    for task, group in rows.groupby("task"):
        shown = Table(
            "model", "score", "sd", "splits", "source", title=f"{task}, published: V-measure x100", title_justify="left"
        )
        for row in group.sort_values("mean", ascending=False).itertuples(index=False):
            sd = f"{100 * row.sd:.2f}" if row.sd == row.sd else "-"
            shown.add_row(
                _escape(row.model), f"{100 * row.mean:.2f}", sd, str(len(row.splits) or "-"), _escape(row.source)
            )
        out.print(shown)


@app.command()
def cluster(
    file: Annotated[
        Path, typer.Argument(help="Texts: .txt (one a line), .csv, .tsv, .jsonl or .parquet.", show_default=False)
    ],
    column: Annotated[str, typer.Option("--text", help="Column that holds the texts.")] = "text",
    model: Annotated[str, typer.Option("--model", "-m", help="Any model of `traube models`.")] = "minilm",
    method: Annotated[str, typer.Option(help="Reducer/clusterer, see `traube methods`.")] = "none/kmeans",
    k: Annotated[
        int | None, typer.Option("-k", help="Number of clusters. Default: the one with the best silhouette.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 42,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV to write. Default: FILE with .clusters.csv.")
    ] = None,
) -> None:
    """Group your own texts: writes text, cluster and distance, and prints what each cluster is about."""
    import pandas as pd

    from traube.benchmark.params import load_params
    from traube.foundation.files import atomic
    from traube.methods import CLUSTERERS
    from traube.serving.cluster_texts import cluster_texts
    from traube.tasks.readers.table import read_texts

    texts = read_texts(file, column)
    protocol = load_params().chosen()
    if k is not None and not CLUSTERERS[protocol.method(method).clusterer].takes_k:
        raise TraubeError(f"{method} finds the number of clusters by itself: leave out -k, or use none/kmeans")
    with err.status(f"encoding and clustering {len(texts)} texts"):
        result = cluster_texts(texts, model=model, method=protocol.method(method), k=k, seed=seed)
    target = output or file.with_name(file.name + ".clusters.csv")
    with atomic(target) as temporary:
        pd.DataFrame({"text": texts, "cluster": result.labels, "distance": result.distances}).to_csv(
            temporary, index=False
        )
    shown = Table(
        "cluster",
        "texts",
        "key words",
        "typical text",
        title=f"{len(result.words)} clusters by {model}, {method}",
        title_justify="left",
    )
    sizes = pd.Series(result.labels).value_counts()
    for c in sorted(result.words, key=lambda c: -sizes[c]):
        examples = "\n".join(_escape(texts[i][:90].replace("\n", " ")) for i in result.typical[c])
        shown.add_row(str(c), str(sizes[c]), _escape(", ".join(result.words[c])), examples)
    out.print(shown)
    if -1 in sizes:
        out.print(f"{sizes[-1]} texts are noise (cluster -1)")
    if result.k_table is not None:
        out.print(
            "k was chosen by silhouette: "
            + ", ".join(f"{row.k}: {row.silhouette:.3f}" for row in result.k_table.itertuples())
        )
    out.print(f"written to {_escape(str(target))}")


@app.command()
def tasks(as_json: Json = False) -> None:
    """List the tasks, and whether their raw data is there."""
    from traube.tasks import card_errors, sources

    rows: list[dict[str, Any]] = [
        {
            "task": name,
            "family": s.card.family,
            "language": s.card.language,
            "licence": s.card.licence,
            "status": s.missing() or "ready",
        }
        for name, s in sources().items()
    ]
    rows += [
        {"task": Path(path).stem, "family": "own", "language": "", "licence": "", "status": str(e)}
        for path, e in card_errors().items()
    ]
    _print_rows(rows, as_json)


@app.command()
def models(as_json: Json = False) -> None:
    """List the models, and whether their weights are on this machine."""
    from traube.foundation.errors import Unavailable
    from traube.models import model_cards
    from traube.models.weights import check_folder, locate

    rows = []
    for name, card in model_cards().items():
        status = "ready"
        try:
            if card.kind in ("packaged", "transformer"):
                check_folder(locate(card), card)
        except Unavailable:
            status = "to be downloaded"
        except TraubeError as error:
            status = str(error)
        source = card.package or card.model or f"fitted on each task's texts, {card.features} terms"
        rows.append(
            {"model": name, "kind": card.kind, "source": source, "revision": card.revision or "", "status": status}
        )
    _print_rows(rows, as_json)


@app.command()
def methods(as_json: Json = False) -> None:
    """List reducers and clusterers with their parameters, and which pairs make no sense, and why."""
    from traube.methods import CLUSTERERS, REDUCERS, grid

    parts: list[dict[str, Any]] = [
        {"part": kind, "name": name, "parameters": ", ".join(f"{k}={v}" for k, v in part.params.items())}
        for kind, registry in (("reducer", REDUCERS), ("clusterer", CLUSTERERS))
        for name, part in registry.items()
    ]
    pairs = [
        {"part": "unsupported", "name": m.name, "parameters": m.unsupported()}
        for m in grid(list(REDUCERS), list(CLUSTERERS))
        if m.unsupported()
    ]
    _print_rows(parts + pairs, as_json)


def _print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    import json

    if as_json:
        print(json.dumps(rows, indent=1))  # noqa: T201
        return
    shown = Table()
    for i, name in enumerate(rows[0] if rows else ()):
        shown.add_column(name, no_wrap=i == 0, overflow="fold")  # what is cut off cannot be copied
    for row in rows:
        shown.add_row(*(_escape(str(value)) for value in row.values()))
    out.print(shown)


@app.command()
def explain(
    task: str,
    model: str,
    method: Annotated[str | None, typer.Argument(help="Like umap/hdbscan.")] = None,
    as_json: Json = False,
) -> None:
    """Say where the numbers of a task and a model come from, and what has changed since they were computed.

    Data, weights, parameters, seed, code, libraries and run of every cell that counts today; if none does, of the last ones that did.
    """
    import json

    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.report.explain import explanations
    from traube.store import Store

    rows = explanations(Store(paths.home() / "store"), load_params().protocols, task, model, method)
    if as_json:
        print(json.dumps(rows, indent=1, default=str))  # noqa: T201
        return
    for row in rows:
        seed = "" if row["seed"] is None else f", seed {row['seed']}"
        out.rule(f"{row['reducer']}/{row['clusterer']}{seed}", align="left")
        for key, value in row.items():
            text = json.dumps(value) if isinstance(value, dict) else value
            if key == "changed_since":
                text = "; ".join(value) or "nothing: computed again today, it would be the same cell"
            out.print(f"[bold]{key:>28}[/]  {_escape(str(text))}", soft_wrap=True)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="Model, or model:reducer/clusterer.", show_default=False)],
    b: Annotated[str, typer.Argument(help="The same, to compare with.", show_default=False)],
    task: Tasks = None,
    protocol: ProtocolName = None,
    metric: Annotated[str | None, typer.Option(help="Another metric than each task's main one.")] = None,
    own_choice: Annotated[
        bool,
        typer.Option("--own-choice", help="Also take methods and seeds that were asked for beside the protocol's own."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Say whether A is really better than B: paired tests, Holm-corrected over tasks.

    Without a method, each model's best one on the task is taken. The test knows which texts the splits share. On a task with one
    split it needs two seeds or more to know how far a seed matters: in the protocol (`seeds` in params.yaml), or by `traube run --seed`
    for both models, and --own-choice here.
    """
    import json

    from traube.benchmark.current import current_cells
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.report.comparison import candidates, compare, corrected, find, main_metric
    from traube.store import Store

    params = load_params()
    name = protocol or params.protocol
    chosen = params.chosen(name)
    store = Store(paths.home() / "store")
    found, absent = [], []
    for t in task or params.tasks:
        card = store.card(t)
        cells = current_cells(store, {name: chosen}, [t], own_choice=own_choice)
        wanted = metric or main_metric(card, chosen.main_metric) if card else ""
        options = candidates(store, t, name, chosen, wanted, cells) if card else []
        try:
            if card is None or store.manifest(t) is None:
                raise TraubeError("nothing is scored yet")
            if not store.task(card).labelled:
                raise TraubeError("it has no labels, so there is nothing to compare by")
            if not options:
                raise TraubeError("nothing is scored yet")
            sides = find(options, a), find(options, b)
            found.append(compare(store, store.task(card), *sides))
        except TraubeError as error:
            absent.append(f"{t}: {error}")
    if not found:
        raise TraubeError("nothing to compare: " + "; ".join(absent))
    for reason in absent:
        err.print(f"[yellow]left out:[/] {_escape(reason)}")
    found = corrected(found)
    if as_json:
        print(json.dumps([_comparison_row(c, params.promotion.level) for c in found], indent=1))  # noqa: T201
        return
    for comparison in found:
        _print_comparison(comparison, params.promotion.level)
    over = f", Holm-corrected over {len(found)} tasks" if len(found) > 1 else ""
    out.print(f"[dim]scores x100; p two-sided{over}; level {params.promotion.level:g}; protocol {name}[/]")


def _comparison_row(comparison: Any, level: float) -> dict[str, Any]:
    import math
    from dataclasses import asdict

    sides = {
        side: {"model": c.model, "method": c.method, "fingerprint": c.fingerprint, "mean": c.mean, "cells": c.cells}
        for side, c in (("a", comparison.a), ("b", comparison.b))
    }
    test = asdict(comparison.test) if comparison.test else None
    if test:  # JSON knows no infinity
        test = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in test.items()}
    decided = test and not comparison.reason
    verdict = {"verdict": comparison.verdict(level), "p_holm": comparison.corrected if decided else None}
    return {"task": comparison.a.task, "metric": comparison.a.metric, **verdict, "test": test, **sides}


def _print_comparison(comparison: Any, level: float) -> None:
    c, test = comparison, comparison.test
    out.print(f"[bold]{c.a.task}[/], {c.a.metric}: [bold]{_escape(c.verdict(level))}[/]")
    width = max(len(c.a.name), len(c.b.name))
    for side, candidate in (("A", c.a), ("B", c.b)):
        out.print(f"  {side}      {candidate.name:<{width}}  {100 * candidate.mean:6.2f}", highlight=False)
    if test is not None:
        interval = f"95 % interval {100 * test.low:+.2f} to {100 * test.high:+.2f}"
        decided = f", p = {c.corrected:.3g}, effect {test.effect:.2f}" if not c.reason else " by the texts alone"
        out.print(f"  A - B  {100 * test.difference:+.2f}, {interval}{decided}")
        out.print(f"         [dim]{test.name}, n = {test.n}[/]")


@app.command()
def promote(
    task: str,
    version: Annotated[str | None, typer.Argument(help="Version of traube-TASK. Default: the challenger.")] = None,
) -> None:
    """Make a version of a task's registered model the champion, whatever the tests say."""
    from cli.launch import prepare
    from resources.registry import RegistryResource, registered_name

    prepare()
    out.print(f"{registered_name(task)}@champion is version {RegistryResource().promote(task, version)} now")


@app.command()
def rollback(task: str) -> None:
    """Make the champion before the present one champion again."""
    from cli.launch import prepare
    from resources.registry import RegistryResource, registered_name

    prepare()
    out.print(f"{registered_name(task)}@champion is version {RegistryResource().rollback(task)} again")


@app.command()
def retry(checkpoint: str) -> None:
    """Have the checkpoint sensor evaluate a checkpoint once more, after a failure."""
    from traube.models.checkpoints import ask_again

    out.print(f"attempt {ask_again(checkpoint)} of {checkpoint} is asked for; `make dev` has to be running")


@app.command()
def train(
    trainer: Annotated[
        str,
        typer.Argument(
            help="Without labels: wwm (whole-word masking), tsdae (denoising). On gold clusterings: cob, triplet, untrained.",
            show_default=False,
        ),
    ],
    task: Annotated[str, typer.Argument(help="What is trained on.", show_default=False)],
    model: Annotated[str, typer.Option("--model", "-m", help="The model to start from.")] = "minilm",
    recipe: Annotated[
        list[str] | None, typer.Option("--set", help="A value of the recipe, like epochs=3. Default: the paper's.")
    ] = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="Also train on texts that have no labels.")] = False,
) -> None:
    """Train a model on a task; what is left in checkpoints/ is a model like any other.

    wwm and tsdae continue its pre-training on the task's texts. cob and triplet learn from the labels of its train splits, and are
    validated on its validation splits. A training that was stopped goes on from its last saved step, with the same result.
    """
    from traube.foundation import paths
    from traube.tasks import get_source
    from traube.training import TRAINERS

    if trainer not in TRAINERS:
        raise unknown("trainer", trainer, TRAINERS)
    chosen = TRAINERS[trainer].with_changes(_values(recipe))
    _on_task(task, model, lambda launcher, name: launcher.train(trainer, name, model, _values(recipe), unlabelled))
    left = chosen.left(task, model, paths.checkpoints(), unlabelled and bool(get_source(task).unlabelled()))
    out.print(
        f"{left.watched}: {left.scores[0]:.4f} before, {left.scores[-1]:.4f} after the last step, {max(left.scores):.4f} at best"
    )
    out.print(f"{_escape(str(left.last))} and {_escape(left.best.name)}", soft_wrap=True)
    out.print("`traube run` evaluates what lies in checkpoints/; so does the sensor of `traube dev`.")


@app.command()
def tune(
    trainer: Annotated[str, typer.Argument(help="cob.", show_default=False)],
    task: Annotated[str, typer.Argument(help="What is trained on.", show_default=False)],
    model: Annotated[str, typer.Option("--model", "-m", help="The model to start from.")] = "minilm",
    trials: Annotated[
        int, typer.Option(min=1, help="Finished trials that the study shall have, earlier ones counted.")
    ] = 20,
    recipe: Annotated[
        list[str] | None,
        typer.Option("--set", help="A value that is not searched, like epochs=2. Default: the paper's."),
    ] = None,
) -> None:
    """Search for a trainer's best recipe on a task by Optuna; validation splits judge, and poor trials are stopped early.

    The study is kept: it goes on where it was stopped. `traube train` takes what it finds by --set.
    """
    from traube.foundation import paths
    from traube.training import TRAINERS
    from traube.training.study import SEARCHED, known, open_study, study_file

    if trainer not in SEARCHED:
        raise unknown("trainer with a study", trainer, SEARCHED)
    _on_task(task, model, lambda launcher, name: launcher.tune(trainer, name, model, trials, _values(recipe)))
    found = known(open_study(study_file(paths.home() / "studies", trainer, task, model, _values(recipe)), trainer))
    best = {name: value for name, value in found.best.items() if name != "value"}
    options = " ".join(f"--set {name}={value:.4g}" for name, value in best.items())
    out.print(
        f"{found.trials} trials; {TRAINERS[trainer].watched} {found.best.get('value', float('nan')):.4f} with {options}"
    )


def _values(recipe: list[str] | None) -> dict[str, str]:
    return dict(value.partition("=")[::2] for value in recipe or ())


def _on_task(task: str, model: str, work: "Callable[[Launcher, str], list[str]]") -> None:
    """Do some work on a task, which is read first if it was not, and a model."""
    from cli.launch import Launcher
    from traube.benchmark.plan import unread
    from traube.foundation import paths
    from traube.store import Store
    from traube.tasks import get_source

    name = get_source(task).name
    _fetch([name], [model])
    new, unavailable = unread([name], Store(paths.home() / "store"))
    if unavailable:
        raise TraubeError(f"{name} is unavailable: {unavailable[name]}")
    with _bars() as (progress, _), Launcher(progress) as launcher:
        errors = (launcher.datasets(new) if new else []) or work(launcher, name)
    _fail_on(errors)


@app.command()
def reproduce(
    cell: Annotated[str, typer.Argument(help="Id of a cell, or its beginning; `traube explain` shows ids.")],
) -> None:
    """Compute a cell again from scratch, and say whether it is equal. Exit code 1 if it is not."""
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.models import EmbeddingCache
    from traube.report.reproduce import reproduce as again
    from traube.store import Store

    with _bars() as (progress, _):
        cache = EmbeddingCache(paths.home() / "embeddings")
        found = again(Store(paths.home() / "store"), cache, load_params().protocols, cell, progress)
    for change in found.changed:
        out.print(f"changed since: {_escape(change)}")
    clusters = "every cluster is the same" if found.clusters_equal else "clusters differ"
    scores = f"{len(found.scores)} scores differ by at most {found.difference:.2g}"
    verdict = "[green]equal[/]" if found.equal else "[red]not equal[/]"
    out.print(
        f"{verdict}: cell {found.cell_id}: {clusters}; {scores}; vectors by at most {found.vectors:.2g} (1 - cosine)"
    )
    if not found.equal:
        raise typer.Exit(1)


@app.command("export")
def export_results(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("results"),
    kind: Annotated[str, typer.Option("--format", help="Only mteb so far.")] = "mteb",
    method: Annotated[
        str, typer.Option(help="MTEB has one method a task; its own is the default.")
    ] = "none/minibatch_kmeans",
) -> None:
    """Write scores as MTEB's result files: OUTPUT/<org>__<model>/<revision>/<Task>.json."""
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.foundation.errors import unknown
    from traube.report.exchange import export_mteb
    from traube.store import Store

    if kind != "mteb":
        raise unknown("format", kind, ["mteb"])
    written = export_mteb(Store(paths.home() / "store"), load_params().protocols, method, output)
    out.print(f"{len(written)} files written to {_escape(str(output))}")


@app.command("import")
def import_results(
    path: Annotated[
        Path, typer.Argument(help="Result file, folder of them, or .jsonl(.gz) of rows.", show_default=False)
    ],
) -> None:
    """Read MTEB results as published rows, which `traube leaderboard --imported` shows beside the measured ones."""
    from traube.foundation import paths
    from traube.report.exchange import import_mteb
    from traube.store import Store

    rows = import_mteb(Store(paths.home() / "store"), path)
    out.print(f"{len(rows)} published results of {rows['model'].nunique()} models on {rows['task'].nunique()} tasks")


class Stage(StrEnum):
    """Stages of the release pipeline (dvc.yaml), in order."""

    datasets = "datasets"
    validate = "validate"
    benchmark = "benchmark"
    report = "report"


@app.command()
def release(stage: Annotated[Stage, typer.Argument(help="One stage; `dvc repro` runs those that are needed.")]) -> None:
    """One stage of the release pipeline, which writes to release/. `make demo` and `dvc repro` call it."""
    from cli.launch import Launcher
    from traube.benchmark.params import load_params
    from traube.benchmark.plan import Request, plan, unread
    from traube.engine.progress import SILENT
    from traube.foundation import paths
    from traube.foundation.files import write_json
    from traube.report import release as files
    from traube.store import Store

    params, store, folder = load_params(), Store(paths.home() / "store"), paths.release()
    if stage is Stage.datasets:
        new, unavailable = unread(params.tasks, store)
        errors = []
        if new:
            out.print(f"Reading {', '.join(new)}")
            with Launcher(SILENT) as launcher:
                errors = launcher.datasets(new)
        for name, reason in unavailable.items():
            err.print(f"[yellow]unavailable:[/] {_escape(name)}: {_escape(reason)}")
        _fail_on(errors)
        files.write_datasets(store, params.tasks, folder)
    elif stage is Stage.validate:
        from resources.quality import validate

        results = validate(store, params.tasks)
        write_json(folder / "validation.json", results)
        _fail_on([f"{key} failed" for key, r in results.items() if r["blocking"] and not r["passed"]])
    elif stage is Stage.benchmark:
        # the release's own models: what lies in checkpoints/ on this machine is no part of it
        request = Request(params.tasks, params.models, params.protocol, params.chosen())
        if not _compute(request, store, plan(request, store), verbose=False):
            raise typer.Exit(1)
        files.write_scores(store, params, folder)
    else:
        files.write_metrics(store, params, folder)


def _fail_on(errors: list[str]) -> None:
    for error in errors:
        err.print(f"[bold red]failed:[/] {_escape(error)}")
    if errors:
        raise typer.Exit(1)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check this installation, and say how to mend what is wrong. Exit code 1 if something is."""
    from cli.doctor import examine

    findings = examine()
    _print_rows([{"check": f.check, "status": f.status, "finding": f.finding} for f in findings], as_json)
    if any(f.status == "wrong" for f in findings):
        raise typer.Exit(1)


@app.command()
def dev(
    port: Annotated[int, typer.Option(help="Port of the Dagster UI.")] = 3000,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow UI.")] = 5000,
) -> None:
    """Start the Dagster UI with its daemon, and MLflow, on 127.0.0.1. One Ctrl-C stops both."""
    from cli.dev import serve

    serve(port, mlflow_port, out)


if __name__ == "__main__":
    app()
