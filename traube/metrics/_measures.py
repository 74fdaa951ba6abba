"""The agreement metrics: functions of contingency tables, entered in `MEASURES` below.

After adding one raise `SCORING_VERSION`: stored cells are then scored again from their assignments, not clustered
again. The module is light, as `names` is: scikit-learn is imported only where it is needed.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from traube._core.arrays import Floats, Ints
from traube.metrics._contingency import Contingency, find_starts

# Raise when the same assignments would be scored otherwise, or a metric is added.
SCORING_VERSION = "3"
MOST_TERMS = 2**18  # of expected information summed at once: bounds the memory


def _homogeneity(table: Contingency) -> Floats:
    return _share(table.information, table.entropies[0])


def _completeness(table: Contingency) -> Floats:
    return _share(table.information, table.entropies[1])


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.ones(len(whole)), where=whole > 0)


def _v_measure(table: Contingency) -> Floats:
    h, c = _homogeneity(table), _completeness(table)
    return np.divide(2 * h * c, h + c, out=np.zeros(len(h)), where=h + c > 0)


def _nmi_geometric(table: Contingency) -> Floats:
    h_true, h_pred = table.entropies
    mean = np.sqrt(h_true * h_pred)
    value = np.minimum(1.0, np.divide(table.information, mean, out=np.zeros(len(mean)), where=mean > 0))
    return np.where((h_true == 0) & (h_pred == 0), 1.0, value)


def _ami(table: Contingency) -> Floats:
    """Compute (I - E[I]) / (mean(H(C), H(K)) - E[I]), with scikit-learn's values where that is 0 / 0.

    AMI is 1 if classes and clusters are the same groups, even if no other clustering of these sizes is possible. Else it
    is 0 if all items form one group or each is alone: then I is the same for all clusterings of these sizes. Both are
    counted, since rounding would turn 0 / 0 into any number.
    """
    pairs, classes, clusters = ((sizes > 0).sum(axis=1) for sizes in (table.counts, table.classes, table.clusters))
    is_same = (pairs == classes) & (pairs == clusters)
    is_fixed = (np.minimum(classes, clusters) == 1) | (np.maximum(classes, clusters) == table.n)
    if (is_same | is_fixed).all():
        return is_same.astype(np.float64)
    h_true, h_pred = table.entropies
    expected = expected_information(table)
    value = (table.information - expected) / ((h_true + h_pred) / 2 - expected)
    return np.where(is_same | is_fixed, is_same, value)


def expected_information(table: Contingency) -> Floats:
    """Return E[I] of each table over all tables with its class sizes a_c and cluster sizes b_k, [tables].

    Vinh et al. (2010): the sum over c, k and all n_ck of n_ck / n log(n n_ck / (a_c b_k)) times its hypergeometric
    probability. All tables are summed together; classes, and clusters, that have the same size in each are summed once.
    """
    from scipy.special import gammaln

    a, alike_a = np.unique(table.classes, axis=1, return_counts=True)
    b, alike_b = np.unique(table.clusters, axis=1, return_counts=True)
    a, b, n = (x.ravel() for x in np.broadcast_arrays(a[:, :, None], b[:, None, :], table.n[:, None, None]))

    # The least and the greatest n_ck worth summing, [pairs]: all others together have a probability below 1e-17, by
    # Bernstein's inequality, which holds for draws without replacement too (Hoeffding 1963).
    mean, log_p = a * (b / np.maximum(n, 1)), -np.log(1e-17 / 2)
    far = log_p / 3 + np.sqrt((log_p / 3) ** 2 + 2 * log_p * mean)
    first = np.maximum(np.maximum(1, a + b - n), np.ceil(mean - far).astype(np.int64))
    last = np.maximum(np.minimum(np.minimum(a, b), np.floor(mean + far).astype(np.int64)), first - 1)

    block = np.cumsum(last - first + 1) // MOST_TERMS
    begins = find_starts(block)
    whole = np.arange(table.n.max() + 1)
    logs, log_factorials = np.log(np.maximum(whole, 1)), gammaln(whole + 1.0)
    parts = [
        _expected_of(a[part], b[part], n[part], first[part], last[part], logs, log_factorials)
        for part in map(slice, begins, [*begins[1:], len(block)])
    ]
    shape = len(table.n), len(alike_a), len(alike_b)
    return np.concatenate(parts).reshape(shape) @ alike_b @ alike_a


def _expected_of(a: Ints, b: Ints, n: Ints, first: Ints, last: Ints, logs: Floats, log_factorials: Floats) -> Floats:
    """Return the share in E[I] of some pairs of a class and a cluster, [pairs]."""
    log_ways = sum(log_factorials[x] for x in (a, b, n - a, n - b)) - log_factorials[n]
    log_ratio = logs[n] - logs[a] - logs[b]
    terms = last - first + 1
    of = np.repeat(np.arange(len(terms)), terms)
    both = np.arange(len(of)) - (np.cumsum(terms) - terms - first)[of]
    log_p = log_ways[of] - log_factorials[both]
    for size, sign in ((a, -1), (b, -1), (n - a - b, 1)):
        log_p -= log_factorials[size[of] + sign * both]
    return np.bincount(of, both * (log_ratio[of] + logs[both]) * np.exp(log_p), len(terms)) / np.maximum(n, 1)


def _pairs(table: Contingency) -> Iterator[tuple[int, int, int, int]]:
    """Yield the numbers of item pairs of each table, as Python's unbounded integers.

    The numbers are of pairs together in both, in their class only, in their cluster only, and apart.
    """
    squares = (map(int, (sizes**2).sum(axis=1)) for sizes in (table.counts, table.classes, table.clusters))
    for n, in_both, in_class, in_cluster in zip(map(int, table.n), *squares, strict=True):
        together, split, merged = in_both - n, in_class - in_both, in_cluster - in_both
        yield together, split, merged, n * (n - 1) - together - split - merged


def _ri(table: Contingency) -> Floats:
    pairs = ((together + apart, split + merged) for together, split, merged, apart in _pairs(table))
    return np.array([right / (right + wrong) if wrong else 1.0 for right, wrong in pairs])


def _ari(table: Contingency) -> Floats:
    scores = []
    for together, split, merged, apart in _pairs(table):
        chance = (together + split) * (split + apart) + (together + merged) * (merged + apart)
        scores.append(2 * (together * apart - split * merged) / chance if split or merged else 1.0)
    return np.array(scores)


def _acc(table: Contingency) -> Floats:
    from scipy.optimize import linear_sum_assignment

    tables = map(table.dense, range(len(table.counts)))
    matched = [counts[linear_sum_assignment(counts, maximize=True)].sum() for counts in tables]
    return np.array(matched) / table.n


def _purity(table: Contingency) -> Floats:
    return np.maximum.reduceat(*table.by_cluster, axis=1).sum(axis=1) / table.n


# by the name that cards, params.yaml and `--metric` use
MEASURES: dict[str, Callable[[Contingency], Floats]] = {
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


def compute_measures(table: Contingency, metrics: Sequence[str] | None = None) -> dict[str, Floats]:
    """Return some of MEASURES, by default all, each [tables], computed with shared work; nan for a table without items."""
    metrics = tuple(MEASURES) if metrics is None else metrics
    empty = table.n == 0
    if empty.all():
        return {metric: np.full(len(empty), np.nan) for metric in metrics}
    with np.errstate(invalid="ignore", divide="ignore"):  # tables without items, which become nan
        return {metric: np.where(empty, np.nan, MEASURES[metric](table)) for metric in metrics}
