"""`traube move-home` copies this home to where others can share it."""

from typing import Annotated

import typer

from traube.cli.printing import escape, out

app = typer.Typer()


@app.command("move-home")
def move_home(
    url: Annotated[str, typer.Argument(help="Such as s3://BUCKET/PREFIX, or a folder. Empty, or filled by this home.")],
    database: Annotated[
        str, typer.Option(help="Also copy Dagster's and MLflow's history to postgresql://USER@HOST/NAME.")
    ] = "",
) -> None:
    """Copy this home with its history to where several machines share it.

    Copied are the store, vectors, checkpoints and MLflow's files; with
    --database also what Dagster and MLflow remember. Each file is compared
    with its copy, vectors with the hash that their copy has as its name. What
    is there already is left, so the command can be repeated, and goes on where
    it was cut off. A URL that holds another home is refused. Nothing is
    removed here: this home becomes a copy once .env names the URL. Stop what
    runs in it before.
    """
    import os

    from traube.engine.moving import copy_home
    from traube.foundation import paths, settings

    home = paths.home()
    os.environ.pop(settings.SHARE, None)  # nothing is written to a share while it is copied
    for moved in copy_home(home, url):
        out.print(f"{moved.kind}: {moved.files}, {moved.new} of them copied now; all compared", highlight=False)
    os.environ[settings.SHARE] = url
    if database:
        _move_history(database)
    said = f"{settings.SHARE}={url}" + (
        f" and {settings.DATABASE}={settings.without_password(database)}" if database else ""
    )
    out.print(f"Now write {escape(said)} into {home / settings.FILE}, here and on every machine.", soft_wrap=True)


def _move_history(database: str) -> None:
    import os

    from assets.common import MODELS
    from resources.moving import copy_dagster, copy_mlflow
    from traube.foundation import paths, settings

    os.environ[settings.DATABASE] = database
    home = paths.home()
    runs, new_runs = copy_dagster(home, [MODELS.name or ""])
    out.print(f"runs of Dagster: {runs}, {new_runs} of them copied now", highlight=False)
    rows, new_rows = copy_mlflow(home)
    out.print(f"rows of MLflow: {rows}, {new_rows} of them copied now", highlight=False)
