"""`traube clean`: remove what no result uses any more."""

from typing import Annotated

import typer

from traube.cli.options import Json
from traube.cli.printing import counted, err, escape, out, print_json, print_table

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

    These are embeddings and reductions of models that are gone or have
    changed, files that a crash left half written, and trainings that were
    abandoned over a week ago. Stored cells are kept unless you ask for
    --outdated; those of the nightly runs and of champions always are. What
    was written within the last day, or is locked by a running process, is
    left alone.
    """
    from traube.core import paths
    from traube.pipeline.embed import list_owners
    from traube.pipeline.pairs import list_outdated_cells
    from traube.pipeline.params import load_params
    from traube.storage import open_storage
    from traube.storage.unused import find_unused

    storage, protocols = open_storage(paths.home()), load_params().protocols
    old = list_outdated_cells(storage, protocols) if outdated else ()
    owners = list_owners(storage, [protocol.precision for protocol in protocols.values()])
    found = find_unused(storage, paths.checkpoints(), owners, old)
    if yes:
        found = [unused for unused in found if unused.remove()]
        storage.clean()
    if as_json:
        print_json([{"size": unused.size, "why": unused.reason, "path": unused.name} for unused in found])
        return
    largest = sorted(found, key=lambda unused: -unused.size)[:SHOWN]
    rows = [{"size": _in_words(unused.size), "why": unused.reason, "path": unused.name} for unused in largest]
    print_table(rows, fold={"why": 20, "path": 30})
    if len(found) > SHOWN:
        out.print(f"[dim]and {len(found) - SHOWN} smaller ones; --json lists all[/]")
    number, total = counted(len(found), "entry", "entries"), _in_words(sum(unused.size for unused in found))
    if not found:
        out.print("Nothing that is older than a day is unused.")
    elif yes:
        out.print(f"Removed {number}: {total}")
    else:
        out.print(f"Unused: {number}, {total}. `traube clean --yes` removes them.")


@app.command()
def rebuild() -> None:
    """Make the catalog of results again from the blobs.

    For a catalog that is lost or corrupt. Results that are corrupt themselves
    are named; the next run makes them again.
    """
    from traube.core import paths
    from traube.storage.storage import rebuild

    lines = rebuild(paths.home())
    for line in lines:
        err.print(escape(line))
    out.print("The catalog is made again" + (f"; {counted(len(lines), 'blob')} corrupt." if lines else "."))


def _in_words(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
