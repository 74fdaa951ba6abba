"""A map of groups of texts as a figure."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traube import components
from traube.components.apply import Matrix
from traube.core.errors import TraubeError, install_hint

MOST = 20_000  # texts that are drawn
FEWEST = 16  # texts that UMAP places; fewer are placed by their two principal directions
NAMED = 20  # clusters that have their name on the map, the largest


def plot_map(
    vectors: Matrix, labels: NDArray[np.int64], names: Mapping[int, str], title: str, seed: int = 42, ax: Any = None
) -> Any:
    """Draw texts where UMAP places them, colored by cluster, with the names of the clusters.

    Parameters
    ----------
    vectors : array or csr_matrix of shape (n_texts, n_dimensions)
        Of more than 20,000 texts as many are drawn, evenly spaced.
    labels : ndarray of shape (n_texts,)
        Clusters; -1 is noise, drawn gray.
    names : mapping of int to str
        Names of the clusters, the largest first.
    title : str
    seed : int, default=42
        Seed of UMAP.
    ax : matplotlib.axes.Axes, optional
        Where to draw. By default a new figure's.

    Returns
    -------
    matplotlib.axes.Axes
    """
    try:
        from matplotlib import colormaps, pyplot
    except ImportError:
        raise TraubeError(f"plot: Matplotlib is not installed: {install_hint('papers')}") from None

    rows = np.unique(np.linspace(0, vectors.shape[0] - 1, min(MOST, vectors.shape[0]), dtype=int))
    points = components.reduce("umap" if len(rows) >= FEWEST else "pca", None, vectors[rows], seed)
    points = np.pad(points, ((0, 0), (0, max(0, 2 - points.shape[1]))))
    labels = labels[rows]
    axes = pyplot.subplots(figsize=(8, 6), layout="constrained")[1] if ax is None else ax
    size = float(np.clip(12_000 / len(rows), 2, 30))
    noise = labels < 0
    axes.scatter(points[noise, 0], points[noise, 1], s=size, color="#bbbbbb", linewidths=0)
    axes.scatter(
        points[~noise, 0], points[~noise, 1], s=size, c=colormaps["tab20"](labels[~noise] % 20), linewidths=0, alpha=0.7
    )
    for cluster in list(names)[:NAMED]:
        own = points[labels == cluster]
        if len(own):
            x, y = np.median(own[:, :2], axis=0)
            box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.8, "linewidth": 0}
            name = names[cluster].replace("$", r"\$")  # which Matplotlib would read as a formula
            axes.text(x, y, name, ha="center", va="center", fontsize=8, bbox=box)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_axis_off()
    return axes
