"""Spherical k-means: of unit vectors, by their cosine (Dhillon & Modha 2001)."""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]
NARROW = 16  # clusters
MICRO_ITERATIONS = 4


def unit(X: Array) -> Array:
    """Return rows scaled to length 1; zeros stay zeros."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0, norms, 1), dtype=np.float32)


def renumber(labels: Any) -> Labels:
    """Return the same clusters from 0 without gaps, in the order of their labels, int64 [n]."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def draw_starts(X: Array, k: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw rows to begin with, int64 [k], by k-means++ (Arthur & Vassilvitskii 2007).

    Each is drawn in proportion to its squared distance from those before. The first few of them are such rows too.
    """
    chosen = np.empty(k, dtype=np.int64)
    chosen[0] = random.integers(len(X))
    distance = np.full(len(X), np.inf)
    for i in range(1, k):
        distance = np.minimum(distance, np.maximum(1 - X @ X[chosen[i - 1]], 0))
        sums = np.cumsum(distance)
        # rows that are all the same are 0 apart: any of them will do
        drawn = np.searchsorted(sums, random.random() * sums[-1], side="right") if sums[-1] > 0 else i
        chosen[i] = min(drawn, len(X) - 1)
    return chosen


def run_lloyd(X: Array, centers: Array, iterations: int) -> tuple[Labels, float]:
    """Run Lloyd's algorithm from given centers.

    Parameters
    ----------
    X : array
        Rows of length 1, float32 [n, d].
    centers : array
        Rows of length 1, float32 [k, d]. One that loses its last row stays where it is.

    Returns
    -------
    labels : ndarray of shape (n,)
        Nearest center of each row, int64.
    fit : float
        Sum of the rows' cosines to their centers.
    """
    labels, rows, k = (X @ centers.T).argmax(axis=1), np.arange(len(X)), len(centers)
    for _ in range(iterations):
        # making a sparse matrix takes longer than a product with a narrow dense one
        if k <= NARROW:
            member = np.zeros((k, len(X)), dtype=np.float32)
            member[labels, rows] = 1
            sums = np.asarray(member @ X)
        else:
            sums = sum_clusters(X, labels, k=k)
        empty = ~sums.any(axis=1)
        sums[empty] = centers[empty]
        centers = unit(sums)

        cosines = X @ centers.T
        before, labels = labels, cosines.argmax(axis=1)
        if np.array_equal(before, labels):
            break
    return labels, float(np.take_along_axis(cosines, labels[:, None], axis=1).sum(dtype=np.float64))


def cluster_spherical(X: Array, k: int, starts: int, iterations: int, random: np.random.Generator) -> Labels:
    """Return the labels with the best fit of several starts, int64 [n]."""
    runs = (run_lloyd(X, X[draw_starts(X, k, random)], iterations) for _ in range(starts))
    return max(runs, key=itemgetter(1))[0]


def sum_clusters(X: Array, labels: Labels, weights: Array | None = None, k: int | None = None) -> Array:
    """Return the weighted sum of the rows of each of k clusters, by default of those that there are, float32 [k, d]."""
    ones = np.ones(len(X), dtype=np.float32) if weights is None else weights
    shape = len(X), int(labels.max()) + 1 if k is None else k
    return np.asarray(sparse.csr_matrix((ones, labels, np.arange(len(X) + 1)), shape=shape).T @ X)


def find_micro_clusters(X: Array, most: int, random: np.random.Generator) -> Labels:
    """Return labels of at most so many small clusters, from 0 without gaps; of fewer rows each is one."""
    if len(X) <= most:
        return np.arange(len(X))
    labels, _ = run_lloyd(X, X[random.choice(len(X), most, replace=False)], MICRO_ITERATIONS)
    return renumber(labels)


def cluster_samples(
    X: Array, weights: Array, ks: Sequence[int], starts: int, iterations: int, random: np.random.Generator
) -> Iterator[tuple[int, Array]]:
    """Cluster several samples of weighted points at once.

    Parameters
    ----------
    X : ndarray of shape (n_samples, m, d)
        Rows of length 1, float32.
    weights : ndarray of shape (n_samples, m)
        Weights of the points, float32.
    ks : sequence of int
        Numbers of clusters, each in turn.
    starts : int
        Number of starts by k-means++; the best fit is kept. A start of fewer clusters is the beginning of one of
        more.

    Yields
    ------
    k : int
        Number of clusters.
    centers : ndarray of shape (n_samples, k, d)
        Rows of length 1, float32. Of fewer points than clusters, the first stands for those that there are not.
    """
    samples, m, _ = X.shape
    which = np.arange(samples)[:, None]
    columns = np.ascontiguousarray(X.transpose(0, 2, 1))  # products of few rows by these take half the time
    weighted = (columns * weights[:, None, :]).transpose(0, 2, 1)
    begin = [_draw_starts_of_samples(X, weights, min(max(ks, default=1), m), random) for _ in range(starts)]
    for k in ks:
        runs = [_lloyd_of_samples(columns, weighted, X[which, rows[:, :k]], iterations) for rows in begin]
        best = runs[0]
        if starts > 1:
            fits = [(np.matmul(X, centers.transpose(0, 2, 1)).max(axis=2) * weights).sum(axis=1) for centers in runs]
            best = np.stack(runs)[np.argmax(fits, axis=0), np.arange(samples)]
        yield k, np.concatenate([best, np.repeat(best[:, :1], k - best.shape[1], axis=1)], axis=1)


def _lloyd_of_samples(columns: Array, weighted: Array, centers: Array, iterations: int) -> Array:
    """Move the centers of each sample, float32 [samples, k, d], to the means of their points [samples, d, m]."""
    member = np.zeros(0, dtype=bool)
    for _ in range(iterations):
        cosines = np.matmul(centers, columns)
        # a point as near to two centers counts in both; an empty micro cluster in all, with weight 0
        before, member = member, cosines == cosines.max(axis=1, keepdims=True)
        if np.array_equal(before, member):
            break
        sums = np.matmul(member.astype(np.float32), weighted)
        empty = ~sums.any(axis=2)
        sums[empty] = centers[empty]
        norms = np.linalg.norm(sums, axis=2, keepdims=True)
        centers = sums / np.where(norms > 0, norms, 1)
    return centers


def _draw_starts_of_samples(X: Array, weights: Array, k: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return rows to begin with for each of several samples, int64 [samples, k], as `draw_starts` draws them."""
    samples, m, _ = X.shape
    which, chosen = np.arange(samples), np.empty((samples, k), dtype=np.int64)
    distance = np.ones((samples, m), dtype=np.float32)
    for i in range(k):
        if i:
            last = X[which, chosen[:, i - 1]][:, :, None]
            nearer = np.maximum(1 - np.matmul(X, last)[:, :, 0], 0)
            distance = nearer if i == 1 else np.minimum(distance, nearer)
        cumulated = np.cumsum(distance * weights, axis=1)
        drawn = (cumulated <= random.random((samples, 1)) * cumulated[:, -1:]).sum(axis=1)
        chosen[:, i] = np.minimum(drawn, m - 1)
    return chosen
