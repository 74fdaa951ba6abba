"""Run the command line: `python -m traube._cli`."""

from traube._cli.console import main

main()
