"""A map of groups of texts as a figure."""

from typing import Any

import numpy as np

from traube._reports.cluster_report import MapLayer
from traube._reports.placing import color_groups, place_texts
from traube.components.new_points import Matrix

NAMED = 20  # clusters that have their name on the map, the largest


def plot_map(vectors: Matrix, layer: MapLayer, title: str, seed: int = 42, ax: Any = None) -> Any:
    """Draw texts where UMAP places them, colored by cluster, with the names of the clusters.

    Parameters
    ----------
    vectors : array or csr_matrix of shape (n_texts, n_dimensions)
        The embeddings.
    layer : MapLayer
        Their clusters; -1 is noise, drawn gray.
    title : str
        The plot's title.
    seed : int, default=42
        Seed of UMAP.
    ax : matplotlib.axes.Axes, optional
        Where to draw. By default a new figure's.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the map.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.plotting import MapLayer, plot_map
    >>> layer = MapLayer(np.array([0, 0, 1, 1]), {0: "bread", 1: "ships"}, {0: ["loaf"], 1: ["crew"]}, {0: [0], 1: [2]})
    >>> plot_map(np.eye(4, dtype=np.float32), layer, "Four texts").get_title(loc="left")
    'Four texts'
    """
    from matplotlib import pyplot

    points = place_texts(vectors, seed)
    colors = color_groups(points, layer.labels)
    axes = pyplot.subplots(figsize=(8, 6), layout="constrained")[1] if ax is None else ax
    size = float(np.clip(12_000 / len(points), 2, 30))
    shades = [colors.get(cluster, "#bbbbbb") for cluster in layer.labels.tolist()]
    axes.scatter(points[:, 0], points[:, 1], s=size, c=shades, linewidths=0, alpha=0.7)
    clusters, sizes = np.unique(layer.labels[layer.labels >= 0], return_counts=True)
    for cluster in clusters[np.argsort(-sizes, kind="stable")][:NAMED].tolist():
        x, y = np.median(points[layer.labels == cluster], axis=0)
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.8, "linewidth": 0}
        name = layer.names.get(cluster, "").replace("$", r"\$")  # which Matplotlib would read as a formula
        axes.text(x, y, name, ha="center", va="center", fontsize=8, bbox=box)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_axis_off()
    return axes
