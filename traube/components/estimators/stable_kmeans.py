"""Spherical k-means that finds the number of clusters by itself, and reports how far to trust it."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from traube.components._layers import find_layers
from traube.components.estimators.reducers import FLOATS, SparseInput
from traube.components.spherical import Array, Labels, cluster_spherical, renumber, sum_clusters, unit
from traube.components.stability import cluster_stability, project, sample_clusters, sample_some

STEPS = 8
STARTS, ITERATIONS = 10, 30
MOST = 20_000  # vectors that are smoothed
COMPONENTS = 100  # of sparse vectors, and of smoothed ones, which vary in few directions
BLOCK = 2**26  # bytes of a block of cosines


@dataclass(eq=False, repr=False)
class StableKMeans(ClusterMixin, SparseInput):
    """Spherical k-means on smoothed vectors, with the most stable number of clusters.

    The vectors are smoothed over their neighbors; `traube.components.choose_stable_k` chooses the number of clusters.

    The number is chosen on the vectors as they are: smoothed vectors make any clusters stable. For
    the labels every vector is moved eight times half-way towards the weighted mean of its neighbors
    in UMAP's graph. Of more than 20,000 vectors so many are drawn for this, and the others join the
    cluster whose mean is nearest: this bounds time and memory.

    Parameters
    ----------
    n_clusters : int, optional
        Number of clusters. By default the number is found.
    n_neighbors : int, default=14
        Neighbors in the graph, the text itself among them; at most n.
    random_state : int, optional
        Seed.

    Attributes
    ----------
    labels_ : ndarray of shape (n_texts,)
        Cluster of each vector, int64, from 0.
    n_clusters_ : int
        Clusters that are not empty.
    score_ : float
        How far to trust the number: below .12 there are no clear groups, up to .25 weak ones; nan if the number is
        given.
    k_table_ : DataFrame
        Columns k, stability, null, excess; None if the number is given.
    cluster_stability_ : ndarray of shape (n_clusters,)
        Result of `traube.components.stability.cluster_stability`.
    layers_ : list of ndarray of shape (n_texts,)
        Nested layers from the coarsest to the finest, `labels_` among them.
    layer_stability_ : list of ndarray
        Stability of each layer's clusters.
    """

    n_clusters: int | None = None
    n_neighbors: int = 14
    random_state: int | None = None

    def fit(self, X: Any, y: None = None) -> Self:
        """Fit on [n, d], dense or csr."""
        from threadpoolctl import threadpool_limits

        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS)
        # threads would wait for each other most of the time: the products are small
        with threadpool_limits(1, "blas"):
            self._fit(X, int(check_random_state(self.random_state).randint(2**31 - 1)))
        return self

    def _fit(self, X: Any, seed: int) -> None:
        points = project(X, seed)
        if self.n_clusters is None:
            k, self.k_table_, samples = sample_clusters(points, seed)
            self.score_ = float(self.k_table_["excess"].max())
        else:
            k, self.k_table_, samples = self.n_clusters, None, sample_some(points, self.n_clusters, seed)
            self.score_ = float("nan")
        self.labels_ = self._cluster(X, k, seed)
        self.n_clusters_ = int(self.labels_.max()) + 1
        self.layers_ = find_layers(self.labels_, samples, seed)
        self.layer_stability_ = [cluster_stability(samples, layer, seed) for layer in self.layers_]
        level = [layer is self.labels_ for layer in self.layers_].index(True)
        self.cluster_stability_ = self.layer_stability_[level]

    def _cluster(self, X: Any, k: int, seed: int) -> Labels:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.preprocessing import normalize

        if k == 1:
            return np.zeros(X.shape[0], dtype=np.int64)
        if k == X.shape[0]:
            return np.arange(k)
        # unit vectors about their mean; of sparse ones, their first 100 principal directions
        points, random, svd = normalize(X), np.random.default_rng(seed), TruncatedSVD(COMPONENTS, random_state=seed)
        if sparse.issparse(points):
            points = points.toarray() if min(points.shape) <= COMPONENTS else svd.fit_transform(points)
        points = unit(np.asarray(points, dtype=np.float32))
        points = unit(points - points.mean(axis=0))

        rows = np.arange(len(points))
        if len(points) > MOST:
            rows = np.sort(random.choice(len(points), MOST, replace=False))
        smoothed = smooth(points[rows], self.n_neighbors)
        if min(smoothed.shape) > COMPONENTS:
            smoothed = unit(svd.fit_transform(smoothed))
        sample_labels = renumber(cluster_spherical(smoothed, k, STARTS, ITERATIONS, random))
        if len(rows) == len(points):
            return sample_labels
        # all other points join the cluster with the nearest mean
        labels = (points @ unit(sum_clusters(points[rows], sample_labels)).T).argmax(axis=1)
        labels[rows] = sample_labels
        return labels


def smooth(points: Array, n_neighbors: int) -> Array:
    """Return unit vectors, each moved eight times half-way towards the mean of its neighbors."""
    graph = make_fuzzy_graph(*find_neighbors(points, min(n_neighbors, len(points))))
    degree = np.asarray(graph.sum(axis=1))
    graph = sparse.csr_matrix(graph.multiply(1 / np.where(degree > 0, degree, 1)), dtype=np.float32)
    for _ in range(STEPS):
        points = unit(points + graph @ points)
    return points


def find_neighbors(points: Array, k: int) -> tuple[NDArray[np.int64], Array]:
    """Return the k nearest of each unit vector by the cosine, itself first: rows and distances [n, k]."""
    n = len(points)
    rows, distances = np.empty((n, k), dtype=np.int64), np.empty((n, k), dtype=np.float32)
    block = max(1, BLOCK // (4 * n))
    for start in range(0, n, block):
        opposite = -points[start : start + block] @ points.T  # cosines, the largest first
        diagonal = np.arange(len(opposite))
        opposite[diagonal, start + diagonal] = -np.inf
        best = np.argpartition(opposite, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(opposite, best, axis=1)
        order = np.argsort(values, axis=1, kind="stable")
        rows[start : start + block] = np.take_along_axis(best, order, axis=1)
        distances[start : start + block] = 1 + np.take_along_axis(values, order, axis=1)
    distances[:, 0] = 0
    return rows, np.maximum(distances, 0)


def make_fuzzy_graph(rows: NDArray[np.int64], distances: Array) -> sparse.csr_matrix:
    """Return UMAP's graph of nearest neighbors, float32 [n, n], symmetric.

    See McInnes et al. 2018, section 3.1: the weight of a neighbor is exp(-(d - rho) / sigma), where rho is the
    distance of the nearest one and sigma such that the weights sum to log2(k); and that of a pair is a + b - a b.
    """
    n, k = rows.shape
    if k < 2:
        return sparse.csr_matrix((n, n), dtype=np.float32)
    apart = np.where(distances[:, 1:] > 0, distances[:, 1:], np.inf)
    rho = np.where(np.isfinite(apart).any(axis=1), apart.min(axis=1), 0)
    beyond = np.maximum(distances[:, 1:] - rho[:, None], 0).astype(np.float64)

    # sigma by bisection, at least a thousandth of the mean distance
    low, high = np.zeros(n), np.full(n, 2.0)
    for _ in range(40):
        middle = (low + high) / 2
        too_much = np.exp(-beyond / np.maximum(middle, 1e-12)[:, None]).sum(axis=1) > np.log2(k)
        low, high = np.where(too_much, low, middle), np.where(too_much, middle, high)
    sigma = np.maximum(high, np.maximum(1e-3 * beyond.mean(axis=1), 1e-12))
    weights = np.exp(-beyond / sigma[:, None])

    pairs = (np.repeat(np.arange(n), k - 1), rows[:, 1:].ravel())
    one_way = sparse.csr_matrix((weights.ravel().astype(np.float32), pairs), shape=(n, n))
    return sparse.csr_matrix(one_way + one_way.T - one_way.multiply(one_way.T))
