"""Results in the form of MTEB, written and read: `export`, `import`."""

from pathlib import Path
from typing import Annotated

import typer

from cli.printing import escape, out

app = typer.Typer()


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
    out.print(f"{len(written)} files written to {escape(str(output))}")


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
