"""Is one model really better than another? Paired tests, corrections for many of them, and intervals.

Splits that are drawn from one corpus share texts, so their scores are not independent, and a plain paired test calls far too
many differences significant (`benchmarks/false_promotions.py` shows how many). Here the difference of split j is taken as

    d_j = delta + mean over the split's texts of e_i + noise,

where a text's effect e_i is the same in all splits that hold it. Then Cov(d_i, d_j) is proportional to
S_ij = |i n j| / (|i| |j|), which `shared` computes from the splits themselves, and `paired_t` widens its interval by it: for
splits of one size this is the corrected resampled t-test of Nadeau & Bengio (2003). The noise that a clustering adds is not
shared, so that leaving it out of S errs on the safe side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, stats

from traube.errors import TraubeError

Array: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]
CONFIDENCE = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True)
class Test:
    """What a paired test found.

    Attributes
    ----------
    name : the test
    difference : mean difference, in the metric's unit
    low, high : 95 % confidence interval of it; nan where the test gives none
    p : two-sided
    effect : Cohen's d_z, the mean difference over the standard deviation of the differences; nan where that is 0
    n : number of pairs (splits, or texts)
    """

    __test__ = False  # not one of pytest's

    name: str
    difference: float
    low: float
    high: float
    p: float
    effect: float
    n: int


def shared(splits: Sequence[ArrayLike]) -> Array:
    """S_ij = |i n j| / (|i| |j|) of splits given by the ids of their texts: float64 [n, n]. Disjoint splits give a diagonal.

    A text that occurs twice in a split counts twice.
    """
    names, codes = np.unique(np.concatenate([np.asarray(s) for s in splits]), return_inverse=True)
    sizes = np.array([len(np.asarray(s)) for s in splits])
    rows = np.repeat(np.arange(len(splits)), sizes)
    counts = sparse.csr_matrix((np.ones(len(codes)), (rows, codes)), shape=(len(splits), len(names)))
    return np.asarray((counts @ counts.T).todense() / np.outer(sizes, sizes), dtype=np.float64)


def paired_t(differences: ArrayLike, covariance: Array | None = None) -> Test:
    """Paired t-test of differences [n], corrected for what the splits share.

    Parameters
    ----------
    covariance : [n, n], up to a factor, as from `shared`; by default the differences count as independent

    The variance of the mean is s^2 (1/n + r / (1 - r)) with r the mean covariance of two splits over the mean variance of one;
    degrees of freedom after Satterthwaite. Splits that all hold the same texts (r = 1) decide nothing: p = 1.
    """
    d = _checked(differences)
    n, mean, s = len(d), float(np.mean(d)), float(np.std(d, ddof=1))
    shape = np.eye(n) if covariance is None else covariance
    r = float((shape.sum() - np.trace(shape)) / (n * (n - 1)) / (np.trace(shape) / n))
    name = "paired t-test" if r == 0 else "paired t-test, corrected for shared texts"
    if r > 1 - 1e-9:
        return Test(name, mean, -np.inf, np.inf, 1.0, _effect(mean, s), n)
    centred = shape - shape.mean(axis=0) - shape.mean(axis=1)[:, None] + shape.mean()
    df = float(np.trace(centred) ** 2 / (centred**2).sum())
    error = s * float(np.sqrt(1 / n + r / (1 - r)))
    return _student(name, mean, error, df, _effect(mean, s), n)


def _student(name: str, mean: float, error: float, df: float, effect: float, n: int) -> Test:
    if error == 0:
        return Test(name, mean, mean, mean, float(mean == 0), effect, n)
    margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, df) * error)
    p = float(2 * stats.t.sf(abs(mean) / error, df))
    return Test(name, mean, mean - margin, mean + margin, p, effect, n)


def wilcoxon(differences: ArrayLike) -> Test:
    """Wilcoxon's signed-rank test of independent differences [n] (no splits that share texts). No interval."""
    d = _checked(differences)
    p = float(stats.wilcoxon(d).pvalue) if np.any(d != 0) else 1.0
    return Test("Wilcoxon", float(d.mean()), np.nan, np.nan, p, _effect(d.mean(), d.std(ddof=1)), len(d))


def permutation(differences: ArrayLike, seed: int = 0) -> Test:
    """Paired permutation test: signs of independent differences [n] flipped at random, all of them where they are few."""
    d = _checked(differences)
    found = stats.permutation_test(
        (d,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(seed),
    )
    return Test(
        "permutation", float(d.mean()), np.nan, np.nan, float(found.pvalue), _effect(d.mean(), d.std(ddof=1)), len(d)
    )


def bootstrap(differences: ArrayLike, seed: int = 0) -> Test:
    """Paired bootstrap of the mean of independent differences [n]: percentile interval, and p from its shifted distribution."""
    d = _checked(differences)
    rng = np.random.default_rng(seed)
    means = np.array([rng.choice(d, len(d)).mean() for _ in range(RESAMPLES)])
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    p = (1 + int((abs(means - d.mean()) >= abs(d.mean())).sum())) / (1 + RESAMPLES)
    return Test("bootstrap", float(d.mean()), float(low), float(high), p, _effect(d.mean(), d.std(ddof=1)), len(d))


def bootstrap_texts(
    labels: Codes,
    clusters_a: Sequence[Codes],
    clusters_b: Sequence[Codes],
    metric: Callable[[Codes, Codes], float],
    resamples: int = 200,
    seed: int = 0,
) -> Test:
    """For a single split: is metric(A) - metric(B) more than the choice of texts and the clusterings' seeds explain?

    Parameters
    ----------
    labels : int64 [n], gold labels
    clusters_a, clusters_b : the clusters, int64 [n], that each of several seeds found; one entry where the method has no seed
    metric : of (labels, clusters)

    The texts are resampled, for all clusterings alike; the variance of the difference is that of the resamples plus that of the
    means over seeds (Welch). The effect is the difference over that standard error.
    """
    rng = np.random.default_rng(seed)

    def scores(side: Sequence[Codes], rows: NDArray[np.int64] | slice) -> Array:
        return np.array([metric(labels[rows], clusters[rows]) for clusters in side])

    whole_a, whole_b = scores(clusters_a, slice(None)), scores(clusters_b, slice(None))
    draws = (rng.integers(0, len(labels), len(labels)) for _ in range(resamples))
    varied = [float(scores(clusters_a, rows).mean() - scores(clusters_b, rows).mean()) for rows in draws]
    parts = [(float(np.var(varied, ddof=1)), np.inf)]
    parts += [(float(np.var(w, ddof=1)) / len(w), len(w) - 1.0) for w in (whole_a, whole_b) if len(w) > 1]
    total = sum(v for v, _ in parts)
    spread = sum(v**2 / df for v, df in parts)
    df = total**2 / spread if spread else np.inf
    mean, error = float(whole_a.mean() - whole_b.mean()), float(np.sqrt(total))
    return _student("paired bootstrap over texts", mean, error, df, _effect(mean, error), len(labels))


def bonferroni(p: ArrayLike) -> Array:
    """p-values [n] times n, at most 1."""
    values = np.asarray(p, dtype=np.float64)
    return np.minimum(values * len(values), 1.0)


def holm(p: ArrayLike) -> Array:
    """p-values [n] corrected step by step (Holm 1979): holds the family-wise level, and is never stricter than Bonferroni."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def _checked(differences: ArrayLike) -> Array:
    d = np.asarray(differences, dtype=np.float64)
    if d.ndim != 1 or len(d) < 2 or not np.isfinite(d).all():
        raise TraubeError(f"a paired test needs at least two finite differences; these are {d.tolist()}")
    return d


def _effect(mean: float, s: float) -> float:
    return float(mean / s) if s > 0 else float("nan")
