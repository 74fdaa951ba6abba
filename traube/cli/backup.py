"""`traube backup` and `traube restore`."""

from pathlib import Path
from typing import Annotated

import typer

from traube.cli.printing import counted, err, escape, out

app = typer.Typer()
_File = Annotated[Path, typer.Argument(help="The archive, such as traube.tar.", show_default=False)]


@app.command()
def backup(file: _File) -> None:
    """Write all results and histories to one archive.

    The archive holds blobs, their catalog, checkpoints, the state of
    trainings, Optuna's studies, and what Dagster and MLflow keep in the data
    directory. Runs may go on meanwhile. Raw data, cards and params.yaml are
    not in it, nor is .env, which may hold secrets. With TRAUBE_DATABASE,
    Dagster's and MLflow's history lies in Postgres: back it up with pg_dump.
    """
    from traube.core import paths, settings
    from traube.storage import open_storage
    from traube.storage.backup import write_backup

    left_out = write_backup(open_storage(paths.home()), paths.checkpoints(), file)
    for line in left_out:
        err.print(f"left out: {escape(line)}")
    if settings.database():
        err.print("Dagster's and MLflow's history lies in Postgres and is not in the archive: use pg_dump.")
    out.print(f"backup: {escape(str(file))} ({file.stat().st_size / 2**20:.1f} MiB)", soft_wrap=True, highlight=False)


@app.command()
def restore(file: _File) -> None:
    """Restore a backup into an empty data directory.

    The data directory is TRAUBE_HOME, checkpoints go to TRAUBE_CHECKPOINTS.
    Every blob is compared with its checksum afterwards. MLflow finds the
    files of its runs only if the data directory has the same path as before.
    To get results into Postgres and S3, restore into a folder and use
    `traube copy`.
    """
    from traube.core import paths, settings
    from traube.core.errors import TraubeError
    from traube.storage import open_storage
    from traube.storage.backup import restore_backup

    if settings.database() or settings.blobs():
        raise TraubeError(
            f"{settings.BLOBS} or {settings.DATABASE} is set, and a backup is restored into a folder only: "
            "unset both, restore, then `traube copy --blobs URL --database URL`"
        )
    restore_backup(file, paths.home(), paths.checkpoints())
    storage = open_storage(paths.home())
    for line in (corrupt := storage.verify()):
        err.print(escape(line))
    cells = counted(len(storage.read_rows("cell")), "cell")
    out.print(
        f"restored: {cells} in {escape(str(paths.home()))}"
        + (f"; {counted(len(corrupt), 'blob')} corrupt, `traube run` makes them again" if corrupt else ""),
        soft_wrap=True,
        highlight=False,
    )
