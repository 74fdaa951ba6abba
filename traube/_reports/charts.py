"""Bar charts as images, for pages that show no HTML: Dagster's metadata and DVC's plots."""

from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from traube._pipeline.cluster import locate_reduction_of
from traube._reports.figures import COLORS, color_models
from traube._storage import Storage
from traube.models._vectors import open_matrix
from traube.tasks._stored import read_task

MOST_PANELS = 12  # of a picture in metadata


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
        beside = [
            (mean - 100 * rows["low"]).clip(lower=0).fillna(0),
            (100 * rows["high"] - mean).clip(lower=0).fillna(0),
        ]
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


def draw_map(storage: Storage, cells: pd.DataFrame) -> Any:
    """Draw where UMAP placed the texts of a task's largest split, colored by gold label.

    Parameters
    ----------
    cells : DataFrame
        Scored cells of one task and model, as `Storage.read_cells` gives them.

    Returns
    -------
    matplotlib.figure.Figure or None
        None where no cell reduced to two dimensions by UMAP, or the points are not kept.
    """
    by_umap = cells[(cells["reducer"] == "umap") & (cells["status"] == "done")]
    if by_umap.empty:
        return None
    cell = by_umap.iloc[0]
    task = read_task(storage, cell["task"])
    split = max(task.test_splits(cell["split_set"]), key=lambda split: split.size)
    path = locate_reduction_of(storage, cell, task.corpus["text_id"].to_numpy(dtype=object)[split.rows])
    points = None if path is None else open_matrix(path)
    if points is None or points.shape[1] != 2:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4), layout="constrained")
    axis = figure.subplots()
    names = split.labels if split.labels is not None else np.full(split.size, "")
    for place, name in enumerate(np.unique(names.astype(str))):
        of_class = points[names.astype(str) == name]
        axis.scatter(of_class[:, 0], of_class[:, 1], s=4, label=name, color=COLORS[place % len(COLORS)])
    if 1 < len(np.unique(names)) <= MOST_PANELS:
        axis.legend(fontsize=7, markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    axis.set_title(f"{task.name}, {split.split} by UMAP: {split.size:,} texts, {split.level}", fontsize=9, loc="left")
    axis.set_axis_off()
    return figure


def embed(figure: Any) -> str:
    """Return a figure as a PNG in Markdown."""
    file = BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return f"![chart](data:image/png;base64,{b64encode(file.getvalue()).decode()})"


def show_bars(best: pd.DataFrame) -> str:
    """Return `draw_bars` of twelve panels at most as a PNG in Markdown; a panel compares two models or more.

    Empty where no panel does, or without Matplotlib.
    """
    scored = best.dropna(subset="mean")
    scored = scored[scored.groupby(["task", "level"])["model"].transform("size") > 1]
    panels = scored.groupby(["task", "level"])
    if scored.empty:
        return ""
    try:
        chart = embed(draw_bars(scored[panels.ngroup() < MOST_PANELS]))
    except ImportError:
        return ""
    left_out = f"\n\n{panels.ngroups - MOST_PANELS} more are left out." if panels.ngroups > MOST_PANELS else ""
    return chart + left_out
