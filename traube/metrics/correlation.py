"""Agreement of predicted scores with gold scores: Pearson's r and Spearman's rho, with intervals.

Items that belong together (the candidates of one dialogue) are not independent, so a bootstrap for an interval draws
whole groups, with replacement.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from traube._core.arrays import Floats
from traube._core.errors import Malformed

Kind = Literal["pearson", "spearman"]

CONFIDENCE = 0.95
RESAMPLES = 1_000
FEWEST = 6  # groups that an interval needs
SEED = 42
AT_ONCE = 2**21  # weights of items that are held at once


@dataclass(frozen=True)
class Correlation:
    """A correlation and its interval."""

    value: float  # in [-1, 1]; nan where one side does not vary
    # percentile bootstrap interval; nan with fewer than FEWEST groups: three that agree would give a width of 0
    low: float
    high: float
    n: int  # how many items
    groups: int  # how many were drawn from


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's r of two arrays [n]; nan where one side does not vary.

    Parameters
    ----------
    x, y : array-like of float of shape (n_items,)
        The values to compare.

    Returns
    -------
    float
        Pearson's r, or nan.

    Raises
    ------
    TraubeError
        If they are not as many, or a number is NaN or infinite.
    """
    return float(_correlate(*_check_scores(x, y), np.ones((1, np.size(x))))[0])


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's rho: Pearson's r of the ranks, where equal values get their mean rank.

    Arguments and errors are those of `pearson`.
    """
    from scipy.stats import rankdata

    return pearson(*map(rankdata, _check_scores(x, y)))


def correlation(
    kind: Kind,
    x: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Correlation:
    """Return a correlation with a 95 % interval, the percentiles of a bootstrap over groups.

    Parameters
    ----------
    kind : Kind
        The correlation to compute.
    x, y : array-like of float of shape (n_items,)
        The values to compare.
    groups : array-like of shape (n_items,), optional
        The group of each item, drawn as a whole. By default each item is a group by itself.
    resamples : int, default=RESAMPLES
        Number of bootstrap samples.
    seed : int, default=SEED
        Seed of the bootstrap.

    Returns
    -------
    Correlation
        The correlation and its interval.
    """
    left, right = _check_scores(x, y)
    _, member = np.unique(np.arange(len(left)) if groups is None else np.asarray(groups), return_inverse=True)
    value = {"pearson": pearson, "spearman": spearman}[kind](left, right)
    count = int(member.max(initial=-1)) + 1
    if count < FEWEST:
        return Correlation(value, np.nan, np.nan, len(left), count)

    rng, block = np.random.default_rng(seed), max(1, AT_ONCE // len(member))
    resampled = []
    for start in range(0, resamples, block):
        # how often each item is drawn in each resample
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=min(block, resamples - start))
        weights = drawn[:, member].astype(np.float64)
        one, other = (side if kind == "pearson" else _rank_weighted(side, weights) for side in (left, right))
        resampled.append(_correlate(one, other, weights))
    values = np.concatenate(resampled)
    values = values[np.isfinite(values)]
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail]) if len(values) else (np.nan, np.nan)
    return Correlation(value, float(low), float(high), len(left), count)


def _check_scores(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    left, right = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if left.shape != right.shape:
        raise Malformed(f"{left.size} predicted scores and {right.size} gold scores: there must be as many")
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise Malformed("a score is NaN or infinite: it cannot be correlated")
    return left, right


def _correlate(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return Pearson's r under each row of weights [b, n], float64 [b]; x and y are [n] or [b, n]."""
    total = weights.sum(axis=1, keepdims=True)
    # of the original values: a centered constant leaves only rounding errors
    scale = np.abs(x).max(initial=0) * np.abs(y).max(initial=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = (value - (weights * value).sum(axis=1, keepdims=True) / total for value in (x, y))
        spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
        r = (weights * x * y).sum(axis=1) / spread
    return np.clip(np.where(spread > 1e-12 * max(scale, 1e-300), r, np.nan), -1, 1)


def _rank_weighted(values: Floats, weights: Floats) -> Floats:
    """Return ranks in each resample, float64 [b, n], where an item counts as often as it was drawn."""
    order = np.argsort(values, kind="stable")
    begins = np.flatnonzero(np.diff(values[order], prepend=-np.inf))  # where the value changes
    often = np.add.reduceat(weights[:, order], begins, axis=1)
    means = np.cumsum(often, axis=1) - (often - 1) / 2
    place = np.empty(len(values), dtype=np.intp)
    place[order] = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(values)))
    return means[:, place]
