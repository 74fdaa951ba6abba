"""GiCCS' figure: the distribution of the scores."""

from itertools import pairwise

import numpy as np
import pandas as pd

from traube._reports.figures import grouped_bars
from traube._reports.papers.context import Context
from traube._reports.papers.spec import Drawing
from traube._reports.rendering import figures_page
from traube.papers.giccs.tables import load_stored


def scores(context: Context) -> Drawing | None:
    """Draw figure 1: how many pairs have a score in each tenth of [0, 1]; None where GiCCS is not here."""
    task = load_stored("giccs")
    if task is None:
        return None
    counts, edges = np.histogram(task.rows["score"], 10, (0, 1))
    bins = [f"{low:.1f}-{high:.1f}" for low, high in pairwise(edges)]
    table = pd.DataFrame({"score": bins, "series": "pairs", "mean": counts, "sem": 0.0})
    page = figures_page("GiCCS: pairs by their gold score", [grouped_bars("", table, "score", "series", "pairs")])
    return Drawing(page, {"pairs": len(task.rows)}, table[["score", "mean"]].rename(columns={"mean": "pairs"}))
