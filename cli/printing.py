"""What the commands print with: the two consoles, tables of rows, progress bars, and lines that several commands say."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

out = Console(soft_wrap=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)

__all__ = [
    "bars",
    "err",
    "escape",
    "fail_on",
    "out",
    "print_errors",
    "print_outdated",
    "print_rows",
    "print_unavailable",
]


def print_unavailable(reasons: Mapping[str, str]) -> None:
    """What cannot be had here, and why."""
    for name, reason in reasons.items():
        err.print(f"[yellow]unavailable:[/] {escape(name)}: {escape(reason)}")


def print_outdated() -> int:
    """Say that stored cells no longer count because the code or a library that computes them is another now; how many."""
    from traube.benchmark.current import outdated
    from traube.foundation import paths
    from traube.store import Store

    number = outdated(Store(paths.home() / "store").cells())
    if number:
        err.print(
            f"{number} stored cells were computed by other versions of Traube or its libraries. They are kept, and not shown "
            "beside today's; `traube run` computes what it is asked for again (`traube explain` names the versions)."
        )
    return number


@contextmanager
def bars(hidden: bool = False) -> Iterator[tuple[Any, Any]]:
    """Live progress: all cells, and the stage at work. Yields what the engine reports to, and how to set the number of cells."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    from traube.engine import progress

    class Rate(ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.1f}/s" if speed else "", style="dim")

    columns = (
        TextColumn("{task.description:>11}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=err, transient=True, disable=hidden or not err.is_terminal) as bars:
        cells = bars.add_task("cells", total=None)
        stage = bars.add_task("", total=None, visible=False)
        current = {"stage": ""}

        def total(name: str, amount: int) -> None:
            current["stage"] = name
            bars.reset(stage, description=name, total=amount, visible=True)

        def done(name: str, amount: int) -> None:
            if name == "cells":
                bars.advance(cells, amount)
            elif name == current["stage"]:
                bars.advance(stage, amount)

        yield progress.Progress(total, done), lambda n: bars.update(cells, total=n)


def print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    import json

    if as_json:
        print(json.dumps(rows, indent=1))  # noqa: T201
        return
    shown = Table()
    for i, name in enumerate(rows[0] if rows else ()):
        shown.add_column(name, no_wrap=i == 0, overflow="fold")  # what is cut off cannot be copied
    for row in rows:
        shown.add_row(*(escape(str(value)) for value in row.values()))
    out.print(shown)


def print_errors(errors: Iterable[str]) -> None:
    """What failed, a line each."""
    for error in errors:
        err.print(f"[bold red]failed:[/] {escape(error)}")


def fail_on(errors: list[str]) -> None:
    """Print the errors, if there are any, and end with exit code 1."""
    print_errors(errors)
    if errors:
        raise typer.Exit(1)
