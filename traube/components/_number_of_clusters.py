"""The number of clusters, where no gold labels give it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube._core.errors import TraubeError
from traube.components._apply import apply_clusterer, reduce
from traube.components._components import Component, get_clusterer
from traube.components._new_points import Matrix

ROWS = 3_000
MOST = 100


def choose_k(
    X: Matrix, seed: int, candidates: Iterable[int] | None = None, metric: str = "euclidean"
) -> tuple[int, pd.DataFrame]:
    """Return the number of clusters whose k-means clustering has the best silhouette (Rousseeuw 1987).

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        Vectors, float32. At most 3,000 rows, drawn by `seed`, are clustered and scored: this bounds time
        and memory whatever n is.
    seed : int
        Seed of the sample and of k-means.
    candidates : iterable of int, optional
        Numbers to try. By default a geometric grid from 2 to 1.5 sqrt(n), at most 100.
    metric : str, default="euclidean"
        Metric of the silhouette; "cosine" suits a model's own vectors.

    Returns
    -------
    k : int
        Of equal ones the smallest.
    table : DataFrame
        Columns k and silhouette, a row per candidate in ascending order; nan where k-means found fewer than two.

    Raises
    ------
    TraubeError
        If there are fewer than three texts, a candidate is below 2 or above the number of rows less
        one, or no candidate has a silhouette (all vectors are the same).

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import choose_k
    >>> X = np.array([[0, 0], [0, 1], [5, 5], [5, 6]], dtype=np.float32)
    >>> choose_k(X, seed=42)[0]
    2
    """
    from sklearn.metrics import pairwise_distances, silhouette_score

    rows = _draw_rows(X.shape[0], seed)
    sample = reduce("none", None, X[rows], seed)
    tried = _list_candidates(X.shape[0], len(rows), candidates)
    distances = pairwise_distances(sample, metric=metric)
    np.fill_diagonal(distances, 0)
    kmeans = get_clusterer("kmeans")
    points = sample.astype(np.float64) if sparse.issparse(sample) else sample  # as when it clusters all

    def silhouette(k: int) -> float:
        labels = apply_clusterer(kmeans, kmeans.params, points, len(rows), {"n_clusters": k}, seed).labels
        if not 2 <= len(np.unique(labels)) < len(labels):
            return float("nan")
        return float(silhouette_score(distances, labels, metric="precomputed"))

    return _choose_best(tried, "silhouette", silhouette, "their vectors are all the same")


def choose_k_by_distance(
    clusterer: str | Component,
    params: Mapping[str, Any] | None,
    distances: Matrix,
    seed: int,
    candidates: Iterable[int] | None = None,
) -> tuple[int, pd.DataFrame]:
    """Return the number of clusters at which a clusterer's own clustering fits the distances best.

    The fit is the correlation of distances with lying in different clusters (the point-biserial index of Milligan &
    Cooper 1985). The silhouette would take one text apart from all others: on 40 pages of TREC CAR it chose 2 clusters
    in the median, where there are 5.5 sections, and came to an ARI of .029, the correlation to .097.

    Parameters
    ----------
    clusterer : str or Component
        The component, or the name of a registered one; it must work on distances.
    params : mapping or None
        Parameters in place of some defaults.
    distances : ndarray of shape (n_texts, n_texts)
        Distances, symmetric, 0 on the diagonal. At most 3,000 rows, drawn by `seed`, are clustered.
    seed : int
        Seed of the sample and of the clusterer.
    candidates : iterable of int, optional
        As in `choose_k`.

    Returns
    -------
    k : int
        Of equal ones the smallest.
    table : DataFrame
        Columns k and correlation, a row per candidate in ascending order; nan where there is one cluster only.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import choose_k_by_distance
    >>> positions = np.array([0.0, 1.0, 5.0, 6.0])
    >>> distances = np.abs(positions[:, None] - positions[None, :])
    >>> choose_k_by_distance("agglomerative_average", None, distances, seed=42)[0]
    2
    """
    component = get_clusterer(clusterer)
    suited = component.resolve_by_distance(params)
    rows = _draw_rows(len(distances), seed)
    tried = _list_candidates(len(distances), len(rows), candidates)
    square = np.asarray(distances if len(rows) == len(distances) else distances[np.ix_(rows, rows)], dtype=np.float64)
    pairs = square[~np.eye(len(square), dtype=bool)]
    if pairs.min() == pairs.max():
        raise TraubeError("no number of clusters suits these texts: they are all equally alike")

    def correlation(k: int) -> float:
        labels = apply_clusterer(component, suited, square, len(rows), {"n_clusters": k}, seed).labels
        first, second = np.triu_indices(len(labels), 1)
        apart = labels[first] != labels[second]
        if apart.all() or not apart.any():
            return float("nan")
        return float(np.corrcoef(square[first, second], apart)[0, 1])

    return _choose_best(tried, "correlation", correlation, "they are all equally alike")


def _draw_rows(n: int, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).choice(n, min(n, ROWS), replace=False))


def _list_candidates(n: int, rows: int, candidates: Iterable[int] | None) -> list[int]:
    tried = _make_grid(n) if candidates is None else sorted(set(candidates))
    if rows < 3:
        raise TraubeError(f"choosing a number of clusters takes three distinct texts, not {rows}")
    faulty = [k for k in tried if not 2 <= k < rows]
    if faulty or not tried:
        raise TraubeError(f"the numbers of clusters to try must lie between 2 and {rows - 1}; got {faulty or 'none'}")
    return tried


def _choose_best(tried: list[int], name: str, fit: Callable[[int], float], otherwise: str) -> tuple[int, pd.DataFrame]:
    table = pd.DataFrame({"k": tried, name: [fit(k) for k in tried]})
    if table[name].isna().all():
        raise TraubeError(f"no number of clusters suits these texts: {otherwise}")
    return tried[int(table[name].argmax())], table


def _make_grid(n: int) -> list[int]:
    most = max(2, min(MOST, n - 1, int(1.5 * np.sqrt(n))))
    steps = int(np.ceil(np.log(most / 2) / np.log(1.25))) + 1
    return sorted({int(k) for k in np.geomspace(2, most, steps).round()})
