"""The ranks of models as a figure, and differences of each pair, read from the verdicts of one standing."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import combinations
from typing import Any

import numpy as np

from traube._reports.explorer.board import number
from traube._reports.figures import GRAY, Plot, Trace
from traube.comparison._standings import Standing
from traube.comparison._verdict import Verdict, compare
from traube.tasks._task import Split

MOST = 20  # models of a diagram
ROW = 24  # pixels


def rank_diagram(title: str, standing: Standing, colors: Mapping[str, str]) -> Plot | None:
    """Draw the ranks that each model may have, the leaderboard's, in its order; None where nothing has a rank.

    Parameters
    ----------
    title : str
        The figure's title.
    standing : Standing
        How the models stand; the first 20 are drawn.
    colors : mapping of str to str
        The color of each model.
    """
    ranks = standing.ranking.ranks
    rows = [i for i in range(min(MOST, len(ranks))) if np.isfinite(ranks[i]).all()]
    if len(rows) < 2:
        return None
    names = [standing.ranking.names[i] for i in rows]
    traces = [
        _bar(name, row, int(ranks[i, 0]), int(ranks[i, 1]), colors.get(name, GRAY))
        for row, (i, name) in enumerate(zip(rows, names, strict=True))
    ]
    last = int(ranks[rows, 1].max())
    layout = {
        "xaxis": {
            "side": "top",
            "range": [0.5, last + 0.5],
            "dtick": max(1, last // 10),
            "tick0": 1,
            "fixedrange": True,
        },
        "yaxis": {
            "range": [len(rows) - 0.5, -0.5],
            "tickmode": "array",
            "tickvals": list(range(len(rows))),
            "ticktext": list(map(escape, names)),
            "showgrid": False,
            "fixedrange": True,
            "ticks": "",
        },
        "showlegend": False,
        "margin": {"l": 10, "r": 10, "t": 30, "b": 5},
        "height": ROW * len(rows) + 40,
    }
    return Plot(title, traces, layout)


def _bar(name: str, row: int, first: int, last: int, color: str) -> Trace:
    """Draw a model's ranks: a line from the first to the last, a dot at both."""
    rank_range = str(first) if first == last else f"{first} to {last}"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [first, last],
        "y": [row, row],
        "line": {"color": color, "width": 5},
        "marker": {"color": color, "size": 11},
        "hovertext": f"{escape(name)}: rank {rank_range}",
        "hoverinfo": "text",
    }


def differences(standings: Mapping[str, Standing], splits: Sequence[Split], most: int) -> list[dict[str, Any]]:
    """Compare each pair of the best models, `most` at each level, split by split, x100.

    Returns
    -------
    list of dict
        For each pair and level the verdict, and every split's size, classes, difference and interval (None if a split does
        not say how much scores vary).
    """
    shapes = {(s.split, s.level): (s.size, s.classes) for s in splits}
    pairs = []
    for level, standing in standings.items():
        samples = dict(zip(standing.ranking.names[:most], standing.samples, strict=False))
        for a, b in combinations(samples, 2):
            verdict = standing.ranking.verdict(a, b)
            tested = {"p": number(verdict.p, 4), "comparisons": verdict.comparisons, "answer": verdict.answer}
            rows = []
            for split in [name for name in samples[a].splits if name in samples[b].splits]:
                size, classes = shapes.get((split, level), (0, None))
                one, other = samples[a].on([split]), samples[b].on([split])
                of_split = _numbers(compare("a", one, "b", other))
                of_split["difference"] = number(100 * (one.mean - other.mean))
                rows.append({"split": split, "size": size, "classes": classes, **of_split})
            pairs.append({"level": level, "a": a, "b": b, **_numbers(verdict), **tested, "splits": rows})
    return pairs


def _numbers(verdict: Verdict) -> dict[str, float | None]:
    return {name: number(100 * getattr(verdict, name)) for name in ("difference", "low", "high")}
