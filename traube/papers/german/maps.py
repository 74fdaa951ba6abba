"""Maps of a split: its texts as UMAP placed them, one category highlighted; a page
that needs no server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traube.models.vectors import open_matrix
from traube.pipeline.cluster import locate_reduction
from traube.pipeline.current import current_cells
from traube.pipeline.params import Protocol
from traube.reports.figures import text_map, tip
from traube.reports.rendering import figures_page
from traube.storage import Storage
from traube.tasks.stored import get_manifest, read_task

OTHERS = "others"


@dataclass(frozen=True)
class Map:
    """A model's view of a split.

    Attributes
    ----------
    points : float32 [n, 2]
    labels, texts : [n]
    """

    model: str
    task: str
    split: str
    points: NDArray[np.float32]
    labels: list[str]
    texts: list[str]


def kept_maps(storage: Storage, protocols: Mapping[str, Protocol], name: str, protocol: str) -> list[Map]:
    """The maps of a task's largest split that are kept from its evaluation, by model."""
    chosen = protocols.get(protocol)
    if chosen is None or get_manifest(storage, name) is None:
        return []
    task = read_task(storage, name)
    split = max(task.test_splits(chosen.split_set), key=lambda s: s.size)
    if split.labels is None:
        return []
    cells = current_cells(storage, protocols, [name])
    cells = cells[(cells["protocol"] == protocol) & (cells["reducer"] == "umap") & (cells["status"] == "done")]
    texts, ids = task.texts_at(split.rows), task.corpus["text_id"].to_numpy()[split.rows]
    maps = []
    for model, rows in cells.groupby("model"):
        cell = rows.iloc[0]
        method = chosen.method(f"umap/{cell['clusterer']}")
        numerics, seed = cell["numerics"]["model"], int(cell["seed"] or 0)
        if path := locate_reduction(storage, cell["fingerprint"], numerics, method, seed, ids):
            maps.append(Map(str(model), name, split.split, open_matrix(path), list(split.labels), texts))
    return maps


def maps_page(maps: Sequence[Map], highlighted: str) -> str:
    """Return a page with a figure for each model; pointing at a text shows it."""
    if not maps:
        return figures_page("No map yet", [], ["There is no map yet: evaluate a model by UMAP."])
    plots = []
    for one in maps:
        found = np.array([label == highlighted for label in one.labels])
        groups = {highlighted: np.flatnonzero(found), OTHERS: np.flatnonzero(~found)}
        plots.append(text_map(one.model, one.points, list(map(tip, one.labels, one.texts)), groups, OTHERS, height=520))
    return figures_page(f"{maps[0].task}, {maps[0].split}: {len(maps[0].texts):,} texts by UMAP", plots)
