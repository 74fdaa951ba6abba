"""Contingency tables of classes and clusters, from which every agreement metric is computed.

Notation, after Rosenberg & Hirschberg (2007): n items, classes C, clusters K, contingency n_ck (items of class c in
cluster k), marginals a_c and b_k. Natural logarithms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.arrays import Floats, Ints

Labels: TypeAlias = Sequence[Any] | NDArray[Any] | pd.Series


@dataclass(frozen=True)
class Contingency:
    """Counts of items by class and cluster: of all items, or of several selections of them at once.

    Attributes
    ----------
    counts : ndarray of int64 of shape (n_tables, n_pairs)
        n_ck of the (class, cluster) pairs that occur at all, ordered by class.
    rows, columns : ndarray of int64 of shape (n_pairs,)
        The class and the cluster of each pair, numbered from 0.
    """

    counts: Ints
    rows: Ints
    columns: Ints

    @classmethod
    def of(cls, labels_true: Labels, labels_pred: Labels) -> "Contingency":
        """Make one table, of all items."""
        pairs, _, rows, columns = _pairs_of(labels_true, labels_pred)
        return cls(np.bincount(pairs)[None] if len(pairs) else np.zeros((1, 0), np.int64), rows, columns)

    @classmethod
    def without_each(cls, labels_true: Labels, labels_pred: Labels, groups: Ints, number: int) -> "Contingency":
        """Make a table for each group of items, int64 [n] from 0 to number - 1, of all items but those of the group."""
        pairs, n_pairs, rows, columns = _pairs_of(labels_true, labels_pred)
        of_group = np.bincount(groups * n_pairs + pairs, minlength=number * n_pairs).reshape(number, n_pairs)
        return cls(of_group.sum(axis=0) - of_group, rows, columns)

    @cached_property
    def n(self) -> Ints:
        """Return the number of items of each table, [tables]."""
        return self.counts.sum(axis=1)

    @cached_property
    def classes(self) -> Ints:
        """Class sizes a_c, [tables, classes]."""
        return np.add.reduceat(self.counts, find_starts(self.rows), axis=1)

    @cached_property
    def by_cluster(self) -> tuple[Ints, Ints]:
        """The counts in the order of their clusters, and where each cluster begins."""
        order = np.argsort(self.columns, kind="stable")
        return self.counts[:, order], find_starts(self.columns[order])

    @cached_property
    def clusters(self) -> Ints:
        """Cluster sizes b_k, [tables, clusters]."""
        return np.add.reduceat(*self.by_cluster, axis=1)

    @cached_property
    def entropies(self) -> tuple[Floats, Floats]:
        """H(C), H(K), each [tables]."""
        return _entropy(self.classes), _entropy(self.clusters)

    @cached_property
    def information(self) -> Floats:
        """Mutual information I(C;K), which no rounding lifts above the entropies: a score of 1 + 2e-16 fails checks."""
        expected = self.classes[:, self.rows].astype(np.float64) * self.clusters[:, self.columns]
        n, some = self.n[:, None], self.counts > 0
        ratio = np.divide(self.counts, expected, out=np.ones(self.counts.shape), where=some)
        terms = self.counts / n * np.log(np.where(some, ratio * n, 1.0))
        return np.clip(terms.sum(axis=1), 0.0, np.minimum(*self.entropies))

    def dense(self, table: int) -> Ints:
        """Return one table, [classes, clusters]."""
        counts = np.zeros((int(self.rows.max()) + 1, int(self.columns.max()) + 1), dtype=np.int64)
        counts[self.rows, self.columns] = self.counts[table]
        return counts


def _pairs_of(labels_true: Labels, labels_pred: Labels) -> tuple[Ints, int, Ints, Ints]:
    """Return the (class, cluster) pair of each item, the number of pairs, and the class and the cluster of each pair."""
    true, predicted = (np.unique(np.asarray(x), return_inverse=True)[1] for x in (labels_true, labels_pred))
    width = int(predicted.max(initial=-1)) + 1
    names, pairs = np.unique(true.astype(np.int64) * width + predicted, return_inverse=True)
    return pairs, len(names), *np.divmod(names, max(width, 1))


def find_starts(ordered: Ints) -> Ints:
    """Return where each value of an ascending array begins."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))


def _entropy(sizes: Ints) -> Floats:
    share = sizes / np.maximum(sizes.sum(axis=1), 1)[:, None]
    entropy = -(share * np.log(share, out=np.zeros(share.shape), where=share > 0)).sum(axis=1)
    return np.where((sizes > 0).sum(axis=1) > 1, entropy, 0.0)
