"""The critical-difference diagram (Demšar, 2006): mean ranks of models, and a bar over those that cannot be told apart.
Our own tests say which: they know of texts that splits share; the usual Nemenyi test takes splits as independent."""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from traube.comparison.jackknife import Sample
from traube.comparison.ranking import Ranking, tied
from traube.comparison.standings import Standing
from traube.comparison.verdict import Verdict, compare
from traube.reports.explorer.board import number
from traube.reports.figures import LETTER, ORANGE, Plot, Trace, numbers
from traube.tasks.task import Split

MOST = 20  # models of a diagram
ROW, STEP, SCALE = 20, 9, 560  # pixels: of a model and of a bar; and the axis' length


def diagram(title: str, ranking: Ranking, samples: Sequence[Sample]) -> Plot | None:
    """Draw the diagram; None where models were not scored on the same splits, or one is alone."""
    names, samples, p = ranking.names[:MOST], samples[:MOST], ranking.p[:MOST, :MOST]
    if len(samples) < 2 or len({sample.splits for sample in samples}) > 1:
        return None
    ranks = mean_ranks(names, samples)
    order = np.argsort(ranks, kind="stable")
    first = np.floor(ranks.min())
    ends = [first, max(np.ceil(ranks.max()), first + 1)]
    bars, bottom = _bars(tied(p), ranks.to_numpy())
    half = (len(names) + 1) // 2
    traces, labels = list[Trace](), list[dict[str, Any]]()
    for side, models in ((0, order[:half]), (1, order[half:][::-1])):
        for row, i in enumerate(models):
            y = bottom + ROW * row
            traces.append(_line([ends[side], ranks.iloc[i], ranks.iloc[i]], [y, y, 0], "#1c1c28", 1))
            label = {"text": f"{escape(names[i])} [{ranks.iloc[i]:.2f}]", "y": y, "xref": "paper", "x": side}
            labels.append({**label, "xanchor": ("right", "left")[side], "showarrow": False})
    height, width = bottom + ROW * half, LETTER * (max(map(len, names)) + len(" [1.00] "))
    layout = {
        "xaxis": {"side": "top", "range": ends, "dtick": 1, "showgrid": False, "fixedrange": True},
        "yaxis": {"visible": False, "range": [height, 0], "fixedrange": True, "automargin": False},
        "annotations": labels,
        "showlegend": False,
        "margin": {"l": width, "r": width, "t": 30, "b": 5},
        "width": 2 * width + SCALE,
        "height": height + 35,
    }
    return Plot(title, [*traces, *bars], layout)


def _bars(sets: Sequence[Sequence[int]], at: Any) -> tuple[list[Trace], float]:
    """Bars below the axis, a dot for each of their models; and where the names may begin."""
    bars, ends = list[Trace](), list[float]()  # of each row of bars
    for places in sorted(sorted(at[one]) for one in map(list, sets)):
        row = next((row for row, last in enumerate(ends) if last < places[0]), len(ends))
        ends[row : row + 1] = [places[-1]]
        bars.append(_line(places, [STEP * (row + 1)] * len(places), ORANGE, 3, mode="lines+markers"))
    return bars, STEP * (len(ends) + 1) + 8


def _line(x: Sequence[float], y: Sequence[float], color: str, width: int, mode: str = "lines") -> Trace:
    looks = {"line": {"color": color, "width": width}, "marker": {"color": color, "size": 6}, "hoverinfo": "skip"}
    return {"type": "scatter", "mode": mode, "x": numbers(x), "y": numbers(y), **looks}


def mean_ranks(names: Sequence[str], samples: Sequence[Sample]) -> pd.Series:
    """Each model's rank, 1 the best, averaged over splits; equal scores share a rank."""
    scores = pd.DataFrame({name: sample.values[:, 0] for name, sample in zip(names, samples, strict=True)})
    return scores.rank(axis=1, ascending=False).mean()


def differences(standings: Mapping[str, Standing], splits: Sequence[Split], most: int) -> list[dict[str, Any]]:
    """Compare each pair of the best models, `most` at each level, split by split, x100.

    Returns
    -------
    list of dict
        For each pair and level what the verdict says, and every split's size, classes, difference
        and interval (None where one split does not say how much scores vary).
    """
    shapes = {(s.split, s.level): (s.size, s.classes) for s in splits}
    found = []
    for level, standing in standings.items():
        own = dict(zip(standing.ranking.names[:most], standing.samples, strict=False))
        for a, b in combinations(own, 2):
            verdict = standing.ranking.verdict(a, b)
            said = {"p": number(verdict.p, 4), "better": verdict.better, "comparisons": verdict.comparisons}
            note = verdict.undecided.value if verdict.undecided else ""
            rows = []
            for split in [name for name in own[a].splits if name in own[b].splits]:
                size, classes = shapes.get((split, level), (0, None))
                one, other = own[a].on([split]), own[b].on([split])
                apart = _numbers(compare("a", one, "b", other))
                apart["difference"] = number(100 * (one.mean - other.mean))
                rows.append({"split": split, "size": size, "classes": classes, **apart})
            found.append({"level": level, "a": a, "b": b, **_numbers(verdict), **said, "note": note, "splits": rows})
    return found


def _numbers(verdict: Verdict) -> dict[str, float | None]:
    return {name: number(100 * getattr(verdict, name)) for name in ("difference", "low", "high")}
