"""How many clusters, where no gold labels say so."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from traube.foundation.errors import TraubeError
from traube.methods.apply import Matrix, cluster, reduce

ROWS = 3_000
MOST = 100


def choose_k(
    X: Matrix, seed: int, candidates: Iterable[int] | None = None, metric: str = "euclidean"
) -> tuple[int, pd.DataFrame]:
    """The number of clusters whose k-means clustering has the best silhouette (Rousseeuw 1987).

    Parameters
    ----------
    X : float32 [n, d], dense or csr. At most 3,000 rows, drawn by `seed`, are clustered and scored:
        this bounds time and memory whatever n is.
    candidates : numbers to try; None = a geometric grid from 2 to 1.5 sqrt(n), at most 100
    metric : of the silhouette; "cosine" suits a model's own vectors

    Returns
    -------
    k : int; of equal ones the smallest
    table : DataFrame (k, silhouette), a row per candidate in ascending order; nan where k-means
        found fewer than two

    Raises
    ------
    TraubeError
        If there are fewer than three texts, a candidate is below 2 or above the number of rows less
        one, or no candidate has a silhouette (all vectors are the same).
    """
    from sklearn.metrics import pairwise_distances

    n = X.shape[0]
    rows = np.sort(np.random.default_rng(seed).choice(n, min(n, ROWS), replace=False))
    sample = reduce("none", None, X[rows], seed)
    tried = _grid(n) if candidates is None else sorted(set(candidates))
    _check(tried, len(rows))
    distances = pairwise_distances(sample, metric=metric)
    np.fill_diagonal(distances, 0)
    table = pd.DataFrame({"k": tried, "silhouette": [_silhouette(sample, distances, k, seed) for k in tried]})
    if table["silhouette"].isna().all():
        raise TraubeError("no number of clusters suits these texts: their vectors are all the same")
    return tried[int(table["silhouette"].argmax())], table


def _grid(n: int) -> list[int]:
    most = max(2, min(MOST, n - 1, int(1.5 * np.sqrt(n))))
    steps = int(np.ceil(np.log(most / 2) / np.log(1.25))) + 1
    return sorted({int(k) for k in np.geomspace(2, most, steps).round()})


def _check(candidates: list[int], rows: int) -> None:
    if rows < 3:
        raise TraubeError(f"{rows} texts are too few to choose a number of clusters: there must be three")
    faulty = [k for k in candidates if not 2 <= k < rows]
    if faulty or not candidates:
        raise TraubeError(f"the numbers of clusters to try must lie between 2 and {rows - 1}; got {faulty or 'none'}")


def _silhouette(sample: Matrix, distances: np.ndarray, k: int, seed: int) -> float:
    from sklearn.metrics import silhouette_score

    labels = cluster("kmeans", None, sample, k, seed)
    if not 2 <= len(np.unique(labels)) < len(labels):
        return float("nan")
    return float(silhouette_score(distances, labels, metric="precomputed"))
