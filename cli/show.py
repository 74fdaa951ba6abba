"""What is there: the leaderboard, tasks, models, methods, and where a number comes from."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from cli.options import Json
from cli.printing import escape, out, print_outdated, print_rows
from traube.foundation.errors import TraubeError

app = typer.Typer()


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

    Methods and seeds that were asked for beside a protocol's own are shown under "<protocol>, own choice".
    """
    from traube.benchmark.params import load_params
    from traube.benchmark.plan import Request, plan, wanted_models
    from traube.foundation import paths
    from traube.foundation.errors import unknown
    from traube.metrics import full_name
    from traube.report.tables import leaderboard as build
    from traube.store import Store

    if metric:
        full_name(metric)
    store, params = Store(paths.home() / "store"), load_params()
    todo = plan(Request(params.tasks, wanted_models(params), params.protocol, params.chosen()), store)
    table = build(store, todo.unavailable, metric, params.protocols)
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
    if not print_outdated() and done.empty:
        out.print("Nothing has been evaluated yet: traube run")
    for (task, level, protocol), rows in done.groupby(["task", "level", "protocol"]):
        first = rows.iloc[0]
        title = f"{task}, {escape(level)}: {first['metric']} x100, {int(first['splits'])} split(s), protocol {protocol}"
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
        for row in rows.itertuples(index=False):
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
        for note in sorted(set(rows["note"]) - {""}):
            out.print(f"[dim]interval and places: {escape(note)}[/]")
    if len(done):
        out.print("[dim]#: the places that the data allow; models whose places overlap are ties[/]")
    if done["seen"].any():
        out.print("[dim]\N{DAGGER}: trained on the task's texts, without labels[/]")
    others = table[table["status"] != "done"].astype(object).fillna("")
    for (status, reason), rows in others.groupby(["status", "reason"]):
        columns = ("method",) if status == "unsupported" else ("task", "model", "method")
        what = sorted({" ".join(filter(None, row)) for row in rows[list(columns)].itertuples(index=False)})
        names = ", ".join(what[:4]) + (f" and {len(what) - 4} more" if len(what) > 4 else "")
        out.print(f"[yellow]{status}[/] {escape(names)}: {escape(reason)}")


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
                escape(row.model), f"{100 * row.mean:.2f}", sd, str(len(row.splits) or "-"), escape(row.source)
            )
        out.print(shown)


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
    print_rows(rows, as_json)


@app.command()
def models(as_json: Json = False) -> None:
    """List the models, and whether their weights are on this machine."""
    from traube.foundation.errors import Unavailable
    from traube.models import model_cards
    from traube.models.transformer import check_folder, locate

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
    print_rows(rows, as_json)


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
    print_rows(parts + pairs, as_json)


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
            out.print(f"[bold]{key:>28}[/]  {escape(str(text))}", soft_wrap=True)
