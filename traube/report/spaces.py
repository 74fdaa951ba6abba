"""Splits as models place them: three principal components, a panel for each split and model; a page
that needs no server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from traube.report.maps import hover

COLUMN_WIDTH, ROW_HEIGHT = 480, 460


@dataclass(frozen=True)
class Space:
    """A model's view of a split.

    Attributes
    ----------
    vectors : float32 [n, d]
    labels, texts : [n]
    ari : of average-link clustering on all d dimensions
    """

    model: str
    split: str
    vectors: NDArray[np.float32]
    labels: list[str]
    texts: list[str]
    ari: float


def page(spaces: Sequence[Space], title: str) -> str:
    """An interactive page: a row a split, a column a model; coloured by label, hovering shows the
    text. All text is escaped.
    """
    import plotly.graph_objects as go
    from plotly.colors import qualitative
    from plotly.subplots import make_subplots
    from sklearn.decomposition import PCA

    if not spaces:
        return "<!doctype html><meta charset='utf-8'><p>There is nothing to show yet: evaluate a trained model.</p>"
    splits, models = list(dict.fromkeys(s.split for s in spaces)), list(dict.fromkeys(s.model for s in spaces))
    panels = {(s.split, s.model): s for s in spaces}
    titles = [
        f"{escape(split)}<br>{escape(model)}: ARI {panels[split, model].ari:.2f}" if (split, model) in panels else ""
        for split in splits
        for model in models
    ]
    figure = make_subplots(
        len(splits), len(models), specs=[[{"type": "scene"}] * len(models)] * len(splits), subplot_titles=titles
    )
    for (split, model), space in panels.items():
        points = PCA(min(3, *space.vectors.shape)).fit_transform(space.vectors)
        points = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))
        names = sorted(set(space.labels))
        colours = [qualitative.Alphabet[names.index(label) % len(qualitative.Alphabet)] for label in space.labels]
        figure.add_trace(
            go.Scatter3d(
                x=points[:, 0],
                y=points[:, 1],
                z=points[:, 2],
                mode="markers",
                marker={"size": 4, "color": colours},
                hovertext=[f"<b>{escape(a)}</b><br>{hover(t)}" for a, t in zip(space.labels, space.texts, strict=True)],
                hoverinfo="text",
                showlegend=False,
            ),
            row=splits.index(split) + 1,
            col=models.index(model) + 1,
        )
    figure.update_layout(
        title=escape(title), height=ROW_HEIGHT * len(splits) + 80, width=COLUMN_WIDTH * len(models) + 80
    )
    figure.update_scenes(xaxis_title="", yaxis_title="", zaxis_title="", camera_eye={"x": 1.6, "y": 1.6, "z": 1.1})
    return str(figure.to_html(include_plotlyjs=True, full_html=True))
