"""The command `traube`: run the benchmark and read its results without a UI.

One file per family of commands. A command reads its arguments, asks the library, and prints the
answer; what it asks is answered in `traube/`, and runs of the Dagster graph are started in
`cli/launch.py`. Heavy imports (dagster, mlflow, pandas, torch) are inside the commands, so that
`--help` is quick.
"""

import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cli import (
    annotate,
    best,
    clean,
    cluster,
    compare,
    dev,
    doctor,
    exchange,
    move_home,
    pages,
    pairs,
    registry,
    release,
    run,
    show,
    sweep,
    train,
)
from cli.printing import err, escape, out
from traube.foundation import paths, stopping
from traube.foundation.collector import collect_less
from traube.foundation.errors import TraubeError
from traube.foundation.files import blamed_on_disk, in_words, make_private
from traube.foundation.identity import refuse_later


class _Group(TyperGroup):
    """Shows an error that the user can mend as one line, with exit code 1; Ctrl-C ends with 130."""

    def invoke(self, ctx: Any) -> Any:
        collect_less()
        make_private(paths.home())
        try:
            refuse_later(paths.home())
            result = super().invoke(ctx)
            stopping.check()  # a library may have kept the interruption to itself
            return result
        except TraubeError as error:
            err.print(f"[bold red]error:[/] {escape(str(error))}")
            sys.exit(1)
        except OSError as error:
            err.print(f"[bold red]error:[/] {escape(in_words(error))}")
            sys.exit(1)
        except Exception as error:
            line = blamed_on_disk(error)
            if line is None:
                raise
            err.print(f"[bold red]error:[/] {escape(f'{paths.home()}: {line}')}")
            sys.exit(1)
        except KeyboardInterrupt:
            stopping.say()
            sys.exit(stopping.exit_code())


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    help="Find out which text embedding groups your texts best.\n\nStart with [bold]traube run[/], then "
    "[bold]traube leaderboard[/]. Traube writes below TRAUBE_HOME (default .traube/) and reads raw data from TRAUBE_RAW "
    "(default data/raw/).",
)


def _say_version(asked: bool) -> None:
    if asked:
        out.print(f"traube {version('traube')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


for _family in (
    run,
    show,
    best,
    pages,
    compare,
    cluster,
    annotate,
    pairs,
    train,
    sweep,
    registry,
    exchange,
    release,
    clean,
    doctor,
    dev,
    move_home,
):  # as `--help` lists them
    app.add_typer(_family.app)
