"""Views: what a split shows of its texts, which are vectors, the distances of all pairs, or the texts alone.

A view owns all that differs between these: how they are clustered, how a number of clusters is chosen, and what near, like
and stray mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube._core.arrays import Floats
from traube._core.errors import Invalid, Malformed, TooFew, Unsupported
from traube.components._number_of_clusters import choose_by_correlation, choose_by_silhouette
from traube.components.apply import check_vectors, make_dense, reduce, refuse_long
from traube.components.new_points import Clusters, Matrix, compute_centers, find_nearest_on_average
from traube.components.registry import Component
from traube.components.spherical import Labels
from traube.components.stability import choose_stable_k

BLOCK = 2**26  # bytes of a block of cosines, or of rows
Booleans: TypeAlias = NDArray[np.bool_]
# (points [n, m], clusters [n], new points [k, m]) -> new clusters [k]; a clusterer's `assign`, bound to its parameters
Join: TypeAlias = Callable[[Matrix, Clusters, Matrix], Clusters]


class View(ABC):
    """Base class of what a split shows of its n texts.

    Attributes
    ----------
    vectors : ndarray or csr_matrix of shape (n_texts, n_dimensions), or None
        None where distances or texts alone are known.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import VectorView
    >>> view = VectorView(np.array([[0, 0], [0, 1], [5, 5], [5, 6]], dtype=np.float32))
    >>> view.to_own_cluster(np.array([0, 0, 1, 1])).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    vectors: Matrix | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} texts)"

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: NDArray[np.int64]) -> "View":
        """Return the view of some of the texts."""

    def reduce(self, reducer: Component, params: Mapping[str, Any], seed: int | None, memory: int | None) -> "View":
        """Return the view of the reduced vectors."""
        raise Unsupported(f"{reducer.name} reduces vectors, and there are none")

    @abstractmethod
    def check(self, clusterer: Component, params: Mapping[str, Any]) -> None:
        """Refuse a clusterer that does not work on what the view shows, and what no clusterer works on."""

    def choose_n_clusters(self, clusterer: Component, params: Mapping[str, Any], seed: int) -> tuple[int, pd.DataFrame]:
        """Return the number of clusters that fits best, and the table of all that were tried."""
        raise Invalid(f"{clusterer.name} needs the number of clusters: nothing says how well one fits texts")

    @abstractmethod
    def prepare(
        self, clusterer: Component, params: Mapping[str, Any], n_clusters: int | None, memory: int | None
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return what a clusterer is fitted on, and the parameters that build it."""

    def find_unknown(self) -> Booleans:
        """Return which texts the model knows nothing of, bool [n]."""
        return np.zeros(len(self), dtype=bool)

    @abstractmethod
    def to_own_cluster(self, labels: Labels) -> Floats:
        """Return the distance of each text to its cluster, float64 [n]; nan for noise."""

    @abstractmethod
    def likeness(self, rows: NDArray[np.int64], distances: Floats) -> Floats:
        """Return how alike texts of a cluster are, float64 [m, m]: 1 for equal ones, 0 as far apart as unrelated ones.

        `distances` are the texts' own to their cluster, [m].
        """

    def strays(self, labels: Labels, new: Any = None, joined: Labels | None = None) -> Booleans:
        """Return which texts are nearer to all others than to their own cluster, False for noise.

        Those of `labels`, or new ones (`compare`) that have joined clusters.
        """
        return np.zeros(len(labels if joined is None else joined), dtype=bool)

    def compare(self, new: Matrix) -> Any:
        """Return what `nearest` and `strays` take of new vectors, [k, d]."""
        raise Unsupported("nothing is known of these texts that new ones could be compared with")

    def nearest(self, new: Any, labels: Labels, join: Join | None = None) -> tuple[Labels, Floats]:
        """Return the cluster of each new text (`compare`), and the distance to it: -1 and nan if there are none."""
        raise Unsupported("nothing is known of these texts that new ones could be compared with")


class VectorView(View):
    """Texts by their vectors.

    Parameters
    ----------
    vectors : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        The vectors, or reduced ones.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import VectorView, fit, parse_method
    >>> X = np.array([[0, 0], [0, 1], [5, 5], [5, 6]], dtype=np.float32)
    >>> fit(parse_method("agglomerative"), VectorView(X), n_clusters=2).labels.tolist()
    [0, 0, 1, 1]
    """

    vectors: Matrix

    def __init__(self, vectors: Matrix) -> None:
        self.vectors = vectors

    def __len__(self) -> int:
        return int(self.vectors.shape[0])

    def take(self, rows: NDArray[np.int64]) -> "VectorView":
        """Return the view of some of the texts."""
        return VectorView(self.vectors[rows])

    def reduce(
        self, reducer: Component, params: Mapping[str, Any], seed: int | None, memory: int | None
    ) -> "VectorView":
        """Return the view of the reduced vectors."""
        return VectorView(reduce(reducer, params, self.vectors, seed, memory))

    def check(self, clusterer: Component, params: Mapping[str, Any]) -> None:
        """Refuse a clusterer that works on texts, and vectors that are no finite table."""
        if clusterer.fitted_on != "vectors":
            raise Unsupported(f"{clusterer.name} works on texts, not on vectors")
        check_vectors(self.vectors)

    def choose_n_clusters(self, clusterer: Component, params: Mapping[str, Any], seed: int) -> tuple[int, pd.DataFrame]:
        """Return the most stable number with `k: auto`, else the one with the best silhouette."""
        return (choose_stable_k if clusterer.chooses_k(params) else choose_by_silhouette)(self.vectors, seed)

    def prepare(
        self, clusterer: Component, params: Mapping[str, Any], n_clusters: int | None, memory: int | None
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the vectors, dense if the clusterer needs that."""
        X = make_dense(clusterer, params, check_vectors(self.vectors), memory)
        refuse_long(clusterer, X, n_clusters)
        if sparse.issparse(X):
            # scikit-learn computes in double anyway, and converts block by block: a hundred times slower
            X = X.astype(np.float64)
        return X, params

    def find_unknown(self) -> Booleans:
        """Return which vectors are 0, as those of texts of which a model knows no word."""
        X = self.vectors
        return np.asarray(~(np.ravel((X != 0).sum(axis=1)) > 0 if sparse.issparse(X) else np.asarray(X).any(axis=1)))

    def to_own_cluster(self, labels: Labels) -> Floats:
        """Return the Euclidean distance of each text to the mean of its cluster."""
        distance = np.full(len(labels), np.nan)
        for c in np.unique(labels[labels >= 0]):
            rows = np.flatnonzero(labels == c)
            block = _to_dense(self.vectors[rows])
            distance[rows] = np.linalg.norm(block - block.mean(axis=0), axis=1)
        return distance

    def likeness(self, rows: NDArray[np.int64], distances: Floats) -> Floats:
        """Return how alike texts are by their squared distances, from those of the mean."""
        from sklearn.metrics.pairwise import euclidean_distances

        apart = euclidean_distances(self.vectors[rows].astype(np.float64), squared=True)
        return _compare_expected(apart, distances**2, 1)

    def strays(self, labels: Labels, new: Any = None, joined: Labels | None = None) -> Booleans:
        """Return which texts are nearer to the mean of all texts than to that of their own cluster.

        Vectors are made unit; of a unit vector x this is x (c - m) < (c c - m m) / 2, where c is the mean
        of its cluster and m that of all. False for noise, and for all if there are fewer than two clusters.
        """
        from sklearn.preprocessing import normalize

        vectors, clusters = (self.vectors, labels) if new is None or joined is None else (new, joined)
        is_stray = np.zeros(len(clusters), dtype=bool)
        if len(np.unique(labels[labels >= 0])) < 2:
            return is_stray
        points = normalize(self.vectors[np.flatnonzero(labels >= 0)])
        ids, means = compute_centers(points, labels[labels >= 0])
        middle = np.asarray(points.mean(axis=0)).ravel()
        for c, mean in zip(ids, means, strict=True):
            rows = np.flatnonzero(clusters == c)
            along = np.asarray(normalize(vectors[rows]) @ (mean - middle)) if len(rows) else np.empty(0)
            is_stray[rows] = along < (mean @ mean - middle @ middle) / 2
        return is_stray

    def compare(self, new: Matrix) -> Matrix:
        """Return the new vectors; refuse them if they have other dimensions."""
        check_dimensions(self.vectors, new)
        return new

    def nearest(self, new: Any, labels: Labels, join: Join | None = None) -> tuple[Labels, Floats]:
        """Return the cluster whose mean is nearest by the cosine, or that a clusterer's rule gives, and the Euclidean distance."""
        joined = (join or join_by_cosine)(self.vectors, labels, new)
        distance = np.full(len(joined), np.nan)
        for c in np.unique(joined[joined >= 0]):
            mean = np.asarray(self.vectors[np.flatnonzero(labels == c)].mean(axis=0)).ravel()
            for rows in _cut(np.flatnonzero(joined == c), new.shape[1]):
                distance[rows] = np.linalg.norm(_to_dense(new[rows]) - mean, axis=1)
        return joined, distance


class DistanceView(View):
    """Texts by the distances of all pairs.

    Parameters
    ----------
    distances : ndarray of shape (n_texts, n_texts)
        Distances, symmetric, 0 on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import DistanceView, fit, parse_method
    >>> positions = np.array([0.0, 1.0, 5.0, 6.0])
    >>> view = DistanceView(np.abs(positions[:, None] - positions[None, :]))
    >>> fit(parse_method("agglomerative_average"), view, n_clusters=2).labels.tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, distances: NDArray[Any]) -> None:
        self._distances = distances

    @property
    def distances(self) -> NDArray[Any]:
        """The distances of all pairs, [n, n]."""
        return self._distances

    def __len__(self) -> int:
        return len(self.distances)

    def take(self, rows: NDArray[np.int64]) -> "DistanceView":
        """Return the view of some of the texts."""
        return DistanceView(self.distances[np.ix_(rows, rows)])

    def check(self, clusterer: Component, params: Mapping[str, Any]) -> None:
        """Refuse a clusterer that does not work on distances."""
        clusterer.resolve_by_distance(params)

    def choose_n_clusters(self, clusterer: Component, params: Mapping[str, Any], seed: int) -> tuple[int, pd.DataFrame]:
        """Return the number at which the clusterer's own clustering fits the distances best."""
        return choose_by_correlation(clusterer, params, self.distances, seed)

    def prepare(
        self, clusterer: Component, params: Mapping[str, Any], n_clusters: int | None, memory: int | None
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the distances, and the parameters for them."""
        return np.ascontiguousarray(self.distances, dtype=np.float64), clusterer.resolve_by_distance(params)

    def to_own_cluster(self, labels: Labels) -> Floats:
        """Return the mean distance of each text to the others of its cluster, 0 for one that is alone."""
        distance = np.full(len(labels), np.nan)
        for c in np.unique(labels[labels >= 0]):
            rows = np.flatnonzero(labels == c)
            distance[rows] = self.distances[np.ix_(rows, rows)].sum(axis=1, dtype=np.float64) / max(1, len(rows) - 1)
        return distance

    def likeness(self, rows: NDArray[np.int64], distances: Floats) -> Floats:
        """Return how alike texts are by their distances, from the mean ones."""
        return _compare_expected(self.distances[np.ix_(rows, rows)].astype(np.float64), distances, 0.5)

    def strays(self, labels: Labels, new: Any = None, joined: Labels | None = None) -> Booleans:
        """Return which texts are no nearer to their own cluster's texts, on average, than to all others."""
        apart, clusters = (self.distances, labels) if new is None or joined is None else (new, joined)
        is_stray = np.zeros(len(clusters), dtype=bool)
        for c in np.unique(labels[labels >= 0]):
            rows, inside = np.flatnonzero(clusters == c), labels == c
            if len(rows) and not inside[labels >= 0].all():
                own_distances, others = apart[rows][:, inside], apart[rows][:, (labels >= 0) & ~inside]
                is_stray[rows] = own_distances.mean(axis=1) >= others.mean(axis=1)
        return is_stray

    def compare(self, new: Matrix) -> Any:
        """Return distances of new texts to these, which are given themselves."""
        return new

    def nearest(self, new: Any, labels: Labels, join: Join | None = None) -> tuple[Labels, Floats]:
        """Return the cluster to whose texts the mean distance is smallest, and that distance, at least 0."""
        joined, means = find_nearest_on_average(new, labels)
        return joined, np.maximum(means, 0)


class TextView(View):
    """Texts alone: only equal ones are alike.

    Parameters
    ----------
    texts : sequence of str
        The texts.
    distances : ndarray of shape (n_texts,), optional
        Distance of each to its cluster, where it was measured elsewhere.

    Examples
    --------
    >>> from traube.components import TextView, fit, parse_method
    >>> fit(parse_method("gsdmm"), TextView(["a loaf of bread", "bread", "?"]), seed=42).labels.tolist()
    [0, 0, -1]
    """

    def __init__(self, texts: Sequence[str] = (), distances: Floats | None = None) -> None:
        self.texts, self.distances = texts, distances

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: NDArray[np.int64]) -> "TextView":
        """Return the view of some of the texts."""
        return TextView([self.texts[i] for i in rows], None if self.distances is None else self.distances[rows])

    def check(self, clusterer: Component, params: Mapping[str, Any]) -> None:
        """Refuse a clusterer that does not work on texts, and a list without any."""
        if clusterer.input_kind != "texts":
            raise Unsupported(f"{clusterer.name} works on {clusterer.fitted_on}, not on texts")
        if not self.texts:
            raise TooFew("there are no texts to group")

    def prepare(
        self, clusterer: Component, params: Mapping[str, Any], n_clusters: int | None, memory: int | None
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the texts."""
        return list(self.texts), params

    def to_own_cluster(self, labels: Labels) -> Floats:
        """Return the distances that were measured elsewhere; nan if nobody did."""
        return np.full(len(labels), np.nan) if self.distances is None else np.where(labels < 0, np.nan, self.distances)

    def likeness(self, rows: NDArray[np.int64], distances: Floats) -> Floats:
        """Return 1 for equal texts and 0 for others."""
        return np.array([[float(self.texts[i] == self.texts[j]) for j in rows] for i in rows])


def check_dimensions(known: Matrix, new: Matrix) -> None:
    """Refuse new vectors that have other dimensions than the known ones."""
    if new.shape[1] != known.shape[1]:
        raise Malformed(
            f"the model gives {new.shape[1]} dimensions for new texts, and gave {known.shape[1]} before: "
            "it must encode each text by itself"
        )


def join_by_cosine(points: Matrix, clusters: Clusters, new: Matrix) -> Clusters:
    """Return the cluster whose mean of unit vectors is nearest to each new vector, int64 [k]; -1 if there are none."""
    from sklearn.preprocessing import normalize

    ids, means = compute_centers(normalize(points), clusters)
    labels = np.full(new.shape[0], -1, dtype=np.int64)
    if len(ids):
        towards = normalize(means)
        for rows in _cut(np.arange(new.shape[0]), max(means.shape)):
            labels[rows] = ids[np.asarray(new[rows] @ towards.T).argmax(axis=1)]
    return labels


def _cut(rows: NDArray[np.int64], width: int) -> list[NDArray[np.int64]]:
    """Return blocks of rows of numbers that fit `BLOCK`."""
    step = max(1, BLOCK // (8 * width))
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _to_dense(block: Any) -> NDArray[Any]:
    return block.toarray() if sparse.issparse(block) else np.asarray(block)


def _compare_expected(apart: Floats, distance: Floats, unit: float) -> Floats:
    expected = unit * (distance[:, None] + distance)
    return 1 - np.divide(apart, expected, out=(apart > 0).astype(np.float64), where=expected > 0)
