"""`traube clean`: remove what no result uses any more."""

from typing import Annotated

import typer

from traube.cli.options import Json
from traube.cli.printing import counted, out, print_json, print_table

app = typer.Typer()
SHOWN = 20  # entries, unless all are asked for as JSON


@app.command()
def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Remove what is listed. Default: only list it.")] = False,
    outdated: Annotated[
        bool, typer.Option("--outdated", help="Also cells that no longer count, such as those of earlier versions.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List what no result uses any more, and remove it with --yes.

    These are vectors of models that are gone or have changed, reduced vectors
    that no cell needs, files that a crash left half written, and trainings
    that were abandoned over a week ago. Stored cells are kept unless you ask
    for --outdated. What was written within the last hour, or is locked by a
    running process, is left alone.
    """
    from traube.benchmark.params import load_params
    from traube.foundation import paths
    from traube.report.unused import remove, unused

    entries = unused(paths.home(), load_params(), outdated)
    if yes:
        entries = remove(entries)
    rows = [{"size": _in_words(e.size), "why": e.why, "path": str(e.path)} for e in entries]
    if as_json:
        print_json([{"size": e.size, "why": e.why, "path": str(e.path)} for e in entries])
        return
    largest = sorted(range(len(entries)), key=lambda i: -entries[i].size)[:SHOWN]
    print_table([rows[i] for i in largest], fold={"why": 20, "path": 30})
    if len(entries) > SHOWN:
        out.print(f"[dim]and {len(entries) - SHOWN} smaller ones; --json lists all[/]")
    total = _in_words(sum(e.size for e in entries))
    if not entries:
        out.print("Nothing that is older than an hour is unused.")
    elif yes:
        out.print(f"Removed {counted(len(entries), 'file or folder', 'files and folders')}: {total}")
    else:
        out.print(
            f"Unused: {counted(len(entries), 'file or folder', 'files and folders')}, {total}. `traube clean --yes` removes them."
        )


def _in_words(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
