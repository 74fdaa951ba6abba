"""Positions of texts on a map, and colors of their groups."""

import warnings
from colorsys import hls_to_rgb

import numpy as np
from numpy.typing import NDArray

from traube import components
from traube.components._new_points import Matrix

FEWEST = 16  # texts that UMAP places; fewer are placed by their two principal components
EPOCHS = 200  # of the layout: 500 take twice the time for a trustworthiness that is .004 higher
FITTED = 20_000  # texts that UMAP places by itself: its time grows faster than their number
NEIGHBORS = 5
LIGHTNESS, SATURATION = (0.36, 0.5, 0.62), 0.6  # of colors; groups in like directions differ in lightness


def place_texts(vectors: Matrix, random_state: int = 42) -> NDArray[np.float32]:
    """Return a point for each text, by UMAP.

    Of more than 20,000 texts as many, evenly spaced, are placed by UMAP, and each other one at the mean of its five
    nearest among these.

    Parameters
    ----------
    vectors : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        The embeddings.
    random_state : int, default=42
        The seed of UMAP.

    Returns
    -------
    ndarray of shape (n_texts, 2)
        The points, float32.
    """
    from threadpoolctl import threadpool_limits

    from traube.components._estimators.layout import lay_out

    count = vectors.shape[0]
    fitted = np.unique(np.linspace(0, count - 1, min(count, FITTED), dtype=int))
    # sums depend on the number of threads in their last digit, and the layout on that
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of equal texts, which UMAP places at random first
        if len(fitted) >= FEWEST:
            points = lay_out(vectors[fitted], EPOCHS, random_state)
        else:
            points = components.reduce("pca", None, vectors[fitted], random_state)
    placed = np.zeros((count, 2), dtype=np.float32)
    placed[fitted, : points.shape[1]] = points[:, :2]
    if len(fitted) < count:
        others = np.setdiff1d(np.arange(count), fitted)
        placed[others] = placed[fitted][_nearest(vectors[fitted], vectors[others])].mean(axis=1)
    if np.ptp(placed, axis=0).max() == 0:  # one text, or equal ones
        placed[:, 0] = np.arange(count)
    return placed


def import_layout() -> None:
    """Import what `place_texts` needs."""
    from sklearn import neighbors  # noqa: F401

    from traube.components._estimators import reducers
    from traube.components._estimators.layout import lay_out  # noqa: F401

    reducers.load_umap()


def color_groups(points: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[int, str]:
    """Return the color of each group: its hue is the direction in which it lies from the middle of the map.

    So neighbors, and a group and those that it consists of, are alike.

    Parameters
    ----------
    points : ndarray of shape (n_texts, 2)
        Where the texts are placed.
    labels : ndarray of int of shape (n_texts,)
        Their groups; -1 is none.

    Returns
    -------
    dict of int to str
        As "#rrggbb".
    """
    groups = np.unique(labels[labels >= 0])
    centers = np.array([np.median(points[labels == group], axis=0) for group in groups]).reshape(-1, 2)
    x, y = (centers - points.mean(axis=0)).T
    hues = np.arctan2(y, x) / (2 * np.pi) % 1
    colors = {}
    for place, i in enumerate(np.argsort(hues, kind="stable")):
        shares = hls_to_rgb(hues[i], LIGHTNESS[place % len(LIGHTNESS)], SATURATION)
        colors[int(groups[i])] = "#" + "".join(f"{round(255 * share):02x}" for share in shares)
    return colors


def _nearest(known: Matrix, new: Matrix) -> NDArray[np.int64]:
    """Return positions of the nearest known vectors, int64 [n_new, NEIGHBORS]."""
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    neighbors = NearestNeighbors(n_neighbors=NEIGHBORS, algorithm="brute").fit(normalize(known))
    return np.asarray(neighbors.kneighbors(normalize(new), return_distance=False))
