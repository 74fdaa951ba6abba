"""`traube copy`: results to another data directory, or to a Postgres and a blob store."""

from pathlib import Path
from typing import Annotated

import typer

from traube.cli.printing import counted, err, escape, out

app = typer.Typer()


@app.command("copy")
def copy_storage(
    to: Annotated[
        Path | None, typer.Argument(help="Another data directory. Default: this one.", show_default=False)
    ] = None,
    blobs: Annotated[str, typer.Option(help="s3://BUCKET/PREFIX or a folder, as TRAUBE_BLOBS.")] = "",
    database: Annotated[str, typer.Option(help="postgresql://USER@HOST/NAME, as TRAUBE_DATABASE.")] = "",
) -> None:
    """Copy all results to another data directory, or to Postgres and S3.

    Results that are there stay, so an interrupted copy is continued by the
    same command. Dagster's and MLflow's history is not copied: both begin
    anew there, and the old databases stay where they are.
    Studies and the state of trainings are copied to another data directory;
    checkpoints stay in TRAUBE_CHECKPOINTS.
    """
    from traube.core import paths, settings
    from traube.core.errors import TraubeError
    from traube.storage import Storage, open_storage
    from traube.storage.backup import copy_files, copy_results

    if to is None and not (blobs and database):
        raise TraubeError("copy where? Give a folder, or both --blobs and --database")
    source = open_storage(paths.home())
    folder = paths.home() if to is None else to.resolve()
    if folder == source.folder and to is not None:
        raise TraubeError(f"{folder}: is the data directory itself; give another folder")
    database = settings.check_database(database)
    target = Storage(folder, servers=(blobs, database))
    if target.blobs.get_identity() == source.blobs.get_identity():
        raise TraubeError(f"{target.blobs.url}: is the blob store in use; give another one")
    count, corrupt = copy_results(source, target)
    if to is not None:
        copy_files(source.folder, folder)
    for line in corrupt:
        err.print(escape(line))
    out.print(f"copied: {counted(count, 'blob')} to {escape(target.blobs.url)}", soft_wrap=True, highlight=False)
    values = {settings.BLOBS: blobs, settings.DATABASE: settings.without_password(database)}
    for name, value in values.items():
        if value:
            out.print(f"to use it: {name}={escape(value)} in {folder / settings.FILE}", soft_wrap=True, highlight=False)
    out.print("Not copied: Dagster's and MLflow's history.")
