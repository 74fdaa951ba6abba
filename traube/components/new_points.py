"""Placement of new texts beside those that were clustered: a component's `place` and `assign`.

A clustering is served from its vectors, points and clusters alone, so a fitted estimator is never stored: a component
that needs one fits it again, with the same parameters and seed.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

NEIGHBORS = 15  # as in UMAP
Matrix: TypeAlias = NDArray[np.float32] | sparse.csr_matrix
Clusters: TypeAlias = NDArray[np.int64]
# Makes the component's estimator, not fitted, with its parameters and seed, and more that are given.
Build: TypeAlias = Callable[..., Any]
# (build, vectors [n, d], points [n, m], new vectors [k, d]) -> new points [k, m]
Place: TypeAlias = Callable[[Build, Matrix, Matrix, Matrix], Matrix]
# (build, points [n, m], clusters [n], new points [k, m]) -> new clusters [k]; -1 is noise
Assign: TypeAlias = Callable[[Build, Matrix, Clusters, Matrix], Clusters]


def keep_vectors(build: Build, vectors: Matrix, points: Matrix, new: Matrix) -> Matrix:
    """Return new vectors unchanged, for a reducer that changes nothing."""
    return new


def place_by_transform(build: Build, vectors: Matrix, points: Matrix, new: Matrix) -> Matrix:
    """Place new vectors by a reducer that gives the same when it is fitted again, and can place new vectors."""
    return np.asarray(build().fit(vectors).transform(new), dtype=np.float32)


def place_by_neighbors(build: Build, vectors: Matrix, points: Matrix, new: Matrix) -> NDArray[np.float32]:
    """Return the mean of the nearest neighbors' places, weighted by cosine, float32 [k, m].

    This serves any other reducer; it is UMAP's first guess.
    """
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=min(NEIGHBORS, vectors.shape[0]), metric="cosine", algorithm="brute")
    distances, rows = index.fit(vectors).kneighbors(new)
    weights = np.maximum(1 - distances, 1e-6)
    weights[distances < 1e-6] = 1e6  # a text of the clustering itself stays where it is
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("nk,nkm->nm", weights, np.asarray(points)[rows]).astype(np.float32)


def compute_centers(points: Matrix, clusters: Clusters) -> tuple[Clusters, NDArray[np.float64]]:
    """Return the clusters without noise, int64 [k], ascending; and the means of their points, [k, m]."""
    ids = np.unique(clusters[clusters >= 0])
    means = [np.asarray(points[clusters == c].mean(axis=0)).ravel() for c in ids]
    return ids, np.stack(means) if means else np.empty((0, points.shape[1]))


def find_nearest_on_average(distances: NDArray[Any], clusters: Clusters) -> tuple[Clusters, NDArray[np.float64]]:
    """Return the cluster whose members are nearest to each new item, as average linkage joins clusters.

    Parameters
    ----------
    distances : array
        Distances [k, n] of new items to those that were clustered.
    clusters : array of int
        Clusters [n] of the clustered items.

    Returns
    -------
    clusters : int64 [k]
        -1 where there are none but noise.
    means : float64 [k], the distance to the cluster's members
        Nan for noise.
    """
    ids = np.unique(clusters[clusters >= 0])
    if not len(ids):
        return np.full(len(distances), -1, dtype=np.int64), np.full(len(distances), np.nan)
    means = np.stack([distances[:, clusters == c].mean(axis=1, dtype=np.float64) for c in ids], axis=1)
    return ids[means.argmin(axis=1)].astype(np.int64), means.min(axis=1)


def find_nearest(points: NDArray[Any] | Matrix, means: NDArray[Any]) -> Clusters:
    """Return which of the means is nearest to each point, int64 [n]; -1 where there are none."""
    from sklearn.metrics import pairwise_distances_argmin

    if not len(means):
        return np.full(points.shape[0], -1, dtype=np.int64)
    return np.asarray(pairwise_distances_argmin(points, means), dtype=np.int64)


def assign_to_nearest_center(build: Build, points: Matrix, clusters: Clusters, new: Matrix) -> Clusters:
    """Return the cluster whose mean is nearest, for any clusterer; noise where there are no clusters."""
    ids, means = compute_centers(points, clusters)
    rows = find_nearest(new, means)
    return ids[rows].astype(np.int64) if len(ids) else rows
