"""Splits as models place them: three principal components, a panel for each split and model; a page
that needs no server.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traube.reports.figures import by_label, text_map, tip
from traube.reports.rendering import figures_page


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


def spaces_page(spaces: Sequence[Space], title: str) -> str:
    """Return a page with a figure for each split and model, colored by label; pointing at a text shows it."""
    from sklearn.decomposition import PCA

    if not spaces:
        return figures_page(title, [], ["There is nothing to show yet: evaluate a trained model."])
    plots = []
    for space in sorted(spaces, key=lambda space: [other.split for other in spaces].index(space.split)):
        points = PCA(min(3, *space.vectors.shape)).fit_transform(space.vectors)
        points = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))
        tips, name = list(map(tip, space.labels, space.texts)), f"{space.split}, {space.model}: ARI {space.ari:.2f}"
        plots.append(text_map(name, points, tips, by_label(space.labels), height=460))
    return figures_page(title, plots)
