"""Figure 4: what texts became under each method, placed by t-SNE; a page where pointing at a text
shows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube.core.errors import TraubeError
from traube.models.vectors import locate_matrix, open_matrix, store_matrix
from traube.papers.aecl.tables import FROZEN, NAMES, ON_ENCODER, PROTOCOL, TASKS
from traube.papers.context import Context
from traube.papers.spec import Drawing
from traube.pipeline.cluster import REPRESENTATIONS
from traube.pipeline.units import pictured
from traube.tasks.task import Split, Task

PLACES = "places"  # kind of the artifact: where texts are in a figure
SHOWN = ("none/kmeans", "none/sccl", "none/rstc", "none/aecl")  # as the paper has them
PREFERRED = ("stackoverflow", *TASKS)  # the paper shows the first
PERPLEXITY = 30.0


@dataclass(frozen=True)
class Panel:
    """A method's picture: places, float32 [n, 2]."""

    title: str
    places: NDArray[np.float32]


def beside_each_other(context: Context) -> Drawing | None:
    """Figure 4 of the first set on which an AECL was trained of which it is kept what texts became;
    None without one.
    """
    for name in PREFERRED:
        for protocol in (PROTOCOL, FROZEN):
            task, cells = context.task(name), context.cells([name], protocol)
            kept = cells[np.array([_kept(context, cell) for cell in cells.itertuples()], dtype=bool)].sort_values(
                "seed"
            )
            trained = kept[kept["method"] == "none/aecl"]
            if task is None or trained.empty:
                continue
            kept = kept[kept["model"] == trained["model"].iloc[0]].drop_duplicates("method").set_index("method")
            panels = list(_panels(context, task, kept, protocol == FROZEN))
            split = _largest(task)
            return _drawing(task, split, pictured(split.size), panels)
    return None


def _kept(context: Context, cell: Any) -> bool:
    """Whether a picture can be made of a cell: of k-means', the encoder's vectors are."""
    return cell.method == "none/kmeans" or _became(context, cell.cell_id) is not None


def _became(context: Context, cell_id: str) -> Path | None:
    """Return the file of what a training made of some texts; None if it is not kept."""
    return locate_matrix(context.storage, REPRESENTATIONS, cell_id)


def _largest(task: Task) -> Split:
    splits = list(task.test_splits())
    return splits[min(range(len(splits)), key=lambda i: -splits[i].size)]


def _panels(context: Context, task: Task, cells: pd.DataFrame, frozen: bool) -> Iterator[Panel]:
    """A picture of each method.

    Parameters
    ----------
    cells : one a method, which is the index
    """
    for method in SHOWN:
        if method not in cells.index:
            continue
        cell = cells.loc[method]
        places = _places(context, task, cell)
        if places is not None:
            name = NAMES[method]
            yield Panel(f"{name}, frozen encoder" if frozen and name in ON_ENCODER else name, places)


def _places(context: Context, task: Task, cell: pd.Series) -> NDArray[np.float32] | None:
    """Where t-SNE puts the texts: computed once for a cell."""
    storage, key = context.storage, cell["cell_id"]
    if kept := locate_matrix(storage, PLACES, key):
        return np.asarray(open_matrix(kept))
    points = _points(context, task, cell)
    if points is None:
        return None
    places = placed(points)
    store_matrix(storage, PLACES, key, places)
    return places


def _points(context: Context, task: Task, cell: pd.Series) -> NDArray[np.float32] | None:
    """What the texts have become; for k-means, the encoder's vectors. None where they are not kept."""
    try:
        if cell.name == "none/kmeans":
            model = context.model(cell["model"], context.protocols[cell["protocol"]].precision)
            split = _largest(task)
            rows = split.rows[pictured(split.size)]
            return np.asarray(context.vectors(task, model).subset(rows).load(), dtype=np.float32)
        path = _became(context, cell["cell_id"])
        if path is None:
            raise TraubeError("its representations are not kept")
        return np.asarray(open_matrix(path), dtype=np.float32)
    except (FileNotFoundError, TraubeError) as error:
        context.warn(f"{task.name}: no picture of {cell.name}: {error}")
        return None


def placed(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points, [n, d], in the plane by t-SNE on cosine distances, float32 [n, 2] within 0 and 1."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if len(points) < 3:
        return np.zeros((len(points), 2), dtype=np.float32)
    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    with threadpool_limits(1):
        found = TSNE(perplexity=perplexity, metric="cosine", init="random", random_state=0).fit_transform(points)
    low, high = found.min(axis=0), found.max(axis=0)
    return np.asarray((found - low) / np.maximum(high - low, 1e-12), dtype=np.float32)


def _drawing(task: Task, split: Split, rows: NDArray[np.int64], panels: list[Panel]) -> Drawing:
    from traube.reports.figures import by_label, text_map, tip
    from traube.reports.rendering import figures_page

    labels = [""] * len(rows) if split.labels is None else [str(label) for label in np.asarray(split.labels)[rows]]
    tips, groups = list(map(tip, labels, task.texts_at(split.rows[rows]))), by_label(labels)
    title = f"{task.name}: {len(rows):,} texts by t-SNE, colored by their gold category"
    page = figures_page(title, [text_map(panel.title, panel.places, tips, groups) for panel in panels])
    return Drawing(page, {"panels": ", ".join(panel.title for panel in panels), "texts": len(rows)})
