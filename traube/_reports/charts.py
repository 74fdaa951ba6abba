"""Charts of scores as images."""

from typing import Any

import numpy as np
import pandas as pd

from traube._reports.figures import color_models


def draw_bars(best: pd.DataFrame) -> Any:
    """Draw each model's best score, with its interval, in a panel for each task and level.

    Parameters
    ----------
    best : DataFrame
        At least one row of a leaderboard, of one protocol: `task`, `level`, `model`, `mean`, `low`, `high`.

    Returns
    -------
    matplotlib.figure.Figure
        A panel of bars for each task and level.

    Examples
    --------
    >>> import pandas as pd
    >>> from traube.plotting import draw_bars
    >>> rows = [("posts", "topic", "minilm", 0.4, 0.3, 0.5), ("posts", "topic", "tfidf", 0.2, 0.1, 0.3)]
    >>> best = pd.DataFrame(rows, columns=["task", "level", "model", "mean", "low", "high"])
    >>> [axes.get_title(loc="left") for axes in draw_bars(best).axes]
    ['posts, topic']
    """
    from matplotlib.figure import Figure

    panels, colors = list(best.groupby(["task", "level"])), color_models(best["model"])
    heights = [len(rows) for _, rows in panels]
    figure = Figure(figsize=(6, 0.6 * len(panels) + 0.25 * sum(heights)))
    axes = figure.subplots(
        len(panels), squeeze=False, sharex=True, gridspec_kw={"height_ratios": heights, "hspace": 0.6}
    )[:, 0]
    for axis, ((task, level), rows) in zip(axes, panels, strict=True):
        rows = rows.sort_values("mean")
        mean = 100 * rows["mean"]
        # an array: of a list of Series matplotlib takes the first value as a number, which pandas is about to refuse
        beside = np.array(
            [(mean - 100 * rows["low"]).clip(lower=0).fillna(0), (100 * rows["high"] - mean).clip(lower=0).fillna(0)]
        )
        axis.barh(
            rows["model"],
            mean,
            xerr=beside,
            color=[colors[model] for model in rows["model"]],
            ecolor="#555555",
            capsize=2,
        )
        axis.set_title(f"{task}, {level}", fontsize=9, loc="left")
        axis.tick_params(labelsize=8)
    return figure


def draw_heatmaps(rows: pd.DataFrame) -> Any:
    """Draw a model's scores by reducer and clusterer, in a panel for each level.

    Parameters
    ----------
    rows : DataFrame
        At least one scored row of a leaderboard, of one task and model: `level`, `method`, `mean`.

    Returns
    -------
    matplotlib.figure.Figure
        A panel for each level.

    Examples
    --------
    >>> import pandas as pd
    >>> from traube.plotting import draw_heatmaps
    >>> rows = [("topic", "none/kmeans", 0.4), ("topic", "umap/hdbscan", 0.5)]
    >>> figure = draw_heatmaps(pd.DataFrame(rows, columns=["level", "method", "mean"]))
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['none', 'umap']
    """
    from matplotlib.figure import Figure

    reducers_clusterers = rows["method"].str.split("/", expand=True)
    parted = rows.assign(reducer=reducers_clusterers[0], clusterer=reducers_clusterers[1])
    tables = {
        level: 100 * of_level.pivot_table(index="clusterer", columns="reducer", values="mean")
        for level, of_level in parted.groupby("level")
    }
    figure = Figure(figsize=(6, sum(1.2 + 0.3 * len(table) for table in tables.values())), layout="constrained")
    axes = figure.subplots(len(tables), squeeze=False)[:, 0]
    for axis, (level, table) in zip(axes, tables.items(), strict=True):
        axis.imshow(table, cmap="Blues", aspect="auto")
        axis.set_xticks(range(table.shape[1]), table.columns)
        axis.set_yticks(range(table.shape[0]), table.index)
        axis.set_title(str(level), fontsize=9, loc="left")
        axis.tick_params(labelsize=8)
        for (row, column), value in np.ndenumerate(table.to_numpy()):
            if np.isfinite(value):
                is_dark = value > (np.nanmin(table) + np.nanmax(table)) / 2
                color = "white" if is_dark else "black"
                axis.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=8, color=color)
    return figure
