"""The console script `traube`. The command itself (`cli/`) lies beside this package in a checkout,
and in no wheel.
"""

import sys
from importlib import import_module
from io import TextIOWrapper

from traube.foundation import paths, stopping

LIBRARY_ALONE = "traube: this is the library alone; the command runs from a checkout of the repository: `git clone` it, then `make demo`"


def main() -> None:
    """Run the command line of the checkout that this package lies in.

    From a wheel there is none: one line says so, and the exit code is 1.
    """
    if not paths.IN_CHECKOUT:
        sys.exit(LIBRARY_ALONE)
    for stream in (sys.stdout, sys.stderr):  # where the terminal has no such character, its number is shown
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    stopping.watch()  # first of all: importing the command takes a while
    sys.path.insert(0, str(paths.PROJECT))  # another package may be called `cli` too
    try:
        import_module("cli").app()
    except BaseException as end:
        # libraries make other exceptions of a signal: typer, whose exit code is 130 whatever the
        # signal, and pydantic, which calls it an error of the class that is being made
        if stopping.received() is None and not isinstance(end, KeyboardInterrupt):
            raise
        stopping.say()
        sys.exit(stopping.exit_code())
