"""The page of the texts that come to a task day by day: groups over time, days that drift, and new groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pydantic import BaseModel

from traube._core.files import write_text
from traube._reports.figures import Plot, Trace, as_data, axes, line
from traube._reports.pages import FOLDER
from traube._reports.rendering import render

LARGEST = 6  # groups that have a line
WEEK = 7  # days over which the lines of groups are smoothed
LISTED = 60  # days of the table, the newest
SUFFIX = ".inbox.html"


class NewGroup(BaseModel):
    """A group of texts that fit none."""

    words: tuple[str, ...]
    texts: int
    typical: tuple[str, ...]


@dataclass(frozen=True)
class ShownDay:
    """A day as the page shows it."""

    day: str
    texts: int
    share: float  # of texts that fit no group
    p: float | None
    changed: Sequence[str]  # empty if the day does not drift


def locate_days_page(task: str, home: Path) -> Path:
    """Return the path of a task's page."""
    return home / FOLDER / f"{task}{SUFFIX}"


def write_days_page(
    task: str, days: Sequence[ShownDay], shares: pd.DataFrame, groups: Sequence[NewGroup], home: Path
) -> Path:
    """Write the page of a task, and return its path.

    Parameters
    ----------
    task : str
        The task.
    days : sequence of ShownDay
        The days, the first one first.
    shares : DataFrame
        Share of each group (columns, by name) among the texts of a day (index) that fit.
    groups : sequence of NewGroup
        Groups of what fits none.
    home : Path
        The data directory.
    """
    page = render(
        "days.html",
        title=f"{task}: texts of each day",
        plots=(plots := [_draw_strays(days), _draw_groups(shares)]),
        data=as_data(plots),
        notes=[
            "A day drifts (x) if it differs from 30 days of reference more than any of them does from the others: less than "
            "one false alarm a month."
        ],
        groups=groups,
        days=list(reversed(days))[:LISTED],
    )
    path = locate_days_page(task, home)
    write_text(path, page)
    return path


def _draw_strays(days: Sequence[ShownDay]) -> Plot:
    """Draw the share of texts that fit no group, with a mark at each day that drifts."""
    names, shares = [day.day for day in days], [100 * day.share for day in days]
    drifting = [day for day in days if day.changed]
    marks = {
        "type": "scatter",
        "mode": "markers",
        "name": "drift",
        "x": [day.day for day in drifting],
        "y": [100 * day.share for day in drifting],
        "marker": {"symbol": "x", "size": 10, "color": "#cc6677"},
    }
    return Plot("Texts that fit no group, and days that drift", [_draw_line("share", names, shares, 0), marks], _AXES)


def _draw_groups(shares: pd.DataFrame) -> Plot:
    """Draw the share of each of the largest groups, smoothed."""
    largest = shares.mean().sort_values(ascending=False).index[:LARGEST]
    days, smooth = [str(day) for day in shares.index], 100 * shares.rolling(WEEK, min_periods=1).mean()
    traces = [_draw_line(str(name), days, smooth[name].tolist(), place) for place, name in enumerate(largest)]
    title = f"The largest groups, of the texts that fit (mean of {WEEK} days)"
    return Plot(title, traces, axes("", "% of texts", height=480, legend={"orientation": "h", "y": -0.25}))


def _draw_line(name: str, days: Sequence[str], values: Sequence[float], place: int) -> Trace:
    return {**line(name, range(len(days)), values, place), "x": list(days)}


_AXES = axes("", "% of texts", height=480)
