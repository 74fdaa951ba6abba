"""Commands that list: the leaderboard, tasks, models, methods, and the provenance of a score."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from traube.cli.given import name_given_model, name_given_task
from traube.cli.options import Json, Metric, ModelName, OnlyModels, OnlyTasks, TaskName
from traube.cli.printing import counted, err, escape, out, print_json, print_outdated, print_table
from traube.core import paths
from traube.core.errors import TraubeError, Unavailable, unknown
from traube.core.inert import csv_text, visible
from traube.core.references import cite

if TYPE_CHECKING:
    from traube.storage import Storage

Format = Literal["table", "markdown", "latex", "csv", "json"]
SHOWN = 30  # models of a table, unless all are asked for

app = typer.Typer()


@app.command()
def leaderboard(
    task: OnlyTasks = None,
    model: OnlyModels = None,
    protocol: Annotated[str | None, typer.Option("--protocol", "-p", help="Only this protocol.")] = None,
    metric: Metric = None,
    every: Annotated[bool, typer.Option("--all", help="Show every method, not only each model's best one.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Also show seconds for 1,000 texts, and memory, as measured here.")
    ] = False,
    form: Annotated[
        Format,
        typer.Option("--format", help="How the tables are written: for a person, a paper, a page or a program."),
    ] = "table",
    over_tasks: Annotated[
        bool,
        typer.Option("--over-tasks", help="One table over all tasks, or those of --task, by the models' mean ranks."),
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="An .svg, .png or .pdf to write, with --over-tasks: the critical-difference diagram."),
    ] = None,
    show_imported: Annotated[
        bool, typer.Option("--imported", help="Also show imported results (`traube import`), in tables of their own.")
    ] = False,
) -> None:
    """Show each model's best method on each task, with a 95 % interval.

    Results of methods and seeds that are not part of a protocol appear in
    tables of their own, marked "own choice".

    traube leaderboard --over-tasks --figure ranks.svg
    """
    from traube.metrics import full_name
    from traube.pipeline.current import current_cells
    from traube.pipeline.lookup import Lookup
    from traube.pipeline.params import load_params
    from traube.pipeline.plan import Request, list_wanted_models
    from traube.pipeline.survey import unavailable
    from traube.reports.costs import costs
    from traube.reports.tables import leaderboard as build
    from traube.storage import open_storage
    from traube.tasks.stored import get_manifest

    if figure and not over_tasks:
        raise TraubeError("--figure draws mean ranks over tasks: add --over-tasks")
    metric = full_name(metric) if metric else None
    storage, params = open_storage(paths.home()), load_params()
    request = Request(params.tasks, list_wanted_models(params), params.protocol, params.chosen())
    lookup, stored = Lookup(), storage.read_cells()
    table = build(storage, unavailable(request, storage, lookup), metric, params.protocols, lookup, stored=stored)
    _check_metric(table, metric)
    for column, wanted in (("task", task), ("model", model), ("protocol", [protocol] if protocol else None)):
        scored = sorted(name for name in table[column].dropna().unique() if name)
        for name in wanted or ():
            if name not in scored:
                raise unknown(f"scored {column}", name, scored)
        table = table[table[column].isin(wanted)] if wanted else table
    _check_metric(table, metric)
    if over_tasks:
        _show_over_tasks(table, protocol, model or (), form, figure)
        return
    if not every:
        table = table[table["best"].astype(bool) | (table["status"] != "done")]
    if cost:
        cells = current_cells(storage, params.protocols, own_choice=True, lookup=lookup, stored=stored)
        measured = costs(storage, params.protocols, cells)
        table = table.merge(measured, how="left", on=["task", "protocol", "model", "method"])
    if form in ("json", "csv"):
        _print_frame(table, form)
        return
    # `traube pairs` reads no task
    of_clustering = table.loc[table["protocol"] != "", "task"].unique()
    unread = {name for name in of_clustering if name and get_manifest(storage, name) is None}
    print_leaderboard(table, every, print_outdated(stored), unread, form)
    if show_imported and form == "table":
        _print_imported(storage, task)


def _show_over_tasks(
    table: Any, protocol: str | None, models: Sequence[str], form: Format, figure: Path | None
) -> None:
    """Rank models over tasks, each task under the requested protocol, or under its default one."""
    from traube.pipeline.params import load_params
    from traube.reports.over_tasks import rank_over_tasks, write_figure
    from traube.reports.tables import places

    params = load_params()
    best = table[table["best"].astype(bool) & (table["status"] == "done") & ~table["own_choice"].astype(bool)]
    chosen = {name: protocol or params.protocol_for([name]) for name in best["task"].unique()}
    found = rank_over_tasks(best[best["protocol"] == best["task"].map(chosen)], models)
    if figure:
        write_figure(found, figure)
    rows = found.table()
    if form in ("json", "csv"):
        _print_frame(rows, form)
        return
    shown = [
        {
            "#": places(row),
            "model": row.model,
            "mean rank": f"{row.mean_rank:.2f}",
            "mean score": f"{100 * row.mean:.2f}",
            "tasks": str(row.tasks),
        }
        for row in rows.itertuples(index=False)
    ]
    _print_rows(shown, f"mean ranks over {counted(len(found.tasks), 'task')}", form, fold={"model": 14})
    if form == "table":
        out.print(f"[dim]{escape(found.note)}[/]")
    if figure:
        err.print(f"written to {escape(str(figure))}")


def _print_frame(table: Any, form: Format) -> None:
    """Print a table for programs."""
    if form == "json":
        print(table.to_json(orient="records", indent=1))  # noqa: T201
    else:
        print(visible(csv_text(table)), end="")  # noqa: T201


def _print_rows(rows: Sequence[Mapping[str, Any]], title: str, form: Format, **of_table: Any) -> None:
    """Print a titled table for people: to a terminal, or as the source of a paper or a page."""
    if form == "table":
        print_table(rows, title=title, **of_table)
    elif form == "markdown":
        from traube.reports.markdown import markdown_rows

        table = markdown_rows(list(rows[0]), [list(row.values()) for row in rows])
        print(visible(f"**{title}**\n\n{table}\n"))  # noqa: T201
    else:
        from tabulate import tabulate

        table = tabulate(rows, headers="keys", tablefmt="latex_booktabs", disable_numparse=True)
        print(visible(f"% {title}\n{table}\n"))  # noqa: T201


def _check_metric(table: Any, metric: str | None) -> None:
    if metric and not (table["status"] == "done").any():
        raise TraubeError(
            f"nothing here is scored by {metric}: silhouette is for tasks without labels, all other metrics for tasks with labels"
        )


def print_leaderboard(
    table: Any, every: bool = False, outdated: int = 0, unread: Collection[str] = (), form: Format = "table"
) -> None:
    """Print a table for each task, level and protocol, and what its signs mean.

    Parameters
    ----------
    table : DataFrame
        The leaderboard.
    every : bool, default=False
        Whether to show all rows.
    outdated : int, default=0
        Number of cells of earlier code.
    unread : collection of str, optional
        Tasks whose present data is not stored: their scores are of earlier data.
    form : {"table", "markdown", "latex", "csv", "json"}, default="table"
        The format; markdown and latex have the tables alone.
    """
    done = table[table["status"] == "done"]
    if not outdated and done.empty:
        out.print("Nothing has been evaluated yet. Start with `traube run`.")
    for (task, level, protocol, own_choice), rows in done.groupby(["task", "level", "protocol", "own_choice"]):
        first, shown = rows.iloc[0], rows if every else rows.head(SHOWN)
        with_k = shown["found_k"].notna().any()
        title = f"{task}, {level}: {first['metric']} x100"
        if protocol:  # pairs have none
            title += f", {counted(int(first['splits']), 'split')}, protocol {protocol}"
        _print_rows(
            [_format_row(row, "method" if every else "best method", with_k) for row in shown.itertuples(index=False)],
            f"{title}, own choice" if own_choice else title,
            form,
            fold={"model": 14},
            optional=["seeds", "sd", "MB", "95 % interval"],
        )
        if form != "table":
            continue
        if len(rows) > len(shown):
            out.print(f"[dim]and {len(rows) - len(shown)} more models: --all shows them, --model one of them[/]")
        if task in unread:
            out.print(f"[yellow]of earlier data:[/] what is there now cannot be used; `traube run -t {task}` says why")
        for note in sorted(set(rows["note"]) - {""}):
            out.print(f"[dim]{escape(note)}[/]")
        out.print()

    if form != "table":
        return
    if done["rank_low"].notna().any():
        out.print("[dim]#: the places that a model may have, given the data; models whose places overlap are tied[/]")
    if "memory" in done:
        out.print(
            "[dim]encode, cluster: seconds for 1,000 texts; MB: the most memory; -: not measured (in the cache)[/]"
        )
    if done["found_k"].notna().any():
        out.print("[dim]groups: found by the method, and how many classes there are; means over splits and seeds[/]")
    if (done["missing"] > 0).any():
        out.print("[dim]*: not all of the protocol is computed for it (`traube run`); the best of what is[/]")
    if done["seen"].any():
        out.print("[dim]\N{DAGGER}: trained on the task's texts, without labels[/]")
    if (done["precision"] == "bf16").any():
        out.print("[dim](bf16): its vectors are computed in that precision, not in fp32[/]")
    _print_absent(table[table["status"] != "done"].astype(object).fillna(""), every)


def _format_row(row: Any, method: str, with_k: bool) -> dict[str, str]:
    """Return a row of the leaderboard by column.

    `method` is the title of that column, `with_k` says whether there are found k.
    """
    import pandas as pd

    from traube.reports.tables import places, shown_interval, shown_name

    line = {
        "#": places(row),
        "model": shown_name(row),
        method: row.method,
        "score": "-" if pd.isna(row.mean) else f"{100 * row.mean:.2f}",
        "sd": "-" if pd.isna(row.sd) else f"{100 * row.sd:.2f}",
        "95 % interval": shown_interval(row),
        "seeds": str(int(row.seeds)),
    }
    if with_k:
        line["groups"] = "-" if pd.isna(row.found_k) else f"{row.found_k:.0f} of {row.true_k:.0f}"
    if hasattr(row, "memory"):
        measured = {"encode, s": row.encoding, "cluster, s": row.clustering, "MB": row.memory}
        line |= {title: "-" if pd.isna(value) else f"{value:.3g}" for title, value in measured.items()}
    return line


def _print_absent(rows: Any, every: bool) -> None:
    """Print what has no score, and why.

    Unsupported pairs take one line, or a line each if `every` row is shown.
    """
    unsupported = rows["status"] == "unsupported"
    pairs = sorted(set(rows.loc[unsupported, "method"]))
    if pairs and not every:
        said = "1 method makes no sense and has" if len(pairs) == 1 else f"{len(pairs)} methods make no sense and have"
        out.print(f"[yellow]unsupported:[/] {said} no score; `traube leaderboard --all` says why")
    for (status, reason), group in rows[~unsupported | every].groupby(["status", "reason"]):
        columns = ["method"] if status == "unsupported" else ["task", "model", "method"]
        what = sorted({" ".join(filter(None, row)) for row in group[columns].itertuples(index=False)})
        names = ", ".join(what[:4]) + (f" and {len(what) - 4} more" if len(what) > 4 else "")
        out.print(f"[yellow]{status}:[/] {escape(names)}: {escape(reason)}")


def _print_imported(storage: "Storage", tasks: list[str] | None) -> None:
    """Print the imported results of tasks requested by Traube's name or MTEB's."""
    from traube.reports.exchange import imported_results
    from traube.reports.imported import rankings
    from traube.reports.tables import places
    from traube.tasks.stored import get_card

    rows = imported_results(storage)
    if tasks:
        cards = [card for name in tasks if (card := get_card(storage, name))]
        rows = rows[rows["task"].isin({*tasks, *(card.mteb for card in cards)})]
    for ranking in rankings(storage, rows):
        shown = [
            {
                "#": places(row),
                "model": row.model,
                "score": f"{100 * row.mean:.2f}",
                "sd": f"{100 * row.sd:.2f}" if row.sd == row.sd else "-",
                "splits": str(len(row.splits) or "-"),
                "source": row.source,
            }
            for row in ranking.rows.itertuples(index=False)
        ]
        print_table(
            shown,
            fold={"model": 24, "source": 24},
            optional=["source", "splits", "sd"],
            title=f"{ranking.task}, imported: V-measure x100",
        )
        out.print(f"[dim]{escape(f'{ranking.found} {ranking.basis}'.strip())}[/]")


@app.command()
def tasks(
    task: Annotated[
        str | None,
        typer.Argument(
            callback=name_given_task, help="Of which it is said where to get its raw data.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the tasks and whether their raw data is on this machine.

    traube tasks tenkgnad_p2p
    """
    from traube.tasks import card_errors, get_source, sources

    if task is not None:
        source = get_source(task)
        shown = ("description", "family", "language", "licence", "source", "citation")
        about = {"task": source.name, **{name: getattr(source.card, name) for name in shown}}
        about["citation"] = cite(source.card.citation)
        _print_one({**about, "status": source.missing() or "ready"}, as_json)
        return

    rows: list[dict[str, Any]] = [
        {
            "task": name,
            "family": s.card.family,
            "language": "-" if s.card.language == "und" else s.card.language,
            "licence": s.card.licence,
            "status": s.missing() or "ready",
        }
        for name, s in sorted(sources().items(), key=lambda entry: entry[1].card.family != "own")
    ]
    rows += [
        {"task": Path(path).stem, "family": "own", "language": "", "licence": "", "status": str(e)}
        for path, e in card_errors().items()
    ]
    if as_json:
        print_json(rows)
        return
    absent = [name for name, source in sources().items() if source.missing()]
    for row in rows:
        row["status"] = "not here" if row["task"] in absent else row["status"]
    print_table(rows, fold={"licence": 14, "status": 31}, optional=["licence", "language", "family"])
    if absent:
        out.print(f"[dim]`traube tasks {absent[0]}` says where to get what is not here[/]")


def _print_one(about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json([about])
        return
    for name, value in about.items():
        if value:
            out.print(f"[bold]{name}[/]: {escape(str(value))}")


@app.command()
def models(
    model: Annotated[
        str | None, typer.Argument(callback=name_given_model, help="Of which all is shown.", show_default=False)
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(help="Only models that are made for this language, like de; repeat for texts in several."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models and whether their weights are on this machine.

    traube models gbert_base

    traube models --language de
    """
    from traube.models import model_cards
    from traube.models.similarity import TrainedSimilarity
    from traube.models.weights import check_folder, locate
    from traube.reports.languages import describe_size

    cards = model_cards()
    if model is not None and model not in cards:
        raise unknown("model", model, cards)
    if language:
        cards = {name: card for name, card in cards.items() if card.languages and card.is_made_for(language)}
    rows = []
    for name, card in cards.items() if model is None else [(model, cards[model])]:
        status = "ready"
        try:
            if card.kind in ("packaged", "transformer", "pairwise"):
                check_folder(locate(card), card)
            if card.kind == "pairwise":
                TrainedSimilarity.at(locate(card))
        except Unavailable:
            status = "to be downloaded"
        except TraubeError as error:
            status = str(error)
        terms = f", {card.features} terms" if card.features else ""
        source = card.package or card.model or f"fitted on each task's texts{terms}"
        source += f", compared by {card.similarity}" if card.similarity else ""
        size = f" ({describe_size(card)})" if status == "to be downloaded" and card.megabytes else ""
        about = {"model": name, "kind": card.kind, "languages": " ".join(card.languages) or "-", "source": source}
        rows.append({**about, "revision": card.revision or "", "status": f"{status}{size}"})
    if model is not None:
        card = cards[model]
        _print_one(rows[0] | {"description": card.description, "citation": cite(card.citation)}, as_json)
    elif as_json:
        print_json(rows)
    else:
        print_table(rows, fold={"source": 30, "status": 16}, optional=["revision", "source", "kind", "languages"])


@app.command()
def methods(
    every: Annotated[
        bool, typer.Option("--all", help="Also list the pairs that make no sense, with the reason.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List reducers and clusterers. A method is a pair, like umap/hdbscan."""
    from traube.components import CLUSTERERS, REDUCERS, grid

    components: list[dict[str, Any]] = [
        {"component": kind, "name": name, "parameters": ", ".join(f"{k}={v}" for k, v in component.params.items())}
        for kind, registry in (("reducer", REDUCERS), ("clusterer", CLUSTERERS))
        for name, component in registry.items()
    ]
    methods = grid(list(REDUCERS), list(CLUSTERERS))
    pairs: dict[str, str] = {m.name: reason for m in methods if (reason := m.unsupported())}
    if as_json:
        unsupported = [{"component": "unsupported", "name": n, "parameters": reason} for n, reason in pairs.items()]
        print_json([*components, *unsupported])
        return
    print_table(components, fold={"parameters": 31})
    if every:
        out.print()
        lines = [{"pair": name, "why it makes no sense": reason} for name, reason in pairs.items()]
        print_table(lines, fold={"why it makes no sense": 31})
    else:
        out.print(f"{len(pairs)} pairs make no sense; `traube methods --all` lists them with the reason")


@app.command()
def papers(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The Markdown file to write. Default: print it.")
    ] = None,
) -> None:
    """Show all tables of the papers: what is printed beside what was measured here, and why where it was not.

    traube papers --output docs/results.md

    With --output the rows are written too, into a folder of that name
    (docs/results/), and numbers that lie there already and that this data
    directory does not have, of a GPU, say, stand on the page as well.
    """
    from traube.papers.results import results_page, write_results
    from traube.storage import open_storage

    storage = open_storage(paths.home())
    if output is None:
        print(visible(results_page(storage)), end="")  # noqa: T201
    else:
        write_results(storage, output)
        out.print(f"Written to {escape(str(output))}")


@app.command()
def explain(
    task: TaskName,
    model: ModelName,
    method: Annotated[str | None, typer.Argument(help="A method, like umap/hdbscan. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Show where scores come from, and what has changed since.

    For each cell: data, weights, parameters, seed, code, libraries and run.
    If no cell counts today, the last ones that did.
    """
    from traube.pipeline.params import load_params
    from traube.reports.explain import explanations
    from traube.storage import open_storage

    rows = explanations(open_storage(paths.home()), load_params().protocols, task, model, method)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        seed = "" if row["seed"] is None else f", seed {row['seed']}"
        out.rule(f"{row['reducer']}/{row['clusterer']}{seed}", align="left")
        changes = "; ".join(row["changed_since"]) or "nothing: today the same cell would be computed"
        shown = Table.grid(padding=(0, 2, 0, 0))
        shown.add_column(no_wrap=True, style="bold")
        shown.add_column(overflow="fold")
        for key, value in {**row, "changed_since": changes}.items():
            shown.add_row(key, escape(_in_words(value)))
        out.print(shown)


def _in_words(value: Any) -> str:
    """Return a value of a cell's record in words."""
    if not isinstance(value, dict):
        return "-" if value in (None, "") else str(value)
    if any(isinstance(part, dict) for part in value.values()):
        return "\n".join(f"{name}: {_in_words(part)}" for name, part in value.items())
    return ", ".join(f"{name}={_in_words(part)}" for name, part in value.items())
