"""Run the command line: `python -m traube.cli`."""

from traube.cli.console import main

main()
