"""The number of clusters, where no gold labels give it: by the silhouette of vectors, or by the fit to distances."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube._core.errors import TooFew
from traube.components.apply import apply_clusterer, reduce
from traube.components.new_points import Matrix
from traube.components.registry import Component, get_clusterer

ROWS = 3_000  # that are clustered and scored, which bounds time and memory
MOST = 100


def choose_by_silhouette(X: Matrix, seed: int) -> tuple[int, pd.DataFrame]:
    """Return the number whose k-means clustering has the best silhouette (Rousseeuw 1987), and the table of all.

    Of equal ones it is the smallest; the silhouette is nan where k-means found fewer than two clusters.
    """
    from sklearn.metrics import pairwise_distances, silhouette_score

    rows = _draw_rows(X.shape[0], seed)
    sample = reduce("none", None, X[rows], seed)
    tried = _list_candidates(X.shape[0], len(rows))
    distances = pairwise_distances(sample)
    np.fill_diagonal(distances, 0)
    kmeans = get_clusterer("kmeans")
    points = sample.astype(np.float64) if sparse.issparse(sample) else sample  # as when it clusters all

    def silhouette(k: int) -> float:
        labels = apply_clusterer(kmeans, kmeans.params, points, len(rows), {"n_clusters": k}, seed).labels
        if not 2 <= len(np.unique(labels)) < len(labels):
            return float("nan")
        return float(silhouette_score(distances, labels, metric="precomputed"))

    return _choose_best(tried, "silhouette", silhouette, "their vectors are all the same")


def choose_by_correlation(
    clusterer: Component, params: Mapping[str, Any], distances: Matrix, seed: int
) -> tuple[int, pd.DataFrame]:
    """Return the number at which a clusterer's own clustering fits the distances best, and the table of all.

    The fit is the correlation of distances with lying in different clusters (the point-biserial index of Milligan &
    Cooper 1985). The silhouette would take one text apart from all others: on 40 pages of TREC CAR it chose 2 clusters
    in the median, where there are 5.5 sections, and came to an ARI of .029, the correlation to .097.
    """
    suited = clusterer.resolve_by_distance(params)
    rows = _draw_rows(len(distances), seed)
    tried = _list_candidates(len(distances), len(rows))
    square = np.asarray(distances if len(rows) == len(distances) else distances[np.ix_(rows, rows)], dtype=np.float64)
    pairs = square[~np.eye(len(square), dtype=bool)]
    if pairs.min() == pairs.max():
        raise TooFew("no number of clusters suits these texts: they are all equally alike")

    def correlation(k: int) -> float:
        labels = apply_clusterer(clusterer, suited, square, len(rows), {"n_clusters": k}, seed).labels
        first, second = np.triu_indices(len(labels), 1)
        apart = labels[first] != labels[second]
        if apart.all() or not apart.any():
            return float("nan")
        return float(np.corrcoef(square[first, second], apart)[0, 1])

    return _choose_best(tried, "correlation", correlation, "they are all equally alike")


def _draw_rows(n: int, seed: int) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(seed).choice(n, min(n, ROWS), replace=False))


def _list_candidates(n: int, rows: int) -> list[int]:
    """Return a geometric grid from 2 to 1.5 sqrt(n), at most 100."""
    if rows < 3:
        raise TooFew(f"choosing a number of clusters takes three distinct texts, not {rows}")
    most = max(2, min(MOST, n - 1, int(1.5 * np.sqrt(n))))
    steps = int(np.ceil(np.log(most / 2) / np.log(1.25))) + 1
    return sorted({int(k) for k in np.geomspace(2, most, steps).round()})


def _choose_best(tried: list[int], name: str, fit: Callable[[int], float], otherwise: str) -> tuple[int, pd.DataFrame]:
    table = pd.DataFrame({"k": tried, name: [fit(k) for k in tried]})
    if table[name].isna().all():
        raise TooFew(f"no number of clusters suits these texts: {otherwise}")
    return tried[int(table[name].argmax())], table
