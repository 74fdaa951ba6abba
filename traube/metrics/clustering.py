"""How well a clustering agrees with gold labels, and how compact it is without any.

Notation, after Rosenberg & Hirschberg (2007): n items, classes C, clusters K, contingency n_ck (items of class c in
cluster k), marginals a_c and b_k. Natural logarithms.

The functions named like a metric take `(labels_true, labels_pred)`, as scikit-learn's do, and are scikit-learn's where
it has one. `score` gives all of them at once from one contingency table, three times: once for each way of reading the
label -1, which HDBSCAN and others give to items they refuse to put in any cluster (`NOISE_POLICIES`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn import metrics as sk
from sklearn.metrics.cluster import expected_mutual_information

from traube.foundation.errors import TraubeError
from traube.metrics.names import GROUPS, METRICS, NOISE_POLICIES

Labels: TypeAlias = Sequence[Any] | NDArray[Any] | pd.Series
Codes: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]
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
    return _one("acc", labels_true, labels_pred)


def purity(labels_true: Labels, labels_pred: Labels) -> float:
    """Share of items in the commonest class of their cluster. Grows with the number of clusters. nan without items."""
    return _one("purity", labels_true, labels_pred)


def _one(metric: str, labels_true: Labels, labels_pred: Labels) -> float:
    return float(_OF_TABLE[metric](Contingency.of(labels_true, labels_pred))[0]) if len(labels_true) else np.nan


@dataclass(frozen=True)
class Contingency:
    """How often each class meets each cluster: of all items, or of several selections of them at once.

    Attributes
    ----------
    counts : int64 [tables, pairs], n_ck of the (class, cluster) pairs that occur at all, ordered by class
    rows, columns : int64 [pairs], the class and the cluster of each pair, numbered from 0
    """

    counts: Codes
    rows: Codes
    columns: Codes

    @classmethod
    def of(cls, labels_true: Labels, labels_pred: Labels) -> "Contingency":
        """One table, of all items."""
        pairs, _, rows, columns = _pairs_of(labels_true, labels_pred)
        return cls(np.bincount(pairs)[None] if len(pairs) else np.zeros((1, 0), np.int64), rows, columns)

    @classmethod
    def without_each(cls, labels_true: Labels, labels_pred: Labels, groups: Codes, number: int) -> "Contingency":
        """A table for each group of items, int64 [n] from 0 to number - 1, of all items but those of the group."""
        pairs, found, rows, columns = _pairs_of(labels_true, labels_pred)
        of_group = np.bincount(groups * found + pairs, minlength=number * found).reshape(number, found)
        return cls(of_group.sum(axis=0) - of_group, rows, columns)

    @cached_property
    def n(self) -> Codes:
        """Items of each table, [tables]."""
        return self.counts.sum(axis=1)

    @cached_property
    def classes(self) -> Codes:
        """Class sizes a_c, [tables, classes]."""
        return np.add.reduceat(self.counts, _starts(self.rows), axis=1)

    @cached_property
    def by_cluster(self) -> tuple[Codes, Codes]:
        """The counts in the order of their clusters, and where each cluster begins."""
        order = np.argsort(self.columns, kind="stable")
        return self.counts[:, order], _starts(self.columns[order])

    @cached_property
    def clusters(self) -> Codes:
        """Cluster sizes b_k, [tables, clusters]."""
        return np.add.reduceat(*self.by_cluster, axis=1)

    @cached_property
    def entropies(self) -> tuple[Values, Values]:
        """H(C), H(K), each [tables]."""
        return _entropy(self.classes), _entropy(self.clusters)

    @cached_property
    def information(self) -> Values:
        """Mutual information I(C;K), which no rounding lifts above the entropies: a score of 1 + 2e-16 fails checks."""
        expected = self.classes[:, self.rows].astype(np.float64) * self.clusters[:, self.columns]
        n, some = self.n[:, None], self.counts > 0
        ratio = np.divide(self.counts, expected, out=np.ones(self.counts.shape), where=some)
        terms = self.counts / n * np.log(np.where(some, ratio * n, 1.0))
        return np.clip(terms.sum(axis=1), 0.0, np.minimum(*self.entropies))

    def dense(self, table: int) -> Codes:
        """One table, [classes, clusters]."""
        counts = np.zeros((int(self.rows.max()) + 1, int(self.columns.max()) + 1), dtype=np.int64)
        counts[self.rows, self.columns] = self.counts[table]
        return counts


def _pairs_of(labels_true: Labels, labels_pred: Labels) -> tuple[Codes, int, Codes, Codes]:
    """Of each item its (class, cluster) pair; the number of different pairs; the class and the cluster of each of these."""
    true, predicted = (np.unique(np.asarray(x), return_inverse=True)[1] for x in (labels_true, labels_pred))
    width = int(predicted.max(initial=-1)) + 1
    names, pairs = np.unique(true.astype(np.int64) * width + predicted, return_inverse=True)
    return pairs, len(names), *np.divmod(names, max(width, 1))


def _starts(ordered: Codes) -> Codes:
    """Where each value of an ascending array begins."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))


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
            values = {m: float(v[0]) for m, v in scores_of(Contingency.of(*under(policy, true, predicted))).items()}
        scores |= {f"{metric}/{policy}": value for metric, value in values.items()}
    return scores | _sizes(predicted)


def replicates(
    labels_true: Labels, labels_pred: NDArray[np.integer], groups: Codes, metrics: Sequence[str] = METRICS
) -> dict[str, Values]:
    """Every metric under every noise policy, `GROUPS` times: each time without one group of items.

    The clusters stay as they are. How much the values differ says how far a score depends on which texts there are
    (`traube.metrics.significance`).

    Parameters
    ----------
    labels_true, labels_pred : as in `score`
    groups : int64 [n], the group of each item, 0 to GROUPS - 1 (`traube.tasks.task.groups_of`)
    metrics : which of METRICS

    Returns
    -------
    dict with float64 [GROUPS] for each `<metric>/<policy>`; nan where a group holds all items

    Raises
    ------
    TraubeError
        As in `score`.
    """
    true, predicted = _checked(labels_true, labels_pred)
    noise = predicted == NOISE
    found: dict[str, Values] = {}
    values: dict[str, Values] = {}
    for policy in NOISE_POLICIES:
        if noise.any() or not values:
            kept = groups[~noise] if policy == "noise_dropped" else groups
            values = scores_of(Contingency.without_each(*under(policy, true, predicted), kept, GROUPS), metrics)
        found |= {f"{metric}/{policy}": value for metric, value in values.items()}
    return found


def internal(
    vectors: Vectors, labels: NDArray[np.integer], groups: Codes, seed: int
) -> tuple[dict[str, float], dict[str, Values]]:
    """What can be said of a clustering without gold labels, and how far it depends on which texts there are.

    Parameters
    ----------
    vectors : float32 [n, d], dense or csr: the model's own vectors, not the reduced ones
    labels : int [n]; -1 is noise
    groups : int64 [n], as in `replicates`
    seed : picks the rows, where there are more than `SILHOUETTE_ROWS`

    Returns
    -------
    scores : dict with `silhouette` (Rousseeuw 1987; cosine distance, noise dropped; nan with fewer than two clusters, or where
        each sampled item is a cluster of its own), `clusters` and `noise_share`. Sampling bounds the memory: the distances of
        5,000 rows take 200 MB at most.
    replicates : dict with the `silhouette` of the items outside of each group, float64 [GROUPS]

    Raises
    ------
    TraubeError
        If there are no items, the lengths differ, or the labels are no integers.
    """
    labels = _integers(labels)
    rows, values = _silhouettes(vectors, labels, seed)
    mean = float(values.mean()) if len(values) else np.nan
    sums, counts = (np.bincount(groups[rows], weights, minlength=GROUPS) for weights in (values, np.ones(len(rows))))
    left = len(rows) - counts
    without = np.divide(sums.sum() - sums, left, out=np.full(GROUPS, np.nan), where=left > 0)
    return {"silhouette": mean} | _sizes(labels), {"silhouette": without}


def _silhouettes(vectors: Vectors, labels: Codes, seed: int) -> tuple[NDArray[np.intp], Values]:
    """Items, and the silhouette of each; none where it is not defined."""
    if len(labels) != vectors.shape[0]:
        raise TraubeError(f"{vectors.shape[0]} vectors but {len(labels)} cluster labels")
    rows = np.flatnonzero(labels != NOISE)
    if len(rows) > SILHOUETTE_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, SILHOUETTE_ROWS, replace=False))
    if not 2 <= len(np.unique(labels[rows])) < len(rows):
        return rows[:0], np.empty(0)
    return rows, sk.silhouette_samples(vectors[rows], labels[rows], metric="cosine")


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


def scores_of(table: Contingency, metrics: Sequence[str] = METRICS) -> dict[str, Values]:
    """Metrics by name, each [tables]: the numbers of the functions above, with shared work (the tests compare them)."""
    empty = table.n == 0
    if empty.all():
        return {metric: np.full(len(empty), np.nan) for metric in metrics}
    with np.errstate(invalid="ignore", divide="ignore"):  # tables without items, which become nan
        return {metric: np.where(empty, np.nan, _OF_TABLE[metric](table)) for metric in metrics}


def _homogeneity(table: Contingency) -> Values:
    return _share(table.information, table.entropies[0])


def _completeness(table: Contingency) -> Values:
    return _share(table.information, table.entropies[1])


def _share(part: Values, whole: Values) -> Values:
    return np.divide(part, whole, out=np.ones(len(whole)), where=whole > 0)


def _v_measure(table: Contingency) -> Values:
    h, c = _homogeneity(table), _completeness(table)
    return np.divide(2 * h * c, h + c, out=np.zeros(len(h)), where=h + c > 0)


def _entropy(sizes: Codes) -> Values:
    share = sizes / np.maximum(sizes.sum(axis=1), 1)[:, None]
    entropy = -(share * np.log(share, out=np.zeros(share.shape), where=share > 0)).sum(axis=1)
    return np.where((sizes > 0).sum(axis=1) > 1, entropy, 0.0)


def _nmi_geometric(table: Contingency) -> Values:
    h_true, h_pred = table.entropies
    mean = np.sqrt(h_true * h_pred)
    value = np.minimum(1.0, np.divide(table.information, mean, out=np.zeros(len(mean)), where=mean > 0))
    return np.where((h_true == 0) & (h_pred == 0), 1.0, value)


def _ami(table: Contingency) -> Values:
    """(I - E[I]) / (mean(H(C), H(K)) - E[I]), with scikit-learn's reading of 0 / 0 as a perfect match."""
    h_true, h_pred = table.entropies
    constant = (h_true == 0) | (h_pred == 0)
    expected = np.array(
        [0.0 if c or not n else _expected(table, i) for i, (c, n) in enumerate(zip(constant, table.n, strict=True))]
    )
    value = _away_from_zero(table.information - expected) / _away_from_zero((h_true + h_pred) / 2 - expected)
    return np.where(constant, h_true == h_pred, value)


def _expected(table: Contingency, i: int) -> float:
    """E[I] given the sizes of classes and clusters."""
    some = np.flatnonzero(table.counts[i])
    rows, columns = (np.unique(x[some], return_inverse=True)[1] for x in (table.rows, table.columns))
    return float(
        expected_mutual_information(sparse.csr_matrix((table.counts[i][some], (rows, columns))), int(table.n[i]))
    )


def _away_from_zero(value: Values) -> Values:
    return np.copysign(np.maximum(abs(value), np.finfo(np.float64).eps), value)


def _pairs(table: Contingency) -> Iterator[tuple[int, int, int, int, int]]:
    """For each table: item pairs together in both, in their class only, in their cluster only, apart, and the items; in Python's
    unbounded integers.
    """
    squares = (map(int, (sizes**2).sum(axis=1)) for sizes in (table.counts, table.classes, table.clusters))
    for n, in_both, in_class, in_cluster in zip(map(int, table.n), *squares, strict=True):
        together, split, merged = in_both - n, in_class - in_both, in_cluster - in_both
        yield together, split, merged, n * (n - 1) - together - split - merged, n


def _ri(table: Contingency) -> Values:
    return np.array(
        [
            (together + apart) / (n * (n - 1)) if split or merged else 1.0
            for together, split, merged, apart, n in _pairs(table)
        ]
    )


def _ari(table: Contingency) -> Values:
    return np.array([_ari_of(*pairs[:4]) for pairs in _pairs(table)])


def _ari_of(together: int, split: int, merged: int, apart: int) -> float:
    if split == merged == 0:
        return 1.0
    chance = (together + split) * (split + apart) + (together + merged) * (merged + apart)
    return 2 * (together * apart - split * merged) / chance


def _acc(table: Contingency) -> Values:
    matched = []
    for i in range(len(table.counts)):
        counts = table.dense(i)
        matched.append(counts[linear_sum_assignment(counts, maximize=True)].sum())
    return np.array(matched) / table.n


def _purity(table: Contingency) -> Values:
    return np.maximum.reduceat(*table.by_cluster, axis=1).sum(axis=1) / table.n


_OF_TABLE: dict[str, Callable[[Contingency], Values]] = {
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
