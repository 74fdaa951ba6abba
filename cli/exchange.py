"""Results in MTEB's format: `export` writes them, `import` reads them."""

from pathlib import Path
from typing import Annotated

import typer

from cli.printing import escape, out

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
    """Read results in MTEB's format.

    `traube leaderboard --imported` shows them beside your own.
    """
    from traube.foundation import paths
    from traube.report.exchange import import_mteb
    from traube.store import Store

    rows = import_mteb(Store(paths.home() / "store"), path)
    out.print(f"imported {len(rows)} results of {rows['model'].nunique()} models on {rows['task'].nunique()} tasks")
