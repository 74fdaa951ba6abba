"""Charts as images, for pages that show no HTML: Dagster's metadata and MLflow's artifacts."""

from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd

from traube._pipeline.cluster import locate_reduction_of
from traube._reports.charts import draw_bars
from traube._reports.figures import COLORS
from traube._storage import Storage
from traube.models.vectors import open_matrix
from traube.tasks.stored import read_task

MOST_PANELS = 12  # of a picture in metadata


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
    cell = None if by_umap.empty else storage.get_cell(by_umap["cell_id"].iloc[0])
    if cell is None:
        return None
    task = read_task(storage, cell.task)
    split = max(task.test_splits(cell.split_set), key=lambda split: split.size)
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
