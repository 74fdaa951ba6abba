"""Pictures small enough for a line of metadata: Dagster's pages show images, but no HTML."""

from base64 import b64encode
from io import BytesIO

import pandas as pd

MOST_PANELS = 12


def draw_bars(best: pd.DataFrame) -> str:
    """Draw each model's best score, with its interval, on each task and level: the first twelve of them.

    Parameters
    ----------
    best : DataFrame
        Rows of a leaderboard, of one protocol: `task`, `level`, `model`, `mean`, `low`, `high`.

    Returns
    -------
    str
        A PNG in Markdown, and how many are left out; empty where nothing is scored, or Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    every = list(best.dropna(subset="mean").groupby(["task", "level"]))
    panels = every[:MOST_PANELS]
    if not panels:
        return ""
    heights = [len(rows) for _, rows in panels]
    figure = Figure(figsize=(6, 0.6 * len(panels) + 0.25 * sum(heights)))
    axes = figure.subplots(
        len(panels), squeeze=False, sharex=True, gridspec_kw={"height_ratios": heights, "hspace": 0.6}
    )[:, 0]
    for axis, ((task, level), rows) in zip(axes, panels, strict=True):
        rows = rows.sort_values("mean")
        mean = 100 * rows["mean"]
        beside = [
            (mean - 100 * rows["low"]).clip(lower=0).fillna(0),
            (100 * rows["high"] - mean).clip(lower=0).fillna(0),
        ]
        axis.barh(rows["model"], mean, xerr=beside, color="#4c72b0", ecolor="#555555", capsize=2)
        axis.set_title(f"{task}, {level}", fontsize=9, loc="left")
        axis.tick_params(labelsize=8)
    file = BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    left_out = f"\n\n{len(every) - len(panels)} more are left out." if len(every) > len(panels) else ""
    return f"![scores by model](data:image/png;base64,{b64encode(file.getvalue()).decode()}){left_out}"
