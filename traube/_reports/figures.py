"""Figures as plotly.js takes them: traces and a layout.

They are dictionaries, so that no plotly package is needed. plotly reads what it shows as markup, so whatever people
wrote is escaped here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

# Tol's muted scheme; with the marks, 45 groups that color-blind eyes tell apart
COLORS = ("#332288", "#cc6677", "#117733", "#ddaa33", "#88ccee", "#882255", "#44aa99", "#999933", "#aa4499")
MARKS = ("circle", "square", "diamond", "cross", "x")  # of those that figures in three dimensions have too
GRAY = "#b0b0b0"
SHOWN_CHARACTERS, LINE_WIDTH = 300, 60  # of a text, when it is pointed at
LEGEND = 45  # groups of a legend at most
HEATMAP_MODELS = 30  # the best; a page has room for no more
CELL_WIDTH, ROW_HEIGHT, LETTER = 62, 24, 7  # pixels

Trace = dict[str, Any]


@dataclass(frozen=True)
class Plot:
    """A figure: its title, and what is drawn and how it is laid out, in plotly's words."""

    title: str
    traces: list[Trace]
    layout: dict[str, Any] = field(default_factory=dict)


def color_models(names: Iterable[str]) -> dict[str, str]:
    """Return the color of each model, the same in every chart, map and table of a page: by its place among all names."""
    return {name: COLORS[place % len(COLORS)] for place, name in enumerate(sorted(set(names)))}


def numbers(values: ArrayLike) -> list[float | None]:
    """Return numbers as JSON takes them; None for one that does not exist."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def tip(label: str, text: str) -> str:
    """Return the tooltip of a text: its label, and its beginning in short lines, escaped."""
    short = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} ..."
    head = [f"<b>{escape(label)}</b>"] if label else []
    return "<br>".join([*head, *map(escape, wrap(short, LINE_WIDTH))])


def by_label(labels: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Return the rows of each label, in the order of the labels' names."""
    return {label: np.flatnonzero(np.asarray(labels, dtype=object) == label) for label in sorted(set(labels))}


def text_map(
    title: str,
    points: ArrayLike,
    tips: Sequence[str],
    groups: Mapping[str, NDArray[np.int64]],
    quiet: str | None = None,
    height: int = 480,
) -> Plot:
    """Draw texts as points, each group in a color and mark of its own; pointing at one shows its text.

    Parameters
    ----------
    points : array of shape (n_texts, 2 or 3)
        Where the texts are placed.
    tips : sequence of str
        What pointing at each text shows, from `tip`.
    groups : mapping of str to ndarray of int
        The rows of each group by its name, in the order of the legend.
    quiet : str, optional
        The group that is drawn small and gray, behind the others.
    height : int, default=480
        In pixels.
    """
    at = np.asarray(points, dtype=float)
    kind = {"type": "scatter3d"} if at.shape[1] == 3 else {"type": "scatter"}
    loud = [name for name in groups if name != quiet]
    traces = []
    for name in sorted(groups, key=lambda name: name != quiet):
        members = groups[name]
        place = loud.index(name) if name != quiet else 0
        marker = {"size": 6, "color": COLORS[place % len(COLORS)]}
        marker |= {"symbol": MARKS[place // len(COLORS) % len(MARKS)], "opacity": 0.8}
        traces.append(
            {
                **kind,
                "mode": "markers",
                "name": escape(name),
                **{axis: numbers(at[members, column]) for column, axis in enumerate("xyz"[: at.shape[1]])},
                "marker": {"size": 3, "color": GRAY} if name == quiet else marker,
                "hovertext": [tips[i] for i in members],
                "hoverinfo": "text",
            }
        )
    hidden = {"visible": False}
    layout: dict[str, Any] = {"height": height, "showlegend": 1 < len(groups) <= LEGEND, "hovermode": "closest"}
    if at.shape[1] == 3:
        axis, camera = {"title": {"text": ""}}, {"eye": {"x": 1.6, "y": 1.6, "z": 1.1}}
        layout["scene"] = {"xaxis": axis, "yaxis": axis, "zaxis": axis, "camera": camera}
        return Plot(title, traces, layout)
    return Plot(title, traces, {**layout, "xaxis": hidden, "yaxis": hidden})


def line(name: str, x: ArrayLike, y: ArrayLike, place: int, **more: Any) -> Trace:
    """Return a line with a mark at each point, in the color of its place among the lines."""
    color = COLORS[place % len(COLORS)]
    named = {"type": "scatter", "mode": "lines+markers", "name": escape(name), "legendgroup": escape(name)}
    return {**named, "x": numbers(x), "y": numbers(y), "line": {"color": color}, "marker": {"size": 4}, **more}


def band(name: str, x: ArrayLike, low: ArrayLike, high: ArrayLike, place: int) -> Trace:
    """Return the area between two lines, in the color of its place among the lines."""
    around = [*numbers(x), *numbers(x)[::-1]], [*numbers(high), *numbers(low)[::-1]]
    area = {"x": around[0], "y": around[1], "fill": "toself", "fillcolor": COLORS[place % len(COLORS)], "opacity": 0.2}
    quiet = {"hoverinfo": "skip", "showlegend": False, "legendgroup": escape(name)}
    return {"type": "scatter", "mode": "none", **area, **quiet}


def axes(x: str, y: str, height: int = 380, **more: Any) -> dict[str, Any]:
    """Return a layout whose axes have titles."""
    return {"height": height, "xaxis": {"title": {"text": escape(x)}}, "yaxis": {"title": {"text": escape(y)}}, **more}


def lines(means: pd.DataFrame, panel: str, line_of: str, x: str, label: str) -> list[Plot]:
    """Draw lines with a band of one standard deviation, a figure for each value of a column.

    Parameters
    ----------
    means : DataFrame
        Columns `panel`, `line_of`, `x`, mean and std.
    label : str
        Of the axis of means.
    """
    names = list(means[line_of].unique())
    plots = []
    for title, rows in means.groupby(panel, sort=False):
        traces = []
        for name, of in rows.groupby(line_of, sort=False):
            place = names.index(name)
            traces.append(band(str(name), of[x], of["mean"] - of["std"], of["mean"] + of["std"], place))
            traces.append(line(str(name), of[x], of["mean"], place))
        # below: long names beside the lines would leave them no width
        plots.append(Plot(str(title), traces, axes(x, label, legend={"orientation": "h", "y": -0.25})))
    return plots


def grouped_bars(title: str, means: pd.DataFrame, group: str, bar: str, label: str) -> Plot:
    """Draw bars with their standard errors, side by side in groups.

    Parameters
    ----------
    means : DataFrame
        Columns `group` and `bar`, mean, sem (nan where there is none).
    label : str
        Of the axis of means.
    """
    traces = [
        {
            "type": "bar",
            "name": escape(str(name)),
            "x": [escape(str(value)) for value in of[group]],
            "y": numbers(of["mean"]),
            "error_y": {"type": "data", "array": numbers(of["sem"].fillna(0)), "thickness": 1},
            "marker": {"color": COLORS[place % len(COLORS)]},
        }
        for place, (name, of) in enumerate(means.groupby(bar, sort=False))
    ]
    kinds = {"xaxis": {"type": "category"}, "barmode": "group"}
    return Plot(title, traces, axes("", label) | kinds)


def heatmap(title: str, rows: pd.DataFrame) -> Plot | None:
    """Draw mean scores x100 by method and model, of one task, level and protocol; None where fewer than two are scored.

    Parameters
    ----------
    rows : DataFrame
        Of the leaderboard, columns method, model and mean.
    """
    grid = rows.pivot_table(index="method", columns="model", values="mean") * 100
    if grid.count().sum() < 2:
        return None
    best = grid.max().sort_values(ascending=False).index[:HEATMAP_MODELS]
    grid = grid.loc[grid.max(axis=1).sort_values(ascending=False).index, best]
    trace = {
        "type": "heatmap",
        "x": list(map(escape, grid.columns)),
        "y": list(map(escape, grid.index)),
        "z": [numbers(row) for row in grid.to_numpy()],
        "texttemplate": "%{z:.1f}",
        "colorscale": "Viridis",
        "hoverongaps": False,
        "hovertemplate": "%{y}, %{x}: %{z:.2f}<extra></extra>",
        "showscale": False,
    }
    left, right = LETTER * max(map(len, grid.index)) + 10, LETTER * len(grid.columns[-1])
    top = LETTER * max(map(len, grid.columns)) * 0.7 + 45  # with the buttons
    layout = {
        "width": left + CELL_WIDTH * grid.shape[1] + right,
        "height": top + ROW_HEIGHT * grid.shape[0] + 10,
        "margin": {"l": left, "r": right, "t": top, "b": 10},
        "xaxis": {"side": "top", "tickangle": -40, "type": "category", "ticks": "", "showgrid": False},
        "yaxis": {"autorange": "reversed", "type": "category", "ticks": "", "showgrid": False},
    }
    return Plot(title, [trace], layout)


def as_data(plots: Iterable[Plot]) -> list[dict[str, Any]]:
    """Return figures as a page's data."""
    return [{"traces": plot.traces, "layout": plot.layout} for plot in plots]
