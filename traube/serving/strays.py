"""Texts that fit no cluster: they are in the nearest one because they must be in some.

A text is a stray if it is no nearer to its cluster than one in twenty of the other clusters' texts is.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube.models.base import Dense

Matrix: TypeAlias = Dense | sparse.csr_matrix
Labels: TypeAlias = NDArray[np.int64]

FOREIGN = 0.05  # share of the other clusters' texts that may be as near
LOOKED_AT = 2_000  # texts that the others are judged by


def strays(
    vectors: Matrix, clusters: Labels, known: Matrix | None = None, of: Labels | None = None
) -> NDArray[np.bool_]:
    """Which texts fit no cluster, by the cosine to the cluster's mean, about the mean of all.

    Parameters
    ----------
    vectors : [n, d], dense or csr
    clusters : int64 [n], -1 for noise
    known, of : vectors of texts whose clusters are known, and these; by default the same texts

    Returns
    -------
    bool [n]; none where there are fewer than two clusters, and none of the noise
    """
    known, of = (vectors, clusters) if known is None or of is None else (known, of)
    ids, numbers = np.unique(of[of >= 0], return_inverse=True)
    if len(ids) < 2:
        return np.zeros(len(clusters), dtype=bool)
    inside = np.flatnonzero(of >= 0)
    points = _unit(known[inside])
    middle = np.asarray(points.mean(axis=0)).ravel()
    member = sparse.csr_matrix((np.ones(len(inside)), (numbers, np.arange(len(inside)))))
    means = member @ points
    means = means.toarray() if sparse.issparse(means) else np.asarray(means)
    towards = _unit(means / np.bincount(numbers)[:, None] - middle)
    few = np.linspace(0, len(inside) - 1, min(LOOKED_AT, len(inside)), dtype=int)
    bounds = _bounds(_cosines(points[few], towards, middle), numbers[few])
    found = np.zeros(len(clusters), dtype=bool)
    rows = np.flatnonzero(clusters >= 0)
    own = np.searchsorted(ids, clusters[rows])
    for i in range(len(ids)):
        members = rows[own == i]
        found[members] = _cosines(_unit(vectors[members]), towards[[i]], middle)[:, 0] < bounds[i]
    return found


def strays_by_distance(pairs: Dense, clusters: Labels, known: Labels | None = None) -> NDArray[np.bool_]:
    """Which texts fit no cluster, by the mean distance to the cluster's texts.

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
    ids = np.unique(known[known >= 0])
    found = np.zeros(len(clusters), dtype=bool)
    if len(ids) < 2:
        return found
    for c in ids:
        means, own = pairs[:, known == c].mean(axis=1), clusters == c
        others = means[~own & (clusters >= 0)]
        if len(others):
            found |= own & (means > np.quantile(others, FOREIGN))
    return found


def _bounds(cosines: Dense, numbers: Labels) -> NDArray[np.float64]:
    """For each cluster, what one in twenty of the other clusters' texts exceeds."""
    others = [cosines[numbers != c, c] for c in range(cosines.shape[1])]
    return np.array([np.quantile(values, 1 - FOREIGN) if len(values) else -1.0 for values in others])


def _cosines(points: Matrix, towards: Dense, middle: NDArray[np.float64]) -> Dense:
    """About the mean, which is not taken from sparse vectors: they would be dense; [n, k]."""
    return (np.asarray(points @ towards.T) - towards @ middle) / _lengths(points, middle)[:, None]


def _lengths(points: Matrix, middle: NDArray[np.float64]) -> NDArray[np.float64]:
    squares = points.multiply(points) if sparse.issparse(points) else points**2
    about = np.asarray(squares.sum(axis=1)).ravel() - 2 * np.asarray(points @ middle).ravel() + middle @ middle
    return np.sqrt(np.maximum(about, 1e-12))


def _unit(vectors: Matrix) -> Matrix:
    from sklearn.preprocessing import normalize

    return normalize(vectors)
