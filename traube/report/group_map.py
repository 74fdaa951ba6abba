"""A map of groups of texts: a page that needs no server."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from traube import methods
from traube.methods.apply import Matrix
from traube.report.maps import hover

MOST = 5_000  # texts that are shown
FEWEST = 16  # texts that UMAP places; fewer are placed by their two principal directions
# Okabe and Ito's colours, which eyes that see fewer tell apart too; then the same in other shapes
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
SHAPES = ("circle", "square", "diamond", "cross", "triangle-up")


def group_map(
    texts: Sequence[str],
    vectors: Matrix,
    groups: NDArray[np.int64],
    names: Mapping[int, str],
    title: str,
    seed: int = 42,
) -> str:
    """A page with a point for each text as UMAP places them, in its group's colour and shape; of many
    texts some, evenly spaced, which the title says. Pointing at one shows its text. All text is
    escaped.

    Parameters
    ----------
    vectors : [n, d], dense or csr
    groups : int64 [n], -1 for noise
    names : of the groups
    """
    import plotly.graph_objects as go

    rows = np.unique(np.linspace(0, len(texts) - 1, min(MOST, len(texts)), dtype=int))
    points = methods.reduce("umap" if len(rows) >= FEWEST else "pca", None, vectors[rows], seed)
    if points.shape[1] < 2:
        points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    figure = go.Figure()
    ids, counts = np.unique(groups[rows], return_counts=True)
    for place, group in enumerate(ids[np.lexsort((-counts, ids < 0))].tolist()):
        own = np.flatnonzero(groups[rows] == group)
        name = f"{group}: {names.get(group, '')}" if group >= 0 else "in no group"
        marker = {
            "size": 6,
            "color": COLOURS[place % len(COLOURS)],
            "symbol": SHAPES[place // len(COLOURS) % len(SHAPES)],
        }
        figure.add_trace(
            go.Scattergl(
                x=points[own, 0],
                y=points[own, 1],
                mode="markers",
                name=escape(name),
                marker=marker if group >= 0 else {"size": 3, "color": "#b0b0b0"},
                hovertext=[f"<b>{escape(name)}</b><br>{hover(texts[rows[i]])}" for i in own],
                hoverinfo="text",
            )
        )
    shown = f"{len(rows):,} of {len(texts):,} texts" if len(rows) < len(texts) else f"{len(texts):,} texts"
    figure.update_layout(title=f"{escape(title)}: {shown}", height=720, plot_bgcolor="white")
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return str(figure.to_html(include_plotlyjs=True, full_html=True))
