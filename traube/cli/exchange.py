"""Results in MTEB's format: `export` writes them, `import` reads them."""

from pathlib import Path
from typing import Annotated

import typer

from traube.cli.printing import escape, out

app = typer.Typer()


@app.command("export")
def export_results(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")] = Path("results"),
    kind: Annotated[str, typer.Option("--format", help="The format; only mteb so far.")] = "mteb",
    method: Annotated[
        str, typer.Option(help="A method: MTEB's files hold one. Default: MTEB's own.")
    ] = "none/minibatch_kmeans",
) -> None:
    """Write scores in MTEB's format.

    The files are OUTPUT/<org>__<model>/<revision>/<Task>.json.
    """
    from traube.core import paths
    from traube.core.errors import unknown
    from traube.pipeline.params import load_params
    from traube.reports.exchange import export_mteb
    from traube.storage import open_storage

    if kind != "mteb":
        raise unknown("format", kind, ["mteb"])
    written = export_mteb(open_storage(paths.home()), load_params().protocols, method, output)
    out.print(f"{len(written)} files written to {escape(str(output))}")


@app.command("import")
def import_results(
    path: Annotated[
        Path,
        typer.Argument(
            help="A result file, a folder of result files, or a .jsonl(.gz) with one result a line.", show_default=False
        ),
    ],
) -> None:
    """Read results in MTEB's format, and say which of their ranks are ties.

    The page of all imported results has each model's places; `traube leaderboard
    --imported` shows them beside your own results.
    """
    from traube.core import paths
    from traube.reports.exchange import import_mteb, imported_results
    from traube.reports.imported import rankings, write_page
    from traube.reports.pages import FOLDER
    from traube.storage import open_storage

    storage = open_storage(paths.home())
    rows = import_mteb(storage, path)
    out.print(f"imported {len(rows)} results of {rows['model'].nunique()} models on {rows['task'].nunique()} tasks")
    ranked = rankings(storage, imported_results(storage))
    shown = [ranking for ranking in ranked if ranking.task in set(rows["task"])]
    for ranking in shown:
        out.print(f"[bold]{escape(ranking.task)}[/]: {escape(ranking.found)}", highlight=False)
    for basis in dict.fromkeys(ranking.basis for ranking in shown if ranking.basis):
        out.print(f"[dim]{escape(basis)}[/]", highlight=False)
    out.print(f"page: {escape(str(write_page(ranked, paths.home() / FOLDER)))}", soft_wrap=True, highlight=False)
