"""Commands on the storage: `export` and `import` in MTEB's format, `clean`, `rebuild`, `backup`, `restore` and `copy`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import pick_unit_and_suffix

from traube._cli import platform
from traube._cli.options import Json, OnlyProtocol
from traube._cli.printing import err, escape, out, pluralize, print_json, print_table
from traube._core import paths, settings
from traube._core.errors import Conflict, Invalid, TraubeError

app = typer.Typer()
SHOWN = 20  # entries, unless JSON is requested
_File = Annotated[Path, typer.Argument(help="Archive, such as traube.tar.", show_default=False)]


@app.command("export")
def export_results(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("results"),
    protocol: OnlyProtocol = None,
    method: Annotated[
        str | None, typer.Option(help="Method to export. Default: none/minibatch_kmeans, or the nearest to it.")
    ] = None,
) -> None:
    """Write scores in MTEB's format.

    Examples
    --------
    traube export
    traube export -o results --protocol paper

    The files are OUTPUT/<org>__<model>/<revision>/<Task>.json; those of a second protocol are
    in OUTPUT/<protocol>/.
    """
    from traube._pipeline.params import load_params
    from traube._reports.exchange import export_mteb
    from traube._storage import open_storage

    params = load_params()
    if protocol:
        params.chosen(protocol)  # a misspelled one is named as such
    written = export_mteb(open_storage(paths.home()), params.protocols, output, method, protocol)
    methods = ", ".join(sorted(set(written.values())))
    out.print(f"{pluralize(len(written), 'file')} written to {escape(str(output))}, of {methods}")


@app.command("import")
def import_results(
    path: Annotated[
        Path,
        typer.Argument(help="File, folder of files, or .jsonl(.gz) with a result a line.", show_default=False),
    ],
) -> None:
    """Read results in MTEB's format, and say which of their ranks are tied.

    Examples
    --------
    traube import results/
    traube import results.jsonl.gz && traube report --imported

    What cannot be read is named and left out. Of a task with several subsets, such as languages,
    the score is the mean over them; two revisions of a model are ranked as two models.
    """
    from traube._reports.exchange import import_mteb, imported_results
    from traube._reports.imported import rankings, write_page
    from traube._reports.mteb_results import describe_skipped
    from traube._reports.pages import FOLDER
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    rows, skipped = import_mteb(storage, path)
    for line in describe_skipped(skipped):
        err.print(f"[yellow]skipped:[/] {escape(line)}", highlight=False, soft_wrap=True)
    counted = {name: pluralize(rows[name].nunique(), name) for name in ("model", "task")}
    out.print(f"imported {pluralize(len(rows), 'result')} of {counted['model']} on {counted['task']}")
    ranked = rankings(storage, imported_results(storage))
    imported_rankings = [ranking for ranking in ranked if ranking.task in set(rows["task"])]
    for ranking in imported_rankings:
        out.print(f"[bold]{escape(ranking.title)}[/]: {escape(ranking.found)}", highlight=False)
    for basis in dict.fromkeys(ranking.basis for ranking in imported_rankings if ranking.basis):
        out.print(f"[dim]{escape(basis)}[/]", highlight=False)
    out.print(f"page: {escape(str(write_page(ranked, paths.home() / FOLDER)))}", soft_wrap=True, highlight=False)


@app.command()
def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Remove what is listed. Default: only list it.")] = False,
    outdated: Annotated[
        bool, typer.Option("--outdated", help="Also cells that no longer count, of earlier versions.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List files and cells that no result uses, and remove them with --yes.

    Examples
    --------
    traube clean
    traube clean --outdated --yes

    What was written within the last day, or is locked by a running process, is left alone; see
    docs/how-to/backup.md.
    """
    from traube._pipeline.cleaning import find_removable
    from traube._pipeline.forgotten import drop_spent, list_spent
    from traube._storage import open_storage

    storage = open_storage(paths.home())
    entries = find_removable(storage, outdated)
    waiting = deleted = 0
    if yes:
        entries = [unused for unused in entries if unused.remove()]
        waiting, deleted = storage.clean()
        if remove_runs := platform.part("clean"):  # of MLflow
            remove_runs(list_spent(storage))
        drop_spent(storage)
    if as_json:
        print_json([{"size": unused.size, "why": unused.reason, "path": unused.name} for unused in entries])
        return
    largest = sorted(entries, key=lambda unused: -unused.size)[:SHOWN]
    rows = [{"size": _format_size(unused.size), "why": unused.reason, "path": unused.name} for unused in largest]
    print_table(rows, fold={"why": 20, "path": 30})
    if len(entries) > SHOWN:
        out.print(f"[dim]and {len(entries) - SHOWN} smaller ones; --json lists all[/]")
    listed = f"{pluralize(len(entries), 'entry', 'entries')}, {_format_size(sum(unused.size for unused in entries))}"
    if entries:
        out.print(f"Removed: {listed}." if yes else f"Unused: {listed}. `traube clean --yes` removes them.")
    elif not waiting and not deleted:
        out.print("Nothing that is older than a day is unused.")
    if deleted:
        out.print(f"Deleted {pluralize(deleted, 'blob')}.")
    if waiting:
        out.print(f"{pluralize(waiting, 'blob')} marked: `traube clean --yes` deletes each a day after it was marked.")


@app.command()
def forget(
    models: Annotated[list[str], typer.Argument(help="Names of scored models.", show_default=False)],
) -> None:
    """Take models off the leaderboard and out of comparisons.

    Examples
    --------
    traube forget checkpoint-0311
    traube forget checkpoint-0310 checkpoint-0311 && traube clean --yes

    `traube clean` removes what is stored of a model; until then `traube run -m MODEL` brings it
    back. A folder of checkpoints/ is evaluated again when its files change.
    """
    from traube._pipeline.forgotten import forget as forget_model
    from traube._pipeline.params import load_params
    from traube._reports.tables import mark_outdated
    from traube._storage import open_storage
    from traube.comparison.champions import read_champions

    storage = open_storage(paths.home())
    named, champions = load_params().models, read_champions(storage).served
    for model in dict.fromkeys(models):
        n_cells = forget_model(storage, model, named, champions)
        mark_outdated(storage)
        out.print(
            f"{model} is forgotten: {pluralize(n_cells, 'cell')} no longer counted. `traube run` renews the tables."
        )


@app.command()
def rebuild() -> None:
    """Make the catalog of results again from the blobs.

    Examples
    --------
    traube rebuild
    traube rebuild && traube run

    For a catalog that is lost or corrupt. Corrupt results are named; the next run computes them
    again.
    """
    from traube._storage.storage import rebuild

    lines = rebuild(paths.home())
    for line in lines:
        err.print(escape(line))
    out.print("The catalog is made again" + (f"; {pluralize(len(lines), 'blob')} corrupt." if lines else "."))


@app.command()
def backup(file: _File) -> None:
    """Write all results, checkpoints and MLflow's history to one archive.

    Examples
    --------
    traube backup traube.tar
    traube backup "traube-$(date +%F).tar"

    Raw data, cards, params.yaml, .env and Dagster's history are not in it; see docs/how-to/backup.md.
    """
    from traube._storage import open_storage
    from traube._storage.backup import write_backup

    left_out = write_backup(open_storage(paths.home()), paths.checkpoints(), file)
    for line in left_out:
        err.print(f"left out: {escape(line)}")
    if settings.database():
        err.print("Dagster's and MLflow's history lies in Postgres and is not in the archive: use pg_dump.")
    out.print(f"backup: {escape(str(file))} ({file.stat().st_size / 2**20:.1f} MiB)", soft_wrap=True, highlight=False)


@app.command()
def restore(file: _File) -> None:
    """Restore a backup into an empty data directory.

    Examples
    --------
    traube restore traube.tar
    traube restore traube.tar && traube leaderboard

    Every blob is compared with its checksum. The data directory is TRAUBE_HOME, checkpoints go
    to TRAUBE_CHECKPOINTS. An archive that holds anything else than a backup does is refused.
    """
    from traube._storage import CellRow, open_storage
    from traube._storage.backup import restore_backup
    from traube._storage.backup_contents import MLFLOW

    if settings.database() or settings.blobs():
        raise Conflict(
            f"{settings.BLOBS} or {settings.DATABASE} is set, and a backup is restored into a folder only: "
            "unset both, restore, then `traube copy --blobs URL --database URL`"
        )
    lines = restore_backup(file, paths.home(), paths.checkpoints(), platform.part("history"))
    storage = open_storage(paths.home())  # makes the catalog from the blobs
    lines += (corrupt := storage.verify())
    if (complete := platform.part("restored")) and (paths.home() / MLFLOW).exists():
        try:
            complete()
        except TraubeError as error:  # of another version of MLflow
            lines.append(str(error))
    for line in lines + _publish(paths.home()):
        err.print(escape(line))
    cells = pluralize(len(storage.read_rows(CellRow)), "cell")
    rest = f"; {pluralize(len(corrupt), 'blob')} corrupt, `traube run` makes them again" if corrupt else ""
    out.print(f"restored: {cells} in {escape(str(paths.home()))}{rest}", soft_wrap=True, highlight=False)


@app.command("copy")
def copy_storage(
    to: Annotated[
        Path | None, typer.Argument(help="Another data directory. Default: this one.", show_default=False)
    ] = None,
    blobs: Annotated[str, typer.Option(help="s3://BUCKET/PREFIX or a folder, as TRAUBE_BLOBS.")] = "",
    database: Annotated[str, typer.Option(help="postgresql://USER@HOST/NAME, as TRAUBE_DATABASE.")] = "",
) -> None:
    """Copy all results to another data directory, or to Postgres and S3.

    Examples
    --------
    traube copy /mnt/shared/traube
    traube copy --blobs s3://bucket/traube --database postgresql://me@db/traube

    Existing results stay, so an interrupted copy is continued by the same command. Dagster's
    and MLflow's history is not copied.
    """
    from traube._storage import Storage, open_storage
    from traube._storage.backup import copy_files, copy_results

    if to is None and not (blobs and database):
        raise Invalid("copy where? Give a folder, or both --blobs and --database")
    source = open_storage(paths.home())
    folder = paths.home() if to is None else to.resolve()
    if folder == source.folder and to is not None:
        raise Conflict(f"{folder}: is the data directory itself; give another folder")
    database = settings.check_database(database)
    target = Storage(folder, servers=(blobs, database))
    if target.blobs.get_identity() == source.blobs.get_identity():
        raise Conflict(f"{target.blobs.url}: is the blob store in use; give another one")
    count, corrupt = copy_results(source, target)
    if to is not None:
        copy_files(source.folder, folder)
        if not (blobs or database or settings.blobs() or settings.database()):  # those would be the copy's, too
            corrupt += _publish(folder)
    for line in corrupt:
        err.print(escape(line))
    out.print(f"copied: {pluralize(count, 'blob')} to {escape(target.blobs.url)}", soft_wrap=True, highlight=False)
    values = {settings.BLOBS: blobs, settings.DATABASE: settings.without_password(database)}
    for name, value in values.items():
        if value:
            out.print(f"to use it: {name}={escape(value)} in {folder / settings.FILE}", soft_wrap=True, highlight=False)
    out.print("Not copied: Dagster's and MLflow's history.")


def _publish(folder: Path) -> list[str]:
    """Make tables and pages of a data directory from its results; return the errors, one line each."""
    from traube._cli.launcher import LocalLauncher
    from traube._core.progress import SILENT

    with paths.use_home(folder), LocalLauncher(SILENT) as launcher:
        return launcher.publish(())


def _format_size(size: int) -> str:
    unit, name = pick_unit_and_suffix(size, ["B", "KiB", "MiB", "GiB"], 1024)
    return f"{size / unit:.{1 if name == 'GiB' else 0}f} {name}"
