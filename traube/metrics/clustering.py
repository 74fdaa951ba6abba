"""Agreement of a clustering with gold labels, and compactness without any.

`score` gives all metrics at once from one contingency table, three times: once for each way of reading the label -1,
which HDBSCAN and others give to items they refuse to put in any cluster (`NOISE_POLICIES`).
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn import metrics as sk

from traube._core.arrays import Bools, Floats, Ints
from traube._core.errors import Malformed
from traube.metrics._contingency import Contingency, Labels
from traube.metrics._measures import MEASURES, compute_measures
from traube.metrics.names import GROUPS, METRICS, NOISE_POLICIES

Vectors: TypeAlias = NDArray[np.float32] | sparse.csr_matrix | sparse.csr_array

NOISE = -1
SILHOUETTE_ROWS = 5_000


def acc(labels_true: Labels, labels_pred: Labels) -> float:
    """Return the clustering accuracy: the share of matched items under the best one-to-one map of clusters to classes.

    The map is found by the Hungarian algorithm. Clusters and classes may differ in number; those
    left without a partner count as wrong. The accuracy is nan without items.
    """
    if not len(labels_true):
        return np.nan
    return float(MEASURES["acc"](Contingency.of(labels_true, labels_pred))[0])


def score(labels_true: Labels, labels_pred: NDArray[np.integer]) -> dict[str, float]:
    """Return every metric under every noise policy.

    Parameters
    ----------
    labels_true : array-like of shape (n_items,)
        Gold labels of any kind.
    labels_pred : ndarray of int of shape (n_items,)
        Clusters; -1 is noise.

    Returns
    -------
    dict of float
        `<metric>/<policy>` for METRICS x NOISE_POLICIES, `clusters` (their number, noise not counted) and `noise_share`
        (in [0, 1]). The policies score noise as one ordinary cluster (`noise_as_cluster`), drop its items
        (`noise_dropped`; nan if nothing is left) or make each of its items a cluster of its own (`noise_as_singletons`).

    Raises
    ------
    TraubeError
        If there are no items, the lengths differ, a gold label is missing, or the predictions are no integers.
    """
    scores: dict[str, float] = {}
    for policies, _, true, predicted in _readings(labels_true, labels_pred):
        values = compute_measures(Contingency.of(true, predicted))
        scores |= {f"{metric}/{policy}": float(value[0]) for policy in policies for metric, value in values.items()}
    return scores | _sizes(_integers(labels_pred))


def replicates(
    labels_true: Labels, labels_pred: NDArray[np.integer], groups: Ints, metrics: Sequence[str] = METRICS
) -> dict[str, Floats]:
    """Return every metric under every noise policy, `GROUPS` times: each time without one group of items.

    The clusters stay as they are. How much the values differ says how far a score depends on which
    texts there are (`traube.comparison.jackknife`).

    Parameters
    ----------
    labels_true : array-like of shape (n_items,)
        Gold labels, as in `score`.
    labels_pred : ndarray of int of shape (n_items,)
        Clusters, as in `score`.
    groups : ndarray of int64 of shape (n_items,)
        The group of each item, 0 to GROUPS - 1 (`traube.tasks.task.get_groups`).
    metrics : sequence of str, default=METRICS
        Which of METRICS.

    Returns
    -------
    dict of ndarray
        Values, float64 [GROUPS], of each `<metric>/<policy>`; nan where a group holds all items.
    """
    scores: dict[str, Floats] = {}
    for policies, kept, true, predicted in _readings(labels_true, labels_pred):
        values = compute_measures(Contingency.without_each(true, predicted, groups[kept], GROUPS), metrics)
        scores |= {f"{metric}/{policy}": value for policy in policies for metric, value in values.items()}
    return scores


def internal(
    vectors: Vectors, labels: NDArray[np.integer], groups: Ints, seed: int
) -> tuple[dict[str, float], dict[str, Floats]]:
    """Return scores of a clustering without gold labels, and how far they depend on which texts there are.

    Parameters
    ----------
    vectors : ndarray or csr_matrix of shape (n_items, n_dimensions)
        The model's own vectors, float32, not the reduced ones.
    labels : ndarray of int of shape (n_items,)
        Clusters; -1 is noise.
    groups : ndarray of int64 of shape (n_items,)
        Groups of items, as in `replicates`.
    seed : int
        Picks the rows, where there are more than `SILHOUETTE_ROWS`.

    Returns
    -------
    scores : dict of float
        `silhouette` (Rousseeuw 1987; cosine distance, noise dropped; nan with fewer than two clusters, or where each
        sampled item is a cluster of its own), `clusters` and `noise_share`. Sampling bounds the memory: the distances of
        5,000 rows take 200 MB at most.
    replicates : dict of ndarray
        The `silhouette` of the items outside of each group, float64 [GROUPS].
    """
    labels = _integers(labels)
    if len(labels) != vectors.shape[0]:
        raise Malformed(f"{vectors.shape[0]} vectors but {len(labels)} cluster labels")
    rows, values = np.flatnonzero(labels != NOISE), np.empty(0)
    if len(rows) > SILHOUETTE_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, SILHOUETTE_ROWS, replace=False))
    if 2 <= len(np.unique(labels[rows])) < len(rows):
        values = sk.silhouette_samples(vectors[rows], labels[rows], metric="cosine")
    else:
        rows = rows[:0]

    mean = float(values.mean()) if len(values) else np.nan
    sums, counts = (np.bincount(groups[rows], weights, minlength=GROUPS) for weights in (values, np.ones(len(rows))))
    left = len(rows) - counts
    without = np.divide(sums.sum() - sums, left, out=np.full(GROUPS, np.nan), where=left > 0)
    return {"silhouette": mean} | _sizes(labels), {"silhouette": without}


def _readings(labels_true: Labels, labels_pred: Labels) -> Iterator[tuple[Sequence[str], Bools, Ints, Ints]]:
    """Return noise policies, the items that they keep, bool [n], and both label arrays as they read them, int64 [kept]."""
    true, _ = pd.factorize(pd.Series(labels_true, dtype=object))
    predicted = _integers(labels_pred)
    if len(true) != len(predicted):
        raise Malformed(f"{len(true)} gold labels but {len(predicted)} cluster labels")
    if (true < 0).any():
        raise Malformed(f"item {int(np.argmin(true))}: the gold label is missing")

    noise = predicted == NOISE
    if not noise.any():
        yield NOISE_POLICIES, ~noise, true, predicted  # all policies give the same result
        return
    singletons = predicted.copy()
    singletons[noise] = predicted.max() + 1 + np.arange(noise.sum())
    yield ["noise_as_cluster"], np.ones_like(noise), true, predicted
    yield ["noise_dropped"], ~noise, true[~noise], predicted[~noise]
    yield ["noise_as_singletons"], np.ones_like(noise), true, singletons


def _integers(labels: Labels) -> Ints:
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise Malformed(f"cluster labels must be a non-empty list of integers, not {array.dtype} {array.shape}")
    return array.astype(np.int64)


def _sizes(predicted: Ints) -> dict[str, float]:
    noise = predicted == NOISE
    return {"clusters": float(len(np.unique(predicted[~noise]))), "noise_share": float(noise.mean())}
