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
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.foundation.errors import unknown
    from traube.report.exchange import export_mteb
    from traube.store import Store

    if kind != "mteb":
        raise unknown("format", kind, ["mteb"])
    written = export_mteb(Store(paths.home() / "store"), load_params().protocols, method, output)
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
    from traube.foundation import paths
    from traube.report.exchange import import_mteb, imported_results
    from traube.report.imported import rankings, write_page
    from traube.report.pages import FOLDER
    from traube.store import Store

    store = Store(paths.home() / "store")
    rows = import_mteb(store, path)
    out.print(f"imported {len(rows)} results of {rows['model'].nunique()} models on {rows['task'].nunique()} tasks")
    ranked = rankings(store, imported_results(store))
    shown = [ranking for ranking in ranked if ranking.task in set(rows["task"])]
    for ranking in shown:
        out.print(f"[bold]{escape(ranking.task)}[/]: {escape(ranking.found)}", highlight=False)
    for basis in dict.fromkeys(ranking.basis for ranking in shown if ranking.basis):
        out.print(f"[dim]{escape(basis)}[/]", highlight=False)
    out.print(f"page: {escape(str(write_page(ranked, paths.home() / FOLDER)))}", soft_wrap=True, highlight=False)
