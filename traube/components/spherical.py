"""Spherical k-means: of unit vectors, by their cosine (Dhillon & Modha 2001)."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]
NARROW = 16  # clusters


def unit(X: Array) -> Array:
    """Rows of length 1; zeros stay zeros."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0, norms, 1), dtype=np.float32)


def spread_out(X: Array, k: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Rows to begin with, int64 [k], by k-means++ (Arthur & Vassilvitskii 2007): each is drawn in
    proportion to its squared distance from those before. The first few of them are such rows too.
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


def spherical(X: Array, centres: Array, iterations: int) -> tuple[Labels, float]:
    """Lloyd's algorithm from given centres.

    Parameters
    ----------
    X : float32 [n, d], rows of length 1
    centres : float32 [k, d], rows of length 1. One that loses its last row stays where it is

    Returns
    -------
    labels : int64 [n]
    fit : the sum of the rows' cosines to their centres
    """
    labels, rows, k = (X @ centres.T).argmax(axis=1), np.arange(len(X)), len(centres)
    for _ in range(iterations):
        # making a sparse matrix takes longer than a product with a narrow dense one
        if k <= NARROW:
            member = np.zeros((k, len(X)), dtype=np.float32)
            member[labels, rows] = 1
            sums = np.asarray(member @ X)
        else:
            ones = np.ones(len(X), dtype=np.float32)
            sums = np.asarray(sparse.csr_matrix((ones, labels, np.arange(len(X) + 1)), shape=(len(X), k)).T @ X)
        empty = ~sums.any(axis=1)
        sums[empty] = centres[empty]
        centres = unit(sums)

        cosines = X @ centres.T
        before, labels = labels, cosines.argmax(axis=1)
        if np.array_equal(before, labels):
            break
    return labels, float(np.take_along_axis(cosines, labels[:, None], axis=1).sum(dtype=np.float64))


def best_of_each(
    X: Array, ks: Sequence[int], starts: int, iterations: int, random: np.random.Generator
) -> list[Labels]:
    """The labels with the best fit of several starts for each of several numbers of clusters. A start
    of fewer clusters is the beginning of one of more, so that it is drawn once.
    """
    seeds = [spread_out(X, max(ks), random) for _ in range(starts)]
    return [max((spherical(X, X[rows[:k]], iterations) for rows in seeds), key=lambda found: found[1])[0] for k in ks]
