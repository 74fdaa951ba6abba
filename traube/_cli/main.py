"""The command `traube`. Heavy imports (pandas, torch) are inside the commands, so that `--help` is quick."""

import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from traube import __version__
from traube._cli import (
    cluster,
    compare,
    data,
    leaderboard,
    pairs,
    platform,
    provenance,
    recommend,
    report,
    run,
    show,
)
from traube._cli.printing import err, escape, out
from traube._core import paths, stopping
from traube._core.collector import collect_less
from traube._core.disk import make_private
from traube._core.generated_cards import restore_cards
from traube._core.plugins import import_plugins
from traube._core.spending import limit_spending
from traube._core.system_errors import explain_error, format_error, refuse_little_memory

# Panels of the library's commands; those of plug-ins and a platform name theirs, one of these or one of their own, which
# stand last
PANELS: dict[str, tuple[str, ...]] = {
    "Your texts": ("cluster", "run", "recommend", "leaderboard", "compare", "report"),
    "Data and models": ("tasks", "models", "methods", "export", "import"),
    "Training": (),
    "Provenance": ("provenance", "reproduce", "papers", "forget", "clean", "copy", "backup", "restore", "rebuild"),
    "Pairs and annotation": ("pairs",),
}
RENAMED = {  # old names, which work until 0.4
    "best": "recommend",
    "choose": "multiple-choice",
    "explain": "provenance",
    "open": "report",
}


class _Group(TyperGroup):
    """Lists commands by panel, and shows an error that the user can mend as one line; Ctrl-C ends with 130."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for panel, names in PANELS.items():
            for name in self.commands.keys() & names:
                self.commands[name].rich_help_panel = panel  # type: ignore[attr-defined]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, panel by panel."""
        panels, order = [*PANELS], [name for names in PANELS.values() for name in names]

        def place(name: str) -> tuple[int, int]:
            panel = getattr(self.commands[name], "rich_help_panel", None)
            return panels.index(panel) if panel in panels else len(panels), order.index(name) if name in order else 0

        return sorted(self.commands, key=place)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, by its earlier name too."""
        if new := RENAMED.get(args[0]):
            if not ctx.resilient_parsing:  # a shell that completes a line shows no messages
                err.print(f"`traube {args[0]}` is now `traube {new}`")
            args = [new, *args[1:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        collect_less()
        make_private(paths.home())
        was_there = paths.home().is_dir()
        try:
            refuse_little_memory()
            restore_cards()
            with limit_spending():
                result = super().invoke(ctx)
            stopping.check()  # a library may have kept the interruption to itself
            return result
        except BrokenPipeError:  # whoever read this has seen enough, such as `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is not to be flushed there
            sys.exit(128 + signal.SIGPIPE)
        except Exception as error:
            line = explain_error(error)
            if was_there and not paths.home().is_dir():
                line = f"{paths.home()}: was deleted while the command ran: run it again"
            elif not line and isinstance(error, OSError):
                line = format_error(error)
            if line is None:
                raise
            try:
                err.print(f"[bold red]error:[/] {escape(line)}")
            except MemoryError:  # colors take some, too
                sys.stderr.write(f"error: {line}\n")
            sys.exit(1)
        except KeyboardInterrupt:
            stopping.report_stop()
            sys.exit(stopping.exit_code())


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    help="Find out which text embedding clusters your texts best.\n\n"
    "Examples\n--------\ntraube cluster notes.txt\ntraube run tickets.csv\n\n"
    "Traube writes below TRAUBE_HOME (default .traube/) and reads raw data from TRAUBE_RAW (default data/raw/).",
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        out.print(f"traube {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None: ...


for _family in (run, leaderboard, recommend, compare, report, cluster, show, provenance, pairs, data):
    app.add_typer(_family.app)
for _app in (*(module.app for _, module in import_plugins("commands")), *platform.commands()):
    app.add_typer(_app)
