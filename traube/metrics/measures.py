"""The agreement metrics: each a function of contingency tables, entered in `MEASURES` below.

To add a metric write its function here, enter it in `MEASURES` and raise `SCORING_VERSION`: stored
cells are then scored again from their assignments, not clustered again. Light: cards and params are
checked against these names, so scikit-learn is imported only where it is needed.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from traube.metrics.contingency import Contingency, Values

# Raise when the same assignments would be scored otherwise, or a metric is added: cells are scored
# again, not clustered.
SCORING_VERSION = "2"


def _homogeneity(table: Contingency) -> Values:
    return _share(table.information, table.entropies[0])


def _completeness(table: Contingency) -> Values:
    return _share(table.information, table.entropies[1])


def _share(part: Values, whole: Values) -> Values:
    return np.divide(part, whole, out=np.ones(len(whole)), where=whole > 0)


def _v_measure(table: Contingency) -> Values:
    h, c = _homogeneity(table), _completeness(table)
    return np.divide(2 * h * c, h + c, out=np.zeros(len(h)), where=h + c > 0)


def _nmi_geometric(table: Contingency) -> Values:
    h_true, h_pred = table.entropies
    mean = np.sqrt(h_true * h_pred)
    value = np.minimum(1.0, np.divide(table.information, mean, out=np.zeros(len(mean)), where=mean > 0))
    return np.where((h_true == 0) & (h_pred == 0), 1.0, value)


def _ami(table: Contingency) -> Values:
    """(I - E[I]) / (mean(H(C), H(K)) - E[I]), with scikit-learn's reading of 0 / 0 as a perfect
    match.
    """
    h_true, h_pred = table.entropies
    constant = (h_true == 0) | (h_pred == 0)
    expected = np.array(
        [0.0 if c or not n else _expected(table, i) for i, (c, n) in enumerate(zip(constant, table.n, strict=True))]
    )
    value = _away_from_zero(table.information - expected) / _away_from_zero((h_true + h_pred) / 2 - expected)
    return np.where(constant, h_true == h_pred, value)


def _expected(table: Contingency, i: int) -> float:
    """E[I] given the sizes of classes and clusters."""
    from scipy import sparse
    from sklearn.metrics.cluster import expected_mutual_information

    some = np.flatnonzero(table.counts[i])
    rows, columns = (np.unique(x[some], return_inverse=True)[1] for x in (table.rows, table.columns))
    return float(
        expected_mutual_information(sparse.csr_matrix((table.counts[i][some], (rows, columns))), int(table.n[i]))
    )


def _away_from_zero(value: Values) -> Values:
    return np.copysign(np.maximum(abs(value), np.finfo(np.float64).eps), value)


def _pairs(table: Contingency) -> Iterator[tuple[int, int, int, int, int]]:
    """For each table: item pairs together in both, in their class only, in their cluster only,
    apart, and the items; in Python's unbounded integers.
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
    from scipy.optimize import linear_sum_assignment

    matched = []
    for i in range(len(table.counts)):
        counts = table.dense(i)
        matched.append(counts[linear_sum_assignment(counts, maximize=True)].sum())
    return np.array(matched) / table.n


def _purity(table: Contingency) -> Values:
    return np.maximum.reduceat(*table.by_cluster, axis=1).sum(axis=1) / table.n


# by the name that cards, params.yaml and `--metric` use
MEASURES: dict[str, Callable[[Contingency], Values]] = {
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


def scores_of(table: Contingency, metrics: Sequence[str] | None = None) -> dict[str, Values]:
    """Metrics by name, each [tables]: with shared work; nan for a table without items.

    Parameters
    ----------
    metrics : which of MEASURES; by default all
    """
    metrics = tuple(MEASURES) if metrics is None else metrics
    empty = table.n == 0
    if empty.all():
        return {metric: np.full(len(empty), np.nan) for metric in metrics}
    with np.errstate(invalid="ignore", divide="ignore"):  # tables without items, which become nan
        return {metric: np.where(empty, np.nan, MEASURES[metric](table)) for metric in metrics}
