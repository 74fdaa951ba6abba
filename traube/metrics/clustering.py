"""How well a clustering agrees with gold labels, and how compact it is without any.

Notation, after Rosenberg & Hirschberg (2007): n items, classes C, clusters K, contingency n_ck (items of class c in
cluster k), marginals a_c and b_k. Natural logarithms.

The functions named like a metric take `(labels_true, labels_pred)`, as scikit-learn's do, and are scikit-learn's where
it has one. `score` gives all of them at once from one contingency table, three times: once for each way of reading the
label -1, which HDBSCAN and others give to items they refuse to put in any cluster (`NOISE_POLICIES`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn import metrics as sk
from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information

from traube.errors import TraubeError
from traube.metrics.names import METRICS, NOISE_POLICIES, full_name

Labels: TypeAlias = Sequence[Any] | NDArray[Any] | pd.Series
Codes: TypeAlias = NDArray[np.int64]
Vectors: TypeAlias = NDArray[np.float32] | sparse.csr_matrix | sparse.csr_array

NOISE = -1
SILHOUETTE_ROWS = 5_000


def v_measure(labels_true: Labels, labels_pred: Labels) -> float:
    """Harmonic mean of homogeneity and completeness: 2hc / (h + c). The same number as `nmi_arithmetic`."""
    return float(sk.v_measure_score(labels_true, labels_pred))


def homogeneity(labels_true: Labels, labels_pred: Labels) -> float:
    """1 - H(C|K) / H(C): does a cluster hold one class only? 1 if there is only one class."""
    return float(sk.homogeneity_score(labels_true, labels_pred))


def completeness(labels_true: Labels, labels_pred: Labels) -> float:
    """1 - H(K|C) / H(K): does a class sit in one cluster only? 1 if there is only one cluster."""
    return float(sk.completeness_score(labels_true, labels_pred))


def nmi_arithmetic(labels_true: Labels, labels_pred: Labels) -> float:
    """I(C;K) / ((H(C) + H(K)) / 2): scikit-learn's default, and what the code of SCCL, RSTC and AECL computes."""
    return float(sk.normalized_mutual_info_score(labels_true, labels_pred, average_method="arithmetic"))


def nmi_geometric(labels_true: Labels, labels_pred: Labels) -> float:
    """I(C;K) / sqrt(H(C) H(K)): what the paper of AECL prints. Never less than `nmi_arithmetic`."""
    return float(sk.normalized_mutual_info_score(labels_true, labels_pred, average_method="geometric"))


def ami(labels_true: Labels, labels_pred: Labels) -> float:
    """Mutual information corrected for chance (Vinh et al. 2010), arithmetic: 0 for random labels, may be negative."""
    return float(sk.adjusted_mutual_info_score(labels_true, labels_pred))


def ri(labels_true: Labels, labels_pred: Labels) -> float:
    """Rand index: the share of item pairs on which both agree (together in both, or apart in both)."""
    return float(sk.rand_score(labels_true, labels_pred))


def ari(labels_true: Labels, labels_pred: Labels) -> float:
    """Rand index corrected for chance (Hubert & Arabie 1985): 0 for random labels, may be negative."""
    return float(sk.adjusted_rand_score(labels_true, labels_pred))


def acc(labels_true: Labels, labels_pred: Labels) -> float:
    """Clustering accuracy: the share of matched items under the best one-to-one map of clusters to classes.

    The map is found by the Hungarian algorithm. Clusters and classes may differ in number; those left without a partner
    count as wrong. nan without items.
    """
    return _acc(Contingency.of(labels_true, labels_pred))


def purity(labels_true: Labels, labels_pred: Labels) -> float:
    """Share of items in the commonest class of their cluster. Grows with the number of clusters. nan without items."""
    return _purity(Contingency.of(labels_true, labels_pred))


@dataclass(frozen=True)
class Contingency:
    """How often each class meets each cluster.

    Attributes
    ----------
    counts : int64 csr [classes, clusters], n_ck
    """

    counts: sparse.csr_matrix

    @classmethod
    def of(cls, labels_true: Labels, labels_pred: Labels) -> "Contingency":
        return cls(contingency_matrix(labels_true, labels_pred, sparse=True))

    @cached_property
    def n(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def classes(self) -> Codes:
        """Class sizes a_c."""
        return np.ravel(self.counts.sum(axis=1))

    @cached_property
    def clusters(self) -> Codes:
        """Cluster sizes b_k."""
        return np.ravel(self.counts.sum(axis=0))

    @cached_property
    def entropies(self) -> tuple[float, float]:
        """H(C), H(K)."""
        return _entropy(self.classes), _entropy(self.clusters)

    @cached_property
    def information(self) -> float:
        """Mutual information I(C;K), which no rounding lifts above the entropies: a score of 1 + 2e-16 fails checks."""
        cells = self.counts.tocoo()
        expected = self.classes[cells.row].astype(np.float64) * self.clusters[cells.col]
        information = float((cells.data / self.n * np.log(cells.data / expected * self.n)).sum())
        return max(0.0, min(information, *self.entropies))


def score(labels_true: Labels, labels_pred: NDArray[np.integer]) -> dict[str, float]:
    """Every metric under every noise policy.

    Parameters
    ----------
    labels_true : [n], gold labels of any kind
    labels_pred : int [n], clusters; -1 is noise

    Returns
    -------
    dict with `<metric>/<policy>` for METRICS x NOISE_POLICIES, `clusters` (their number, noise not counted) and
    `noise_share` (in [0, 1]). The policies score noise as one ordinary cluster (`noise_as_cluster`), drop its items
    (`noise_dropped`; nan if nothing is left) or make each of its items a cluster of its own (`noise_as_singletons`).

    Raises
    ------
    TraubeError
        If there are no items, the lengths differ, a gold label is missing, or the predictions are no integers.
    """
    true, predicted = _checked(labels_true, labels_pred)
    noise = predicted == NOISE
    scores: dict[str, float] = {}
    values: dict[str, float] = {}
    for policy in NOISE_POLICIES:
        if noise.any() or not values:  # without noise all policies say the same
            values = _scores(Contingency.of(*under(policy, true, predicted)))
        scores |= {f"{metric}/{policy}": value for metric, value in values.items()}
    return scores | _sizes(predicted)


def internal(vectors: Vectors, labels: NDArray[np.integer], seed: int) -> dict[str, float]:
    """What can be said of a clustering without gold labels.

    Parameters
    ----------
    vectors : float32 [n, d], dense or csr: the model's own vectors, not the reduced ones
    labels : int [n]; -1 is noise
    seed : picks the rows, where there are more than `SILHOUETTE_ROWS`

    Returns
    -------
    dict with `silhouette` (Rousseeuw 1987; cosine distance, noise dropped; nan with fewer than two clusters, or where
    each sampled item is a cluster of its own), `clusters` and `noise_share`. Sampling bounds the memory: the distances
    of 5,000 rows take 200 MB at most.

    Raises
    ------
    TraubeError
        If there are no items, the lengths differ, or the labels are no integers.
    """
    labels = _integers(labels)
    if len(labels) != vectors.shape[0]:
        raise TraubeError(f"{vectors.shape[0]} vectors but {len(labels)} cluster labels")
    rows = np.flatnonzero(labels != NOISE)
    if len(rows) > SILHOUETTE_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, SILHOUETTE_ROWS, replace=False))
    defined = 2 <= len(np.unique(labels[rows])) < len(rows)
    silhouette = sk.silhouette_score(vectors[rows], labels[rows], metric="cosine") if defined else np.nan
    return {"silhouette": float(silhouette)} | _sizes(labels)


def _checked(labels_true: Labels, labels_pred: Labels) -> tuple[Codes, Codes]:
    true, _ = pd.factorize(pd.Series(labels_true, dtype=object))
    predicted = _integers(labels_pred)
    if len(true) != len(predicted):
        raise TraubeError(f"{len(true)} gold labels but {len(predicted)} cluster labels")
    if (true < 0).any():
        raise TraubeError(f"item {int(np.argmin(true))}: the gold label is missing")
    return true, predicted


def _integers(labels: Labels) -> Codes:
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise TraubeError(f"cluster labels must be a non-empty list of integers, not {array.dtype} {array.shape}")
    return array.astype(np.int64)


def _sizes(predicted: Codes) -> dict[str, float]:
    noise = predicted == NOISE
    return {"clusters": float(len(np.unique(predicted[~noise]))), "noise_share": float(noise.mean())}


def under(policy: str, true: Codes, predicted: Codes) -> tuple[Codes, Codes]:
    """Both label arrays, int64 [n], as a noise policy reads them."""
    noise = predicted == NOISE
    if policy == "noise_dropped":
        return true[~noise], predicted[~noise]
    if policy == "noise_as_singletons":
        predicted = predicted.copy()
        predicted[noise] = predicted.max() + 1 + np.arange(noise.sum())
    return true, predicted


def metric_of(name: str) -> Callable[[Codes, Codes], float]:
    """A metric by its full name, `<metric>/<policy>`, as a function of gold labels and clusters, both int64 [n].

    Raises
    ------
    TraubeError
        If there is no such metric.
    """
    metric, _, policy = full_name(name).partition("/")

    def value(labels_true: Codes, labels_pred: Codes) -> float:
        table = Contingency.of(*under(policy, labels_true, labels_pred))
        return _OF_TABLE[metric](table) if table.n else np.nan

    return value


def _scores(table: Contingency) -> dict[str, float]:
    """METRICS from one table: the numbers of the functions above, with shared work (the tests compare them)."""
    if table.n == 0:
        return dict.fromkeys(METRICS, np.nan)
    return {metric: _OF_TABLE[metric](table) for metric in METRICS}


def _homogeneity(table: Contingency) -> float:
    return table.information / table.entropies[0] if table.entropies[0] else 1.0


def _completeness(table: Contingency) -> float:
    return table.information / table.entropies[1] if table.entropies[1] else 1.0


def _v_measure(table: Contingency) -> float:
    h, c = _homogeneity(table), _completeness(table)
    return 2 * h * c / (h + c) if h + c else 0.0


def _entropy(sizes: Codes) -> float:
    if len(sizes) == 1:
        return 0.0
    share = sizes / sizes.sum()
    return float(-(share * np.log(share)).sum())


def _nmi_geometric(table: Contingency) -> float:
    h_true, h_pred = table.entropies
    if h_true == h_pred == 0:
        return 1.0
    return min(1.0, table.information / math.sqrt(h_true * h_pred)) if table.information else 0.0


def _ami(table: Contingency) -> float:
    """(I - E[I]) / (mean(H(C), H(K)) - E[I]), with scikit-learn's reading of 0 / 0 as a perfect match."""
    h_true, h_pred = table.entropies
    if h_true == 0 or h_pred == 0:
        return float(h_true == h_pred)
    expected = expected_mutual_information(table.counts, table.n)
    return float(_away_from_zero(table.information - expected) / _away_from_zero((h_true + h_pred) / 2 - expected))


def _away_from_zero(value: float) -> float:
    return float(np.copysign(max(abs(value), np.finfo(np.float64).eps), value))


def _pairs(table: Contingency) -> tuple[int, int, int, int]:
    """Item pairs together in both, in their class only, in their cluster only, and apart; Python's unbounded integers."""
    squares = int((table.counts.data**2).sum())
    in_class, in_cluster = int((table.classes**2).sum()), int((table.clusters**2).sum())
    together, split, merged = squares - table.n, in_class - squares, in_cluster - squares
    return together, split, merged, table.n * (table.n - 1) - together - split - merged


def _ri(table: Contingency) -> float:
    together, split, merged, apart = _pairs(table)
    return (together + apart) / (table.n * (table.n - 1)) if split or merged else 1.0


def _ari(table: Contingency) -> float:
    together, split, merged, apart = _pairs(table)
    if split == merged == 0:
        return 1.0
    chance = (together + split) * (split + apart) + (together + merged) * (merged + apart)
    return 2 * (together * apart - split * merged) / chance


def _acc(table: Contingency) -> float:
    if table.n == 0:
        return np.nan
    counts = table.counts.toarray()
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / table.n)


def _purity(table: Contingency) -> float:
    return float(table.counts.max(axis=0).sum() / table.n) if table.n else np.nan


_OF_TABLE: dict[str, Callable[[Contingency], float]] = {
    "v_measure": _v_measure,
    "homogeneity": _homogeneity,
    "completeness": _completeness,
    "nmi_arithmetic": _v_measure,
    "nmi_geometric": _nmi_geometric,
    "ami": _ami,
    "ri": _ri,
    "ari": _ari,
    "acc": _acc,
    "purity": _purity,
}
