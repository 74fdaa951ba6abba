"""Ranks with ties: the models of a table, and the verdict on every pair of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from traube._core.short_repr import ShortRepr
from traube.comparison._jackknife import Array, Difference, Sample, compute_differences
from traube.comparison._verdict import LEVEL, Undecided, Verdict, compare, make_verdict


@dataclass(frozen=True, repr=False)
class Ranking(ShortRepr):
    """The models of a table. Their pairs are one family of comparisons.

    Attributes
    ----------
    names : tuple of str
        The models.
    found : Difference
        Of every pair, row minus column, [n_models, n_models]; nan where two have nothing in common.
    splits : ndarray of shape (n_models, n_models)
        Number of splits on which two are compared.
    undecided : ndarray of shape (n_models, n_models)
        Why the numbers of a pair decide nothing (`Undecided`), or None.
    about : str
        What is compared: task, level, metric and protocol.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.comparison import Sample, rank
    >>> equal = Sample(("one", "two"), np.full((2, 21), 0.8), noise=0.0, noise_df=1.0)
    >>> rank(["one", "another"], [equal, equal]).ranks.tolist()  # tied
    [[1.0, 2.0], [1.0, 2.0]]
    """

    names: tuple[str, ...]
    found: Difference
    splits: NDArray[np.int64]
    undecided: NDArray[np.object_]
    about: str = ""

    @property
    def comparisons(self) -> int:
        """Number of pairs."""
        return max(1, len(self.names) * (len(self.names) - 1) // 2)

    @cached_property
    def p(self) -> Array:
        """The p-value of every pair, as in `Verdict`; 1 on the diagonal and where nothing is decided."""
        pairs = np.triu_indices(len(self.names), 1)  # the other half is equal, and Student's t takes long
        mean, error, df = (values[pairs] for values in (self.found.mean, self.found.error, self.found.df))
        with np.errstate(invalid="ignore", divide="ignore"):
            tested = self.comparisons * 2 * stdtr(df, -np.abs(mean) / error)
        decided = (error > 0) & (self.undecided[pairs] == None)  # noqa: E711
        p = np.ones(self.found.mean.shape)
        p[pairs] = p.T[pairs] = np.where(decided, np.minimum(tested, 1.0), 1.0)
        return p

    @property
    def ranks(self) -> Array:
        """First and last rank that each model may have, [n_models, 2].

        The first is 1 plus the number of models that are significantly better, the last is n_models minus the number
        that are significantly worse. Models whose ranks overlap are tied. nan for a model that has nothing in common
        with any other.
        """
        n = len(self.names)
        significant, higher = self.p < LEVEL, self.found.mean > 0
        better, worse = (significant & higher).sum(axis=1), (significant & ~higher).sum(axis=1)
        ranks = np.column_stack([1 + worse, n - better]).astype(np.float64)
        compared = np.isfinite(self.found.mean) & ~np.eye(n, dtype=bool)
        ranks[~compared.any(axis=1)] = np.nan
        return ranks

    def verdict(self, a: str, b: str) -> Verdict:
        """Return the verdict on two of the models, corrected for all comparisons of the ranking."""
        i, j = self.names.index(a), self.names.index(b)
        difference = Difference(*(values[i, j] for values in vars(self.found).values()))
        family = {"about": self.about, "comparisons": self.comparisons}
        return make_verdict(a, b, difference, int(self.splits[i, j]), self.undecided[i, j], **family)


def rank(names: Sequence[str], samples: Sequence[Sample], about: str = "") -> Ranking:
    """Compare every pair of models.

    Parameters
    ----------
    names : sequence of str
        The models, the best first.
    samples : sequence of Sample
        The scores of each.
    about : str, optional
        As in `Ranking`.

    Returns
    -------
    Ranking
        The verdicts, corrected for all comparisons.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.comparison import Sample, rank
    >>> random = np.random.default_rng(42)
    >>> good = Sample(("one", "two"), 0.8 + random.normal(scale=1e-3, size=(2, 21)), noise=0.0, noise_df=1.0)
    >>> poor = Sample(("one", "two"), 0.2 + random.normal(scale=1e-3, size=(2, 21)), noise=0.0, noise_df=1.0)
    >>> rank(["good", "poor"], [good, poor]).verdict("good", "poor").answer
    'good is better (p = .0043, 1 comparison)'
    """
    n = len(names)
    same_splits = len({sample.splits for sample in samples}) == 1
    if same_splits and all(np.isfinite(sample.values).all() for sample in samples):
        differences = compute_differences(samples)
        complete = np.array([sample.is_complete for sample in samples])
        undecided = np.full((n, n), None, dtype=object)
        undecided[~(complete[:, None] & complete[None, :])] = Undecided.ONE_SEED
        undecided[(differences.error == 0) & (differences.mean != 0)] = Undecided.TOO_FEW_TEXTS
        return Ranking(tuple(names), differences, np.full((n, n), len(samples[0].values)), undecided, about)
    return _compare_each_pair(names, samples, about)


def _compare_each_pair(names: Sequence[str], samples: Sequence[Sample], about: str) -> Ranking:
    """Compare each pair by itself, on the splits that it has in common."""
    n = len(names)
    mean, error, df, deviation = (np.full((n, n), np.nan) for _ in range(4))
    splits, undecided = np.zeros((n, n), dtype=np.int64), np.full((n, n), None, dtype=object)
    for i in range(n):
        for j in range(i):
            one = compare(names[i], samples[i], names[j], samples[j])
            mean[i, j], mean[j, i] = one.difference, -one.difference
            error[i, j] = error[j, i] = one.error
            df[i, j] = df[j, i] = one.df
            deviation[i, j] = deviation[j, i] = one.deviation
            splits[i, j] = splits[j, i] = one.splits
            undecided[i, j] = undecided[j, i] = one.undecided
    return Ranking(tuple(names), Difference(mean, error, df, deviation), splits, undecided, about)


def find_ties(p: Array) -> list[list[int]]:
    """Return the largest sets of models of which no two differ significantly.

    Parameters
    ----------
    p : ndarray of shape (n_models, n_models)
        The p-value of each pair.

    Returns
    -------
    list of list of int
        Every such set that is in no larger one; a model that differs from all others is in none.
    """
    sets = [frozenset[int]()]
    for model in range(len(p)):
        similar = {other for other in range(model) if p[model, other] >= LEVEL}
        candidates = {*sets, *(one & similar | {model} for one in sets)}
        sets = [one for one in candidates if not any(one < other for other in candidates)]
    return sorted(sorted(one) for one in sets if len(one) > 1)


def rank_by_splits(names: list[str], values: NDArray[np.float64], shared: float = 0.0) -> Ranking:
    """Rank models by paired t-tests over splits, for want of replicates; all pairs are the family of comparisons.

    The tests take splits as independent. Where these share texts, the variance is widened as if all that splits
    differ by came from their texts:

        Var(mean d) = s^2 / n * (1 + (n - 1) r) / (1 - r)

    with r the mean share of texts that two splits have in common (for differences with correlation r, E s^2 = sigma^2
    (1 - r)). That is the most that shared texts can do, so such ranks are wide, and those without it too narrow:
    docs/explanation/statistics.md says why neither is exact. Where the scores of two models are the same but for a
    constant, their variation is unknown, and nothing is decided.

    Parameters
    ----------
    names : list of str
        The models.
    values : ndarray of shape (n_models, n_splits)
        Scores.
    shared : float, default=0.0
        Correlation of splits, from 0 to below 1.
    """
    m, n = values.shape
    centered = values - values.mean(axis=1, keepdims=True)
    covariance = centered @ centered.T / (n - 1)
    variances = np.diag(covariance)
    between = variances[:, None] + variances[None, :] - 2 * covariance
    between = np.where(between > 1e-18, between, 0.0)
    error = np.sqrt(between / n * (1 + (n - 1) * shared) / (1 - shared))
    means = values.mean(axis=1)
    mean = means[:, None] - means[None, :]
    differences = Difference(mean, error, np.full((m, m), n - 1.0), np.sqrt(between))
    return Ranking(tuple(names), differences, np.full((m, m), n), np.full((m, m), None, dtype=object))
