"""The critical-difference diagram (Demsar, 2006): mean ranks of models, with a bar over those that
cannot be told apart.

Which these are is said by our own tests, which know of texts that splits share; the usual Nemenyi
test takes splits as independent.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from traube.comparison.jackknife import Sample
from traube.comparison.ranking import Ranking, tied
from traube.report.figures import LETTER, label, svg

MOST = 20  # models of a diagram
AXIS, ROW, STEP, SCALE = 30, 20, 9, 560  # pixels: of the axis, a model, a bar, and of the axis' length
ORANGE = "#d55e00"  # stands out for colour-blind eyes too
DOT = Markup('<circle cx="{}" cy="{}" r="3" fill="{}"/>')
LINE = Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="{}"/>')


def diagram(ranking: Ranking, samples: Sequence[Sample]) -> Markup:
    """Draw the diagram as SVG; nothing where models were not scored on the same splits, or one is alone.

    Parameters
    ----------
    samples : sequence of Sample
        The scores of the ranking's models.
    """
    names, samples, p = ranking.names[:MOST], samples[:MOST], ranking.p[:MOST, :MOST]
    if len(samples) < 2 or len({sample.splits for sample in samples}) > 1:
        return Markup()
    ranks = mean_ranks(names, samples)
    order = np.argsort(ranks, kind="stable")
    left = LETTER * (max(map(len, names)) + len(" [1.00] "))
    ticks = np.arange(np.floor(ranks.min()), max(np.ceil(ranks.max()), np.floor(ranks.min()) + 1) + 1)
    at, ticks_at = (left + SCALE * (of - ticks[0]) / (ticks[-1] - ticks[0]) for of in (ranks.to_numpy(), ticks))
    bars, bottom = _bars(tied(p), at)
    marks = [_line((left, AXIS), (left + SCALE, AXIS))]
    for tick, x in zip(ticks, ticks_at, strict=True):
        marks += [_line((x, AXIS - 6), (x, AXIS)), label(x, AXIS - 10, f"{tick:.0f}", "middle")]
    half = (len(names) + 1) // 2
    for side, models, anchor in ((left, order[:half], "end"), (left + SCALE, order[half:][::-1], "start")):
        for row, i in enumerate(models):
            y = bottom + ROW * row
            marks.append(_line((side, y), (at[i], y), (at[i], AXIS)))
            said = f"{names[i]} [{ranks.iloc[i]:.2f}]"
            marks.append(label(side + (6 if anchor == "start" else -6), y + 4, said, anchor))
    return svg(2 * left + SCALE, bottom + ROW * half, [*marks, *bars])


def _bars(sets: Sequence[Sequence[int]], at: NDArray[np.float64]) -> tuple[list[Markup], float]:
    """Bars below the axis, a dot for each of their models; and where the names may begin."""
    marks, ends = [], list[float]()  # of each row of bars
    for places in sorted(sorted(at[one]) for one in map(list, sets)):
        row = next((row for row, last in enumerate(ends) if last + 8 < places[0]), len(ends))
        ends[row : row + 1] = [places[-1]]
        y = AXIS + STEP * (row + 1)
        marks += [_line(*((x, y) for x in places), colour=ORANGE, width=3)]
        marks += [DOT.format(f"{x:.1f}", y, ORANGE) for x in places]
    return marks, AXIS + STEP * (len(ends) + 1) + 8


def _line(*points: tuple[float, float], colour: str = "black", width: int = 1) -> Markup:
    return LINE.format(" ".join(f"{x:.1f},{y:.1f}" for x, y in points), colour, width)


def mean_ranks(names: Sequence[str], samples: Sequence[Sample]) -> pd.Series:
    """Each model's rank, 1 the best, averaged over splits; equal scores share a rank."""
    scores = pd.DataFrame({name: sample.values[:, 0] for name, sample in zip(names, samples, strict=True)})
    return scores.rank(axis=1, ascending=False).mean()
