"""Output of the commands: the two consoles, tables of rows, progress bars, and lines that several commands print."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from traube._core.escaping import escape_controls
from traube._core.progress import Progress

if TYPE_CHECKING:
    import pandas as pd


class _EscapingConsole(Console):
    """A console that escapes control sequences of texts; a file or a program gets lines of up to 200 columns."""

    @property  # type: ignore[misc]  # nobody sets it
    def size(self) -> ConsoleDimensions:
        dimensions = super().size
        return dimensions if self.is_terminal or "COLUMNS" in os.environ else ConsoleDimensions(200, dimensions.height)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(escape_controls(text), **options)

    def on_broken_pipe(self) -> None:
        """Leave a broken pipe to the command, as a plain print does: rich would exit with 1."""
        raise BrokenPipeError


out = _EscapingConsole(soft_wrap=False)
err = _EscapingConsole(stderr=True, soft_wrap=True, highlight=False)
GAP = 2  # between columns


def pluralize(number: int, thing: str, things: str = "") -> str:
    """Return a number of things in words: 1 cell, 2 cells."""
    return f"{number} {thing}" if number == 1 else f"{number} {things or thing + 's'}"


def describe_duration(seconds: float) -> str:
    """Return a length of time that is known roughly, in words."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    return f"about {pluralize(minutes, 'minute')}" if minutes < 100 else f"about {round(minutes / 60)} hours"


def describe_failed_check(
    asset: str, name: str, blocking: bool, broken: str = "", rows: int | None = None, page: object = None
) -> str:
    """Return a line on a failed check of an asset: how many rows break which rules, and the page that shows them."""
    see = "" if page is None else f"; see {page}"
    where = "" if rows is None else f" ({pluralize(rows, 'row')}{see})"
    kind = "blocking check" if blocking else "check"
    return f"{asset}: the {kind} '{name}' failed{where}{f': {broken}' if broken else ''}"


def print_unavailable(reasons: Mapping[str, str], title: str = "unavailable") -> None:
    """Print what is unavailable here, and why."""
    print_notes((f"{name}: {reason}" for name, reason in reasons.items()), title)


def print_outdated(cells: "pd.DataFrame") -> int:
    """Print and return how many stored cells no longer count because the code or a library has changed since."""
    from traube._pipeline.current import count_outdated

    if number := count_outdated(cells):
        err.print(
            f"{number} stored cells were computed with other versions of Traube or its libraries. They are kept but not shown; "
            "`traube run` computes them again with today's versions, and `traube provenance` names both."
        )
    return number


@contextmanager
def show_progress(hidden: bool = False, of: str = "cells") -> Iterator[tuple[Any, Any]]:
    """Show progress of all cells, and of the stage at work.

    Yields the reporter of progress, and a function that sets the number of cells.
    """
    from rich import progress

    class Rate(progress.ProgressColumn):
        def render(self, task: Any) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.1f}/s" if speed else "", style="dim")

    columns = (
        progress.TextColumn("{task.description:>11}"), progress.BarColumn(), progress.MofNCompleteColumn(), Rate(),
        progress.TimeElapsedColumn(), progress.TextColumn("left"), progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[said]}", style="dim"),
    )  # fmt: skip
    with progress.Progress(*columns, console=err, transient=True, disable=hidden or not err.is_terminal) as bars:
        cells = bars.add_task(of, total=None, visible=False, said="")
        stage = bars.add_task("", total=None, visible=False, said="")
        current = ""

        def total(name: str, amount: int) -> None:
            nonlocal current
            current = name
            bars.reset(stage, description=name, total=amount, visible=True, said="")

        def done(name: str, amount: int) -> None:
            if name == "cells":
                bars.advance(cells, amount)
            elif name == current:
                bars.advance(stage, amount)

        def said(words: str) -> None:
            bars.update(stage, said=words)

        yield Progress(total, done, said), lambda n: bars.update(cells, total=n, visible=True)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output; nan becomes null, which JSON knows."""
    print(json.dumps(_with_null(value), indent=1, default=str))  # noqa: T201


def _with_null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_null(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_null(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def format_number(value: float | None, digits: int = 3) -> str:
    """Return a number for a table; a dash if there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def print_table(
    rows: Sequence[Mapping[str, Any]],
    fold: Mapping[str, int] = MappingProxyType({}),
    optional: Sequence[str] = (),
    title: str = "",
) -> None:
    """Print a table that fits the terminal: names are never cut.

    Parameters
    ----------
    rows : sequence of mappings of str to str
        Cells by column; all rows have the same columns.
    fold : mapping of str to int, optional
        Columns that may take several lines, and the width that each needs at least.
    optional : sequence of str, optional
        Columns that are left out if the terminal is too narrow, the least needed first; a line says so.
    title : str, optional
        The table's title.
    """
    if title:
        out.print(f"[italic]{escape(title)}[/]")
    if not rows:
        return
    cells = [{name: escape(escape_controls(str(value))) for name, value in row.items()} for row in rows]
    widths = {name: max(map(cell_len, (name, *(str(row[name]) for row in rows)))) for name in cells[0]}
    least = {name: min(width, max(fold.get(name, width), cell_len(name))) for name, width in widths.items()}
    left_out = []
    for name in (name for name in optional if name in least):
        if sum(least.values()) + GAP * (len(least) - 1) <= out.width:
            break
        del least[name]
        left_out.append(name)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for name in least:
        table.add_column(name, no_wrap=name not in fold, overflow="fold")
    for row in cells:
        table.add_row(*(row[name] for name in least))
    out.print(table)
    if left_out:
        out.print(f"[dim]no room for: {', '.join(left_out)} (a wider terminal or --json shows all)[/]")


def print_notes(notes: Iterable[str], title: str = "note", style: str = "yellow") -> None:
    """Print a line for each note, behind a title; by default, notes are warnings that stop nothing."""
    for note in notes:
        err.print(f"[{style}]{title}:[/] {escape(note)}")


def fail_on(errors: list[str]) -> None:
    """Print the errors, if there are any, and end with exit code 1."""
    print_notes(errors, "failed", "bold red")
    if errors:
        raise typer.Exit(1)
