"""Texts that fit no cluster: they are in the nearest one because they must be in some."""

import numpy as np
from numpy.typing import NDArray

from traube.components.new_points import Matrix, centres
from traube.components.spherical import Labels
from traube.models.vectors import Dense


def strays(
    vectors: Matrix, clusters: Labels, known: Matrix | None = None, of: Labels | None = None
) -> NDArray[np.bool_]:
    """Which texts are nearer to the mean of all texts than to that of their own cluster.

    Vectors are made unit; of a unit vector x this is x (c - m) < (c c - m m) / 2, where c is the mean
    of its cluster and m that of all.

    Parameters
    ----------
    vectors : [n, d], dense or csr
    clusters : int64 [n], -1 for noise
    known, of : vectors of texts whose clusters are known, and these; by default the same texts

    Returns
    -------
    bool [n]; none where there are fewer than two clusters, and none of the noise
    """
    from sklearn.preprocessing import normalize

    known, of = (vectors, clusters) if known is None or of is None else (known, of)
    found = np.zeros(len(clusters), dtype=bool)
    if len(np.unique(of[of >= 0])) < 2:
        return found
    points = normalize(known[np.flatnonzero(of >= 0)])
    ids, means = centres(points, of[of >= 0])
    middle = np.asarray(points.mean(axis=0)).ravel()
    for c, mean in zip(ids, means, strict=True):
        rows = np.flatnonzero(clusters == c)
        along = np.asarray(normalize(vectors[rows]) @ (mean - middle)) if len(rows) else np.empty(0)
        found[rows] = along < (mean @ mean - middle @ middle) / 2
    return found


def strays_by_distance(pairs: Dense, clusters: Labels, known: Labels | None = None) -> NDArray[np.bool_]:
    """Which texts are no nearer to their own cluster's texts, on average, than to all others.

    Parameters
    ----------
    pairs : float [n, m], distances to texts whose clusters are known
    clusters : int64 [n], -1 for noise
    known : int64 [m], theirs; by default those of the same texts

    Returns
    -------
    bool [n], as `strays`
    """
    known = clusters if known is None else known
    found = np.zeros(len(clusters), dtype=bool)
    for c in np.unique(known[known >= 0]):
        rows, inside = np.flatnonzero(clusters == c), known == c
        if len(rows) and not inside[known >= 0].all():
            found[rows] = pairs[rows][:, inside].mean(axis=1) >= pairs[rows][:, (known >= 0) & ~inside].mean(axis=1)
    return found
