"""The verdict on a day of texts: whether it differs from the days of a reference period more than these do from each other.

A day is compared as a whole, since its texts are not independent of each other: weekends, campaigns and outages make days
differ where nothing drifts. So no table of p-values is trusted. Each day, the judged one among them, gets a score against all
others, and the judged day drifts if its score beats those of all `REFERENCE` days. If nothing drifts, each of the 31 days is
equally likely to have the best score, so that

    P(false alarm on a day) = 1 / (REFERENCE + 1) < 1 / 30,

less than one a month on average, whatever the spread within and between days (a conformal, or permutation, test). Share and
sizes make one score, so nothing has to be corrected for two tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, chdtrc, ndtr, ndtri  # scipy.stats takes half a second to import

from traube._core.arrays import Floats
from traube._core.errors import Invalid, TooFew

REFERENCE = 30  # days of the reference period
FEWEST = 5  # texts that a group has on an average day, on average; smaller ones count as one group
TINY = 1e-300  # a probability that no number can hold is this one

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Drift:
    """The verdict on a day.

    Attributes
    ----------
    share : float
        Share of the day's texts that fit no group.
    usual_share : float
        The same of the reference period.
    p : float
        Share of the days, the judged one among them, whose score is at least as good; at least 1 / 31.
    by_share : bool
        Whether the share of texts that fit no group is higher than usual.
    by_sizes : bool
        Whether the groups have other sizes than usual.
    changes : ndarray of shape (n_groups,)
        Of each group, its share of the texts that fit one less that of the reference period.

    Examples
    --------
    >>> usual = [[40 + day % 3, 60] for day in range(30)]
    >>> judge_day([*usual, [41, 60]], [day % 4 for day in range(31)]).drifts
    False
    >>> judge_day([*usual, [90, 10]], [day % 4 for day in range(31)]).by_sizes
    True
    """

    share: float
    usual_share: float
    p: float
    by_share: bool
    by_sizes: bool
    changes: Floats

    @property
    def drifts(self) -> bool:
        """True if the day differs from the reference period more than any of its days does."""
        return self.by_share or self.by_sizes


def judge_day(sizes: Sequence[Sequence[int]] | Counts, strays: Sequence[int] | Counts) -> Drift:
    """Judge the last of some days against the others, the reference period.

    Parameters
    ----------
    sizes : array of int of shape (31, n_groups)
        Texts of each day that fit each group.
    strays : array of int of shape (31,)
        Texts of each day that fit no group.

    Returns
    -------
    Drift
        The verdict on the last day.

    Raises
    ------
    TraubeError
        If these are not 31 days, or a day has no texts.
    """
    groups, outside = np.asarray(sizes, dtype=np.int64), np.asarray(strays, dtype=np.int64)
    if len(groups) != REFERENCE + 1 or groups.ndim != 2 or outside.shape != groups.shape[:1]:
        raise Invalid(f"drift: {REFERENCE} days of reference and the judged one are needed, not {len(groups)}")
    fitting = groups.sum(axis=1)
    if not (fitting + outside).all():
        raise TooFew("drift: a day has no texts")
    p_share = score_shares(outside, fitting + outside)
    p_sizes = score_sizes(merge_small(groups))
    scores = np.minimum(p_share, p_sizes)
    best = scores[:-1].min()
    usual = groups[:-1].sum(axis=0)
    return Drift(
        share=float(outside[-1] / (outside[-1] + fitting[-1])),
        usual_share=float(outside[:-1].sum() / (outside + fitting)[:-1].sum()),
        p=float((scores <= scores[-1]).mean()),
        by_share=bool(p_share[-1] < best),
        by_sizes=bool(p_sizes[-1] < best),
        changes=groups[-1] / max(1, fitting[-1]) - usual / max(1, usual.sum()),
    )


def merge_small(groups: Counts) -> Counts:
    """Merge the groups that have few texts on an average day into one, the last column; int64 [days, k]."""
    small = groups.mean(axis=0) < FEWEST
    if not small.any():
        return groups
    return np.column_stack([groups[:, ~small], groups[:, small].sum(axis=1)])


def score_sizes(groups: Counts) -> Floats:
    """Return how unlike all other days together the sizes of each day's groups are: small is unlike, float64 [days].

    The chi-squared statistic of a day against the others is divided by how much more days vary than texts that are
    independent of each other would make them.
    """
    df = np.count_nonzero(groups.sum(axis=0)) - 1
    if df < 1:
        return np.ones(len(groups))
    rest = groups.sum(axis=0) - groups
    rows = np.stack([groups, rest], axis=1).astype(np.float64)  # [days, 2, k]
    expected = rows.sum(axis=2, keepdims=True) * rows.sum(axis=1, keepdims=True) / rows.sum(axis=(1, 2), keepdims=True)
    apart = np.divide((rows - expected) ** 2, expected, out=np.zeros_like(rows), where=expected > 0)
    return np.asarray(chdtrc(df, apart.sum(axis=(1, 2)) / _inflate(groups)))


def score_shares(outside: Counts, texts: Counts) -> Floats:
    """Return how much higher each day's share is than that of all other days together: small is high, float64 [days].

    The binomial probability of so many, of which half of the day's own number counts, is widened as in `score_sizes`.
    """
    rate = (outside.sum() - outside) / (texts.sum() - texts)
    more = bdtrc(outside, texts, rate)  # the probability of more than so many
    as_many = np.where(outside > 0, bdtrc(np.maximum(outside - 1, 0), texts, rate), 1.0)
    z = ndtri(np.clip((more + as_many) / 2, TINY, 1 - 1e-16))
    return np.asarray(ndtr(z / np.sqrt(_inflate(np.column_stack([outside, texts - outside])))))


def _inflate(counts: Counts) -> Floats:
    """Return by how much the variance of each day exceeds that of independent texts, at least 1, float64 [days].

    That is 1 + (n - 1) r for a day of n texts, where r is the correlation of two texts of a day, by moments.
    """
    counts = counts[:, counts.sum(axis=0) > 0]
    texts = counts.sum(axis=1)
    if counts.shape[1] < 2:
        return np.ones(len(counts))
    expected = np.outer(texts, counts.sum(axis=0) / counts.sum())
    apart = np.divide((counts - expected) ** 2, expected, out=np.zeros(expected.shape), where=expected > 0)
    inflation = apart.sum() / ((len(counts) - 1) * (counts.shape[1] - 1))
    typical = (texts**2).sum() / texts.sum()
    correlation = np.clip((inflation - 1) / max(1.0, typical - 1), 0, 1)
    return np.asarray(1 + np.maximum(texts - 1, 0) * correlation)
