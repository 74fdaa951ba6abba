"""The console script `traube`."""

import os
import signal
import sys
from importlib import import_module
from io import TextIOWrapper

from traube._core import paths, stopping
from traube._core.errors import TraubeError
from traube._core.system_errors import format_error


def main() -> None:
    """Run the command line, with the platform of the checkout that this package lies in."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):  # where the terminal has no such character, its number is shown
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    stopping.watch()  # first of all: importing the command takes a while
    if paths.IN_CHECKOUT:
        sys.path.insert(0, str(paths.PROJECT))  # another package may be called `operations`, or `assets`, too
    try:
        import_module("traube._cli.main").app()
    except BaseException as end:
        # libraries make other exceptions of a signal: typer, whose exit code is 130 whatever the
        # signal, and pydantic, which calls it an error of the class that is being made
        if stopping.get_signal() is not None or isinstance(end, KeyboardInterrupt):
            stopping.report_stop()
            sys.exit(stopping.exit_code())
        if isinstance(end, TraubeError):  # of a plug-in that is installed
            sys.stderr.write(f"error: {end}\n")
            sys.exit(1)
        if not isinstance(end, OSError):
            raise
        # help or version that cannot be written: a command reports its own errors
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left is not to be flushed there
        if isinstance(end, BrokenPipeError):
            sys.exit(128 + signal.SIGPIPE)
        sys.stderr.write(f"error: {format_error(end)}\n")
        sys.exit(1)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that is closed, lest a database becomes standard output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # the system gives the lowest number that is free
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    # Python has None for a stream that was closed
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115 (a Path has no descriptor)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
