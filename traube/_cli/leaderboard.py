"""`traube leaderboard`: the scores of models on tasks, with ranks."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from traube._cli.options import Details, Metric, OnlyModels, OnlyProtocol, OnlyTasks
from traube._cli.printing import err, escape, out, pluralize, print_outdated, print_table
from traube._core import paths
from traube._core.errors import Invalid, Missing, unknown
from traube._core.escaping import escape_controls, format_csv

if TYPE_CHECKING:
    from traube._storage import Storage

Format = Literal["table", "markdown", "latex", "csv", "json"]
SHOWN = 30  # models of a table, unless all are requested

app = typer.Typer()


Every = Annotated[bool, typer.Option("--all", help="Show every method, not only each model's best one.")]
ShowCost = Annotated[
    bool, typer.Option("--cost", help="Add seconds and dollars for 1,000 texts, and memory, as measured.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="For a person, a page, a paper or a program.")]
OverTasks = Annotated[bool, typer.Option("--over-tasks", help="One table over tasks, by the models' mean ranks.")]
Figure = Annotated[
    Path | None, typer.Option(help="Critical-difference diagram (.svg, .png, .pdf) of --over-tasks to write.")
]
Imported = Annotated[bool, typer.Option("--imported", help="Also show imported results (`traube import`).")]


@app.command()
def leaderboard(
    task: OnlyTasks = None,
    model: OnlyModels = None,
    protocol: OnlyProtocol = None,
    metric: Metric = None,
    every: Every = False,
    cost: ShowCost = False,
    details: Details = False,
    form: FormatOption = "table",
    over_tasks: OverTasks = False,
    figure: Figure = None,
    imported: Imported = False,
) -> None:
    """Show each model's best method on each task, with ranks and 95 % confidence intervals.

    Examples
    --------
    traube leaderboard -t tickets.csv
    traube leaderboard --over-tasks --figure ranks.svg

    Methods and seeds that are not part of a protocol appear in tables of their own, marked "own
    choice".
    """
    from traube._pipeline.current import current_cells
    from traube._pipeline.lookup import Lookup
    from traube._pipeline.params import load_params
    from traube._pipeline.request import Request, list_wanted_models
    from traube._pipeline.survey import unavailable
    from traube._pipeline.validation.findings import refuse_failed
    from traube._reports.costs import costs
    from traube._reports.tables import leaderboard as build
    from traube._storage import open_storage
    from traube.metrics import full_name

    if figure and not over_tasks:
        raise Invalid("--figure draws mean ranks over tasks: add --over-tasks")
    metric = full_name(metric) if metric else None
    storage, params = open_storage(paths.home()), load_params()
    request = Request(params.tasks, list_wanted_models(params), params.protocol, params.chosen())
    lookup, stored = Lookup(), storage.read_cells()
    table = build(storage, unavailable(request, storage, lookup), metric, params.protocols, lookup, stored=stored)
    _check_metric(table, metric)
    for name in {*(task or ())} - {*table["task"]}:
        refuse_failed(storage, name)
    table = _select(table, {"task": task, "model": model, "protocol": [protocol] if protocol else None})
    _check_metric(table, metric)
    if over_tasks:
        _show_over_tasks(table, protocol, model or (), form, figure)
        return
    if not every:
        table = table[table["best"].astype(bool) | (table["status"] != "done")]
    if cost:
        cells = current_cells(storage, params.protocols, own_choice=True, lookup=lookup, stored=stored)
        keys = ["task", "protocol", "model", "method"]
        table = table.merge(costs(storage, params.protocols, cells), how="left", on=keys)
    if form in ("json", "csv"):
        _print_frame(table, form)
        return
    print_leaderboard(table, every, print_outdated(stored), _find_unread(storage, table), form, details)
    if imported and form == "table":
        _print_imported(storage, task)


def _find_unread(storage: "Storage", table: Any) -> set[str]:
    """Return the tasks of clustering whose present data is not stored; `traube pairs` reads none."""
    from traube._pipeline.kinds import select_kind
    from traube._pipeline.kinds.clustering import CLUSTERINGS
    from traube.tasks.stored import get_manifest

    tasks = select_kind(table, CLUSTERINGS)["task"].unique()
    return {name for name in tasks if name and get_manifest(storage, name) is None}


def _select(table: Any, wanted: Mapping[str, list[str] | None]) -> Any:
    """Return the rows of requested tasks, models and protocols; refuse a name that nothing is scored of."""
    for column, requested in wanted.items():
        scored = sorted(name for name in table[column].dropna().unique() if name)
        for name in requested or ():
            if name not in scored:
                raise unknown(f"scored {column}", name, scored)
        table = table[table[column].isin(requested)] if requested else table
    return table


def _show_over_tasks(
    table: Any, protocol: str | None, models: Sequence[str], form: Format, figure: Path | None
) -> None:
    """Rank models over tasks, each task under the requested protocol, or under its default one."""
    from traube._pipeline.params import load_params
    from traube._reports.over_tasks import rank_over_tasks, write_figure
    from traube._reports.tables import show_rank
    from traube.comparison.verdict import format_score

    params = load_params()
    best = table[table["best"].astype(bool) & (table["status"] == "done") & ~table["own_choice"].astype(bool)]
    best = best if models else best[best["compared"].astype(bool)]
    chosen = {name: protocol or params.protocol_for([name]) for name in best["task"].unique()}
    over_tasks = rank_over_tasks(best[best["protocol"] == best["task"].map(chosen)], models)
    if figure:
        write_figure(over_tasks, figure)
    rows = over_tasks.table()
    if form in ("json", "csv"):
        _print_frame(rows, form)
        return
    formatted_rows = [
        {
            "rank": show_rank(row),
            "model": row.model,
            "mean rank": f"{row.mean_rank:.2f}",
            "mean score": format_score(row.mean),
            "tasks": str(row.tasks),
        }
        for row in rows.itertuples(index=False)
    ]
    _print_rows(formatted_rows, f"mean ranks over {pluralize(len(over_tasks.tasks), 'task')}", form, fold={"model": 14})
    if form == "table":
        out.print(f"[dim]{escape(over_tasks.note)}[/]")
    if figure:
        err.print(f"written to {escape(str(figure))}")


def _print_frame(table: Any, form: Format) -> None:
    """Print a table for programs."""
    if form == "json":
        print(table.to_json(orient="records", indent=1))  # noqa: T201
    else:
        print(escape_controls(format_csv(table)), end="")  # noqa: T201


def _print_rows(rows: Sequence[Mapping[str, Any]], title: str, form: Format, **of_table: Any) -> None:
    """Print a titled table for people: to a terminal, or as the source of a paper or a page."""
    if form == "table":
        print_table(rows, title=title, **of_table)
    elif form == "markdown":
        from traube._reports.markdown import markdown_rows

        table = markdown_rows(list(rows[0]), [list(row.values()) for row in rows])
        print(escape_controls(f"**{title}**\n\n{table}\n"))  # noqa: T201
    else:
        from tabulate import tabulate

        table = tabulate(rows, headers="keys", tablefmt="latex_booktabs", disable_numparse=True)
        print(escape_controls(f"% {title}\n{table}\n"))  # noqa: T201


def _check_metric(table: Any, metric: str | None) -> None:
    if metric and not (table["status"] == "done").any():
        raise Missing(
            f"nothing here is scored by {metric}: silhouette is for tasks without labels, all other metrics for tasks with labels"
        )


def print_leaderboard(
    table: Any,
    every: bool = False,
    outdated: int = 0,
    unread: Collection[str] = (),
    form: Format = "table",
    details: bool = False,
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
    details : bool, default=False
        Whether to show standard deviation, seeds and the test against the first model.
    """
    from traube._reports.tables import INTERVAL

    done = table[table["status"] == "done"]
    if not outdated and done.empty:
        out.print("Nothing has been evaluated yet. Start with `traube run`.")
    for (task, level, protocol, own_choice), rows in done.groupby(["task", "level", "protocol", "own_choice"]):
        first, top_rows = rows.iloc[0], rows if every else rows.head(SHOWN)
        with_k, method = top_rows["found_k"].notna().any(), "method" if every else "best method"
        title = f"{task}, {level}: {first['metric']} x100"
        if protocol:  # pairs have none
            title += f", {pluralize(int(first['splits']), 'split')}, protocol {protocol}"
        if "money" in top_rows and not top_rows["money"].gt(0).any():
            top_rows = top_rows.drop(columns="money")
        _print_rows(
            [_format_row(row, method, with_k, details) for row in top_rows.itertuples(index=False)],
            f"{title}, own choice" if own_choice else title,
            form,
            fold={"model": 14},
            optional=["seeds", "sd", "p against the first", "MB", INTERVAL],
        )
        if form != "table":
            continue
        if len(rows) > len(top_rows):
            out.print(f"[dim]and {len(rows) - len(top_rows)} more models: --all shows them, --model one of them[/]")
        if task in unread:
            out.print(f"[yellow]of earlier data:[/] what is there now cannot be used; `traube run -t {task}` says why")
        for note in sorted(set(rows["note"]) - {""}):
            out.print(f"[dim]{escape(note)}[/]")
        out.print()

    if form == "table":
        _print_signs(done)
        absent = table[table["status"] != "done"].astype(object)
        _print_absent(absent.where(absent.notna(), ""), every)


def _print_signs(done: Any) -> None:
    """Print what columns and signs of the tables mean, of those that occur."""
    if done["rank_low"].notna().any():
        out.print("[dim]rank: the ranks that the data allow; models whose ranks overlap are tied[/]")
    if "memory" in done:
        out.print(
            "[dim]encode, cluster: seconds for 1,000 texts; MB: the most memory; -: not measured (in the cache)[/]"
        )
        if done["money"].gt(0).any():
            out.print(
                "[dim]paid: what the endpoint cost for 1,000 texts; -: no endpoint, or its card states no price[/]"
            )
    if done["found_k"].notna().any():
        out.print("[dim]clusters found / labels: means over splits and seeds[/]")
    if (done["missing"] > 0).any():
        out.print("[dim]*: not all of the protocol is computed for it (`traube run`); the best of what is[/]")
    if done["seen"].any():
        out.print("[dim]\N{DAGGER}: trained on the task's texts, without labels[/]")
    if (done["precision"] == "bf16").any():
        out.print("[dim](bf16): its vectors are computed in that precision, not in fp32[/]")


def _format_row(row: Any, method: str, with_k: bool, details: bool) -> dict[str, str]:
    """Return a row of the leaderboard by column.

    `method` is the title of that column, `with_k` says whether there are found k.
    """
    import pandas as pd

    from traube._core.spending import in_dollars
    from traube._reports.tables import show_row
    from traube.comparison.verdict import format_score, format_significance

    line = show_row(row, method)
    if details:
        p = "-" if pd.isna(row.p) else format_significance(row.p, int(row.comparisons))
        line |= {"sd": format_score(row.sd), "seeds": str(int(row.seeds)), "p against the first": p}
    if with_k:
        k = "-" if pd.isna(row.found_k) else f"{row.found_k:.0f} / {row.true_k:.0f}"
        line["clusters found / labels"] = k
    if hasattr(row, "money"):
        line["paid"] = "-" if pd.isna(row.money) else in_dollars(row.money)
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
        methods = (
            "1 method makes no sense and has" if len(pairs) == 1 else f"{len(pairs)} methods make no sense and have"
        )
        out.print(f"[yellow]unsupported:[/] {methods} no score; `traube leaderboard --all` says why")
    for (status, reason), group in rows[~unsupported | every].groupby(["status", "reason"]):
        columns = ["method"] if status == "unsupported" else ["task", "model", "method"]
        what = sorted({" ".join(filter(None, row)) for row in group[columns].itertuples(index=False)})
        names = ", ".join(what[:4]) + (f" and {len(what) - 4} more" if len(what) > 4 else "")
        out.print(f"[yellow]{status}:[/] {escape(names)}: {escape(reason)}")


def _print_imported(storage: "Storage", tasks: list[str] | None) -> None:
    """Print the imported results of tasks requested by Traube's name or MTEB's."""
    from traube._reports.exchange import imported_results
    from traube._reports.imported import rankings
    from traube._reports.tables import show_rank
    from traube.comparison.verdict import format_score
    from traube.tasks.stored import get_card

    rows = imported_results(storage)
    if tasks:
        cards = [card for name in tasks if (card := get_card(storage, name))]
        rows = rows[rows["task"].isin({*tasks, *(card.mteb for card in cards)})]
    for ranking in rankings(storage, rows):
        formatted_rows = [
            {
                "rank": show_rank(row),
                "model": row.model,
                "score": format_score(row.mean),
                "sd": format_score(row.sd),
                "splits": str(len(row.splits) or "-"),
                "source": row.source,
            }
            for row in ranking.rows.itertuples(index=False)
        ]
        print_table(
            formatted_rows,
            fold={"model": 24, "source": 24},
            optional=["source", "splits", "sd"],
            title=f"{ranking.title}, imported: V-measure x100",
        )
        out.print(f"[dim]{escape(f'{ranking.found} {ranking.basis}'.strip())}[/]")
