"""Isolation forests (Liu, Ting & Zhou 2008), one for each cluster, dense or sparse.

scikit-learn's forest takes a tenth of a second, mostly to build a hundred estimators, and iterative classification
needs one for each of 150 clusters up to fifty times. Here all clusters' forests take that long together.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube.components._estimators.compiled import compiled

# Where each row's numbers begin, their columns, the numbers themselves, and the number of columns.
# The columns of a row that has all of them are not read.
Rows: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], int]

SAMPLE = 256  # texts that a tree is grown from, the paper's
TRIES = 64  # draws of a column that tells texts apart, before any will do, or they count as all the same
STACK = 64


def depths(X: Any, labels: NDArray[np.int64], trees: int, seed: int) -> NDArray[np.float64]:
    """Return the mean depth of each text in the isolation forest of its cluster, float64 [n].

    The mean is over the trees: E(h(x)) of the paper's equation 2. The smaller the depth, the more the text is an
    outlier. X is [n, d], dense or csr with sorted columns.
    """
    order = np.argsort(labels, kind="stable")
    _, sizes = np.unique(labels, return_counts=True)
    mean_depths = np.empty(len(labels))
    mean_depths[order] = _forests(rows_of(X), order, np.cumsum([0, *sizes]), trees, seed)
    return mean_depths


def rows_of(X: Any) -> Rows:
    """Return a matrix as `depths` reads it.

    The matrix is always in single precision, so that the code is compiled once.
    """
    if sparse.issparse(X):
        return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.float32), X.shape[1]
    n, d = X.shape
    values = np.array(X, dtype=np.float32, order="C").ravel()  # a copy: numba compiles again for a read-only array
    return np.arange(n + 1, dtype=np.int64) * d, np.empty(0, dtype=np.int32), values, d


@compiled
def _forests(X: Any, order: Any, edges: Any, trees: int, seed: int) -> Any:
    """Return the mean depths of the texts in `order`, whose clusters lie between the `edges`."""
    np.random.seed(seed)  # noqa: NPY002 (numba's own generator)
    mean_depths = np.zeros(len(order))
    nodes = 2 * SAMPLE
    column = np.empty((trees, nodes), dtype=np.int32)  # -1 for a leaf
    split = np.empty((trees, nodes))  # of a leaf: the depth of its texts
    child = np.empty((trees, nodes), dtype=np.int32)  # the left one; the right one is next to it
    for c in range(len(edges) - 1):
        members = order[edges[c] : edges[c + 1]]
        size = min(SAMPLE, len(members))
        drawn = members.copy()
        for t in range(trees):
            for i in range(size):
                j = np.random.randint(i, len(drawn))  # noqa: NPY002
                drawn[i], drawn[j] = drawn[j], drawn[i]
            _grow(X, drawn[:size].copy(), column[t], split[t], child[t])
        for i in range(len(members)):
            for t in range(trees):
                node = 0
                while column[t, node] >= 0:
                    node = child[t, node] + (_value(X, members[i], column[t, node]) > split[t, node])
                mean_depths[edges[c] + i] += split[t, node]
    return mean_depths / trees


@compiled
def _grow(X: Any, sample: Any, column: Any, split: Any, child: Any) -> None:
    """Grow a tree; `sample` is put into another order."""
    limit = int(np.ceil(np.log2(max(len(sample), 2))))
    waiting = np.empty((STACK, 4), dtype=np.int64)  # start, end, depth, node
    waiting[0] = 0, len(sample), 0, 0
    count, used = 1, 1
    while count:
        count -= 1
        start, end, depth, node = waiting[count]
        drawn, low, high = -1, 0.0, 0.0
        if depth < limit and end - start > 1:
            drawn, low, high = _draw_column(X, sample[start:end])
        column[node] = drawn
        if drawn < 0:
            split[node] = depth + _unsplit(end - start)
            continue
        at = low + np.random.random() * (high - low)  # noqa: NPY002
        at = at if at < high else low
        split[node], child[node] = at, used
        middle = start
        for i in range(start, end):
            if _value(X, sample[i], drawn) <= at:
                sample[i], sample[middle] = sample[middle], sample[i]
                middle += 1
        waiting[count] = start, middle, depth + 1, used
        waiting[count + 1] = middle, end, depth + 1, used + 1
        count, used = count + 2, used + 2


@compiled
def _draw_column(X: Any, texts: Any) -> tuple[int, float, float]:
    """Draw a column that tells the texts apart, each with equal probability.

    Return it with its smallest and its largest number; -1 if there is none.
    """
    begins, columns, _, width = X
    total = 0
    for row in texts:
        total += begins[row + 1] - begins[row]
    if total == 0:
        return -1, 0.0, 0.0
    full = total == len(texts) * width
    spare, spare_low, spare_high = -1, 0.0, 0.0
    for _ in range(TRIES):
        if full:
            drawn = np.random.randint(width)  # noqa: NPY002
        else:
            entry, i = np.random.randint(total), 0  # noqa: NPY002
            while entry >= begins[texts[i] + 1] - begins[texts[i]]:
                entry -= begins[texts[i] + 1] - begins[texts[i]]
                i += 1
            at = begins[texts[i]] + entry
            drawn = columns[at] if begins[texts[i] + 1] - begins[texts[i]] < width else entry
        low = high = _value(X, texts[0], drawn)
        has = 0
        for row in texts:
            value = _value(X, row, drawn)
            low, high = min(low, value), max(high, value)
            has += value != 0
        if high == low:
            continue
        # a column is drawn as often as texts have it
        if full or np.random.random() * has < 1:  # noqa: NPY002
            return drawn, low, high
        spare, spare_low, spare_high = drawn, low, high
    return spare, spare_low, spare_high


@compiled
def _value(X: Any, row: int, column: int) -> float:
    begins, columns, values, width = X
    low, end = begins[row], begins[row + 1]
    if end - low == width:
        return values[low + column]
    high = end
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return values[low] if low < end and columns[low] == column else 0.0


@compiled
def _unsplit(n: int) -> float:
    """Return the mean depth of n texts in a tree that goes on until each is alone (equation 1)."""
    if n < 2:
        return 0.0
    if n == 2:
        return 1.0
    return 2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n
