"""Maps of a split: its texts as UMAP placed them, one category highlighted; a page
that needs no server.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from textwrap import wrap

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube.benchmark.current import current_cells
from traube.benchmark.params import Protocol
from traube.engine.cluster import reduction_path
from traube.foundation.seals import Damaged
from traube.models.vectors import stored_matrix
from traube.store import Store

SHOWN_CHARACTERS, WIDTH = 300, 60  # of a text, when it is pointed at


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


def kept_maps(store: Store, protocols: Mapping[str, Protocol], name: str, protocol: str) -> list[Map]:
    """The maps of a task's largest split that are kept from its evaluation, by model."""
    card, chosen = store.card(name), protocols.get(protocol)
    if card is None or chosen is None or store.manifest(name) is None:
        return []
    task = store.task(card)
    split = max(task.test_splits(chosen.split_set), key=lambda s: s.size)
    if split.labels is None:
        return []
    cells = current_cells(store, protocols, [name])
    cells = cells[(cells["protocol"] == protocol) & (cells["reducer"] == "umap") & (cells["status"] == "done")]
    texts, ids = task.texts_at(split.rows), task.corpus["text_id"].to_numpy()[split.rows]
    maps = []
    for model, rows in cells.groupby("model"):
        cell = rows.iloc[0]
        method = chosen.method(f"umap/{cell['clusterer']}")
        path = reduction_path(
            store, cell["fingerprint"], cell["numerics"]["model"], method, int(cell["seed"] or 0), ids
        )
        with suppress(FileNotFoundError, Damaged):  # it is made again when it is needed
            maps.append(Map(str(model), name, split.split, stored_matrix(path), list(split.labels), texts))
    return maps


def page(maps: Sequence[Map], highlighted: str) -> str:
    """An interactive page; hovering shows the text. All text is escaped."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    if not maps:
        return "<!doctype html><meta charset='utf-8'><p>There is no map yet: evaluate a model by UMAP.</p>"
    figure = make_subplots(1, len(maps), subplot_titles=[escape(m.model) for m in maps])
    for column, one in enumerate(maps, start=1):
        frame = pd.DataFrame(one.points, columns=["x", "y"]).assign(label=one.labels, text=list(map(hover, one.texts)))
        for chosen, rows in frame.groupby(frame["label"] == highlighted):
            figure.add_trace(
                go.Scattergl(
                    x=rows["x"],
                    y=rows["y"],
                    mode="markers",
                    name=escape(highlighted) if chosen else "others",
                    showlegend=column == 1,
                    marker={"size": 7 if chosen else 3, "color": "#d62728" if chosen else "#b0b0b0"},
                    hovertext=[f"<b>{escape(a)}</b><br>{b}" for a, b in zip(rows["label"], rows["text"], strict=True)],
                    hoverinfo="text",
                ),
                row=1,
                col=column,
            )
    title = f"{escape(maps[0].task)}, {escape(maps[0].split)}: {len(maps[0].texts):,} texts by UMAP"
    figure.update_layout(title=title, height=520, plot_bgcolor="white")
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return str(figure.to_html(include_plotlyjs=True, full_html=True))


def hover(text: str) -> str:
    """A text's beginning in short lines, escaped."""
    short = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} ..."
    return "<br>".join(map(escape, wrap(short, WIDTH)))
