"""`traube pairs`: models as measures of similarity."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from traube._cli.options import Json, Models
from traube._cli.printing import escape, format_number, out, print_json, print_table, print_unavailable, show_progress
from traube._core import paths
from traube._core.errors import Unavailable

app = typer.Typer()


@app.command()
def pairs(
    task: Annotated[
        list[str] | None,
        typer.Option("--task", "-t", help="Pair task; repeat for more. Without one, they are listed."),
    ] = None,
    model: Models = None,
    subset: Annotated[str, typer.Option(help="Subset of pairs: test, validation or train.")] = "test",
    comparison: Annotated[
        str | None,
        typer.Option(help="Similarity: cosine, euclidean or dot. Default: the model's own, or cosine."),
    ] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Also by domain, number of turns and so on.")] = False,
    as_json: Json = False,
) -> None:
    """Compare models' similarities with gold scores of pairs of texts.

    Examples
    --------
    traube pairs -t stsb_de -m minilm -m tfidf
    traube pairs -t my_pairs --groups --json

    Pearson's r and Spearman's rho have 95 % confidence intervals by a bootstrap; see
    docs/explanation/statistics.md. Pairs with a history are scored without it and with it
    joined to both texts.
    """
    from traube._pipeline.params import load_params
    from traube.tasks import PAIRS, load_pairs, sources

    if not task:
        for name, source in sources(PAIRS).items():
            reason = source.missing()
            missing = f" [yellow]missing:[/] {escape(reason)}" if reason else ""
            out.print(f"[bold]{name}[/]: {escape(source.card.description)}{missing}")
        return
    named = list(model or load_params().models)
    rows: list[dict[str, Any]] = []
    for name in task:
        rows += _rows(load_pairs(name), named, subset, comparison, groups)
    if as_json:
        print_json(rows)
        return
    histories = any(row["history"] for row in rows)
    print_table([_format_row(row, groups, histories) for row in rows], optional=("comparison", "pairs"))


def _rows(task: Any, models: list[str], subset: str, comparison: Any, groups: bool) -> Iterator[dict[str, Any]]:
    from traube._pipeline.evaluate import score_missing
    from traube._pipeline.executors import make_executor
    from traube._pipeline.kinds.pairs import make_pair_cells
    from traube._pipeline.pair_scores import list_comparisons
    from traube._pipeline.workbench import Given, Workbench
    from traube.models import load_model
    from traube.tasks.scored_pairs import ALL
    from traube.tasks.stored import Manifest

    with make_executor() as executor, show_progress() as (progress, _):
        workbench = replace(Workbench.at(paths.home(), executor), given={task.name: Given(task)})
        manifest = Manifest.of(task)
        for name in models:
            model = load_model(name)
            try:
                model.fetch()
            except Unavailable as error:
                if len(models) == 1:
                    raise
                print_unavailable({name: str(error)})
                continue
            cells = make_pair_cells(manifest, model, [comparison or list_comparisons(model)[0]], subset)
            table = score_missing(cells, model, workbench, progress)
            yield from (table if groups else table[table["group"] == ALL]).to_dict("records")


def _format_row(row: dict[str, Any], groups: bool, histories: bool) -> dict[str, str]:
    cells = {key: str(row[key]) for key in ("task", "model", "comparison")}
    if histories:
        cells["history"] = "joined" if row["history"] else ""
    if groups:
        cells["of"] = f"{row['group']} {row['value']}".strip()
    cells["pairs"] = str(row["pairs"])
    for kind in ("pearson", "spearman"):
        low, high = (format_number(row[f"{kind}_{end}"], 2).replace("0.", ".") for end in ("low", "high"))
        cells[kind] = format_number(row[kind]) + ("" if low == "-" else f" [{low}, {high}]")
    return cells
