"""Clusterers as scikit-learn estimators, with the defaults of protocol `paper`."""

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from traube.components.estimators.reducers import FLOATS, SparseInput
from traube.components.new_points import Matrix
from traube.components.spherical import Array, Labels


def plus_plus(X: Matrix, n_clusters: int, random_state: np.random.RandomState) -> Matrix:
    """Return the first centers [n_clusters, d] by greedy k-means++, as scikit-learn draws them.

    See Arthur & Vassilvitskii 2007.

    For dense float32 vectors scikit-learn widens all of them again for every center, two thirds of
    the time of a mini-batch k-means. Here it is done once, at 8 bytes a number; mini-batch k-means
    starts from a sample, so that is little.
    """
    from sklearn.cluster import kmeans_plusplus

    if not isinstance(X, np.ndarray) or X.dtype != np.float32:
        return kmeans_plusplus(X, n_clusters, random_state=random_state)[0]
    wide = X.astype(np.float64)
    norms = np.einsum("ij,ij->i", wide, wide)

    def distances(rows: NDArray[np.intp]) -> Array:
        squared = norms[rows][:, None] - 2 * (wide[rows] @ wide.T) + norms
        return np.maximum(squared.astype(np.float32), 0)

    n, trials = len(X), 2 + int(np.log(n_clusters))
    weights = np.ones(n, dtype=np.float32)  # the sums below are rounded as scikit-learn's, or other centers would win
    chosen = [int(random_state.choice(n, p=weights / weights.sum()))]
    nearest = distances(np.array(chosen))[0]
    potential = nearest @ weights
    for _ in range(1, n_clusters):
        drawn = random_state.uniform(size=trials) * potential
        candidates = np.minimum(np.searchsorted(np.cumsum(nearest), drawn), n - 1)
        shortened = np.minimum(nearest, distances(candidates))
        potentials = shortened @ weights
        best = int(np.argmin(potentials))
        chosen.append(int(candidates[best]))
        nearest, potential = shortened[best], potentials[best]
    return X[chosen]


@dataclass(eq=False, repr=False)
class Agglomerative(ClusterMixin, SparseInput):
    """Agglomerative clustering of dense or sparse vectors, as in scikit-learn.

    scikit-learn computes the distances pair by pair, which takes several times as long; here they are matrix products.
    A zero vector (a text without any known word) has no direction, and scikit-learn refuses it under the cosine: here
    all zero vectors are alike, and orthogonal to everything else, by one more dimension for themselves.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    linkage : {"ward", "average", "complete", "single"}, default="ward"
        Distance of two clusters; "ward" needs the metric "euclidean".
    metric : {"euclidean", "cosine", "precomputed"}, default="euclidean"
        Distance of two vectors; with "precomputed" X [n, n] holds the distances.

    Attributes
    ----------
    labels_ : ndarray of shape (n_texts,)
        Cluster of each vector, int64, from 0.
    """

    n_clusters: int = 2
    linkage: str = "ward"
    metric: str = "euclidean"

    def fit(self, X: Matrix, y: None = None) -> Self:
        """Fit on [n, d]; `labels_` is int64 [n]. Memory: 8 n^2 bytes, the distances and SciPy's copy of them."""
        from scipy.cluster.hierarchy import fcluster, linkage
        from scipy.spatial.distance import squareform

        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, ensure_min_samples=2)
        if self.linkage == "ward" and self.metric != "euclidean":
            raise ValueError(f"linkage 'ward' is defined for Euclidean distances, not for {self.metric!r}")
        precomputed = self.metric == "precomputed"
        distances = squareform(X, checks=False) if precomputed else _compute_distances(X, self.metric)
        merges = linkage(distances, self.linkage)
        n = len(merges) + 1
        # the first n - k merges, also where heights are equal (SciPy's cut_tree takes two hundred times as long)
        cut = fcluster(merges, n - self.n_clusters - 1, "monocrit", monocrit=np.arange(n - 1, dtype=np.float64))
        self.labels_: Labels = cut.astype(np.int64) - 1
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags


def _compute_distances(X: Matrix, metric: str) -> NDArray[np.float64]:
    """Return distances of all pairs in SciPy's order, float64 [n (n - 1) / 2], from blocks of 256 MB."""
    from sklearn.metrics import pairwise_distances_chunked

    if metric == "cosine":
        zero = np.asarray(abs(X).sum(axis=1)).reshape(-1, 1) == 0
        if zero.any():
            column = zero.astype(np.float32)
            X = sparse.hstack([X, column], format="csr") if sparse.issparse(X) else np.hstack([X, column])
    n = X.shape[0]
    condensed = np.empty(n * (n - 1) // 2)
    filled = row = 0
    # in double precision equal distances stay equal: word counts have many, and their order decides the merges
    for block in pairwise_distances_chunked(X.astype(np.float64), metric=metric, working_memory=256):
        for distances in block:
            row += 1
            condensed[filled : filled + n - row] = distances[row:]
            filled += n - row
    return condensed


@dataclass(eq=False, repr=False)
class AgglomerativeKnn(ClusterMixin, BaseEstimator):
    """Ward's method where only near neighbors may be merged: an approximation in O(n k) memory.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    n_neighbors : int, default=15
        Neighbors of each text that it may be merged with, at most n - 1.

    Attributes
    ----------
    labels_ : ndarray of shape (n_texts,)
        Cluster of each vector, int64, from 0.
    """

    n_clusters: int = 2
    n_neighbors: int = 15

    def fit(self, X: Array, y: None = None) -> Self:
        """Fit on dense [n, d]; `labels_` is int64 [n]."""
        from sklearn.cluster import AgglomerativeClustering
        from sklearn.neighbors import kneighbors_graph

        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        graph = kneighbors_graph(X, min(self.n_neighbors, len(X) - 1))
        inner = AgglomerativeClustering(n_clusters=self.n_clusters, linkage="ward", connectivity=graph)
        with warnings.catch_warnings():
            # scikit-learn then links the graph's parts at their nearest points, as intended.
            warnings.filterwarnings("ignore", message="the number of connected components", category=UserWarning)
            self.labels_: Labels = inner.fit_predict(X).astype(np.int64)
        return self
