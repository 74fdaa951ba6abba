"""`traube provenance` shows where scores come from; `traube reproduce` computes a stored cell again."""

from typing import Annotated, Any

import typer
from rich.table import Table

from traube._cli.options import Json, ModelName, TaskName
from traube._cli.printing import escape, out, print_json, show_progress
from traube._core import paths

app = typer.Typer()


@app.command()
def provenance(
    task: TaskName,
    model: ModelName,
    method: Annotated[str | None, typer.Argument(help="Method, like umap/hdbscan. Default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Show where scores come from, and what has changed since.

    Examples
    --------
    traube provenance pydocs_s2s minilm
    traube provenance pydocs_s2s minilm umap/hdbscan --json

    For each cell: data, weights, parameters, seed, code, libraries and run. If no cell counts
    today, the last ones that did.
    """
    from traube._pipeline.params import load_params
    from traube._reports.provenance import trace_provenance
    from traube._storage import open_storage

    rows = trace_provenance(open_storage(paths.home()), load_params().protocols, task, model, method)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        seed = "" if row["seed"] is None else f", seed {row['seed']}"
        out.rule(f"{row['reducer']}/{row['clusterer']}{seed}", align="left")
        changes = "; ".join(row["changed_since"]) or "nothing: today the same cell would be computed"
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for key, value in {**row, "changed_since": changes}.items():
            grid.add_row(key, escape(_format_value(value)))
        out.print(grid)


def _format_value(value: Any) -> str:
    """Return a value of a cell's record in words."""
    if not isinstance(value, dict):
        return "-" if value in (None, "") else str(value)
    if any(isinstance(part, dict) for part in value.values()):
        return "\n".join(f"{name}: {_format_value(part)}" for name, part in value.items())
    return ", ".join(f"{name}={_format_value(part)}" for name, part in value.items())


@app.command()
def reproduce(
    cell: Annotated[str, typer.Argument(help="Id of a cell, or its beginning; `traube provenance` shows ids.")],
) -> None:
    """Compute a stored cell again and compare.

    Examples
    --------
    traube reproduce 3f2a91
    traube reproduce 3f2a91 && echo equal

    The exit code is 1 if the result differs.
    """
    from traube._pipeline.params import load_params
    from traube._reports.reproduce import reproduce as again
    from traube._storage import open_storage

    with show_progress() as (progress, _):
        reproduction = again(open_storage(paths.home()), load_params().protocols, cell, progress)
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
