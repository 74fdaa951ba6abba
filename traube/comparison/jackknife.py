"""Estimate how much a score, or the difference of two, would vary with other texts and other runs.

A score has two kinds of luck in it: which texts there are, and what a clusterer makes of them.
Splits that are drawn from one corpus share texts, so the first kind is shared between splits; the
second is each clustering's own. With d_j the difference of two models on split j of n (or one
model's score, for its interval):

    d_j = delta + t_j + c_j,        Cov(t_j, t_k) > 0 where the splits share texts, c_j independent

    Var(mean d) = s^2 / n + mean covariance of t_j and t_k over pairs j != k

which holds exactly, s^2 being the sample variance of the d_j. The covariance comes from a
delete-a-group jackknife: the texts are put into 20 groups by their ids, the same in all splits,
and every score is kept with one group left out each time
(`traube.metrics.clustering.replicates`), the clusters staying as they are. Clusters that are made
again would differ too, so the jackknife sees about half of the covariance: `RESPONSE` says by how
much it is multiplied, and the variance is never less than what the jackknife finds for the mean
itself. With one split, s^2 / n is replaced by the variance over seeds. What choosing a best
method adds to the jackknife's variance is added on top.

Where a method was trained, another training would give another model on all splits at once, which
no variation between splits shows. With R trainings whose means over the splits have the sample
variance v, v / R is added for each trained side.

`benchmarks/verdicts.py` holds the simulation by which this was chosen; `docs/explanation/statistics.md` its
model, limits and results.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit  # Student's t; scipy.stats takes half a second to import

from traube._core.short_repr import ShortRepr
from traube.metrics.names import GROUPS

Array: TypeAlias = NDArray[np.float64]
CONFIDENCE = 0.95
# Ratio of the covariance that shared texts cause to the part that the jackknife sees while
# clusters stay as they are.
RESPONSE = 2.0
# Replicates are kept in single precision: a standard error below this counts as 0.
NOTHING = 1e-7


@dataclass(frozen=True, repr=False)
class Sample(ShortRepr):
    """A candidate's scores on some splits, means over its seeds.

    Attributes
    ----------
    splits : tuple of str
        Name of each row's split. Levels of one split are averaged, since they share their texts and more.
    values : ndarray of shape (n, 1 + GROUPS), float64
        The score, then the score without each group of texts.
    noise : float
        Variance of the mean over seeds, if there is one row; 0 if nothing is random, nan if there is one seed.
    noise_df : float
        Degrees of freedom of `noise`.
    means : ndarray of shape (GROUPS,), float64, or None
        Replicates of the mean over splits, if they are not those of the values: see `choose_best`.
    training_noise : float
        Variance of the mean over trainings and splits that is due to the trainings; 0 if nothing was trained, or the
        sample is about the one model that came of it; nan if there is one training.
    training_df : float
        Degrees of freedom of `training_noise`.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.comparison import Sample
    >>> sample = Sample(("first", "second"), np.full((2, 21), 0.5), noise=0.0, noise_df=1.0)
    >>> sample.mean
    0.5
    """

    splits: tuple[str, ...]
    values: Array
    noise: float
    noise_df: float
    means: Array | None = None
    training_noise: float = 0.0
    training_df: float = 1.0

    @classmethod
    def of(cls, scores: pd.DataFrame, seeded: bool, trained: bool = False) -> "Sample":
        """Make a sample from scores of one metric.

        A split without a score in some seed or level has none in the sample. Cells are seeds.

        Parameters
        ----------
        scores : DataFrame
            Columns cell_id, split, level, value and replicates (float [GROUPS], or None where there are none).
        seeded : bool
            Whether the method draws random numbers.
        trained : bool, default=False
            Whether each cell is of a training of its own, and the sample is about the method that trains: what another
            training would give is part of the error.
        """
        (cells, ids), (keys, problems) = (
            pd.factorize(key) for key in (scores["cell_id"], pd.MultiIndex.from_frame(scores[["split", "level"]]))
        )
        table = np.full((len(ids), len(problems), 1 + GROUPS), np.nan)
        table[cells, keys] = stack_values(scores)
        split_of, names = pd.factorize(problems.get_level_values(0))
        values = np.stack([table[:, split_of == i].mean(axis=1) for i in range(len(names))], axis=1)
        seeds = len(ids)
        noise = np.nan if seeded or trained else 0.0
        training_noise = np.nan if trained and len(names) > 1 else 0.0  # of one split, the noise holds it
        if seeds > 1:
            noise = float(values[:, 0, 0].var(ddof=1) / seeds)
            if trained and len(names) > 1:
                training_noise = float(values[:, :, 0].mean(axis=1).var(ddof=1) / seeds)
        df = max(seeds - 1.0, 1.0)
        return cls(tuple(map(str, names)), values.mean(axis=0), noise, df, None, training_noise, df)

    @property
    def mean(self) -> float:
        """Mean over the splits."""
        return float(self.values[:, 0].mean())

    @property
    def is_complete(self) -> bool:
        """True if the variance that the clusterer's randomness causes is known."""
        return len(self.values) > 1 or bool(np.isfinite(self.noise))

    @property
    def is_trained_once(self) -> bool:
        """True if a method that trains has one training: what another would give is not known."""
        return bool(np.isnan(self.training_noise))

    @property
    def valid_splits(self) -> frozenset[str]:
        """The splits whose score and replicates exist."""
        return frozenset(name for name, row in zip(self.splits, self.values, strict=True) if np.isfinite(row).all())

    def on(self, splits: Iterable[str]) -> "Sample":
        """Return the sample restricted to some of its splits."""
        row = {key: i for i, key in enumerate(self.splits)}
        kept = tuple(splits)
        means = self.means if set(kept) == set(self.splits) else None
        return replace(self, splits=kept, values=self.values[[row[key] for key in kept]], means=means)

    @property
    def replicates(self) -> Array:
        """Jackknife replicates of the mean over splits, float64 [GROUPS]."""
        return self.values[:, 1:].mean(axis=0) if self.means is None else self.means


def stack_values(scores: pd.DataFrame) -> Array:
    """Return values with their replicates, float64 [rows, 1 + GROUPS], nan where there are none."""
    none = np.full(GROUPS, np.nan)
    values = np.empty((len(scores), 1 + GROUPS))
    values[:, 0] = scores["value"]
    values[:, 1:] = [none if r is None else r for r in scores["replicates"]] or np.empty((0, GROUPS))
    return values


def choose_best(samples: Sequence[Sample]) -> Sample:
    """Return the best of several samples on the same splits, chosen again in each replicate of the mean.

    The variance that the choice adds is thus part of the interval.
    """
    means = np.stack([sample.values for sample in samples]).mean(axis=1)
    means = np.where(np.isnan(means), -np.inf, means)
    chosen = samples[int(np.argmax(means[:, 0]))]
    return replace(chosen, means=means[:, 1:].max(axis=0))


@dataclass(frozen=True, repr=False)
class Difference(ShortRepr):
    """The difference of two samples on the same splits, or of every pair of several.

    For every pair, each field is an array of shape (n_samples, n_samples).
    """

    mean: Any  # over the splits, in the metric's unit
    error: Any  # its standard error
    df: Any  # degrees of freedom of the error
    deviation: Any  # standard deviation of the splits' differences; of one split, the error


def compute_intervals(samples: Sequence[Sample]) -> Array:
    """Return the 95 % confidence interval of each sample's mean, float64 [m, 2].

    The interval is nan where a score or a replicate does not exist, or nothing varies: for example where a handful of
    texts score 1 whichever are left out.
    """
    bounds = np.full((len(samples), 2), np.nan)
    sizes = np.array([len(sample.values) for sample in samples])
    for n in np.unique(sizes):
        members = np.flatnonzero(sizes == n).tolist()
        batch = [samples[i] for i in members]
        values = np.stack([s.values for s in batch])
        replicates = values[:, :, 1:].mean(axis=1)
        for i, sample in enumerate(batch):
            if sample.means is not None:
                replicates[i] = sample.means
        spread = _Spread.of(values, replicates)
        error, df = _compute_error(spread, np.array([s.noise for s in batch]), np.array([s.noise_df for s in batch]))
        margin = np.where(error == 0, np.nan, stdtrit(df, (1 + CONFIDENCE) / 2) * error)
        bounds[members] = np.column_stack([spread.mean - margin, spread.mean + margin])
    return bounds


def compute_difference(a: Sample, b: Sample) -> Difference:
    """Return the difference a - b of two samples on the same splits, whose scores all exist."""
    spread = _Spread.of((a.values - b.values)[None], (a.replicates - b.replicates)[None])
    noise = a.noise + b.noise
    squares = a.noise**2 / a.noise_df + b.noise**2 / b.noise_df
    difference = _make_difference(spread, noise, noise**2 / squares if squares > 0 else 1.0)  # Welch
    return _add_trainings(Difference(*(value.item() for value in vars(difference).values())), a, b)


def _add_trainings(difference: Difference, a: Sample, b: Sample) -> Difference:
    """Add to a difference's error what other trainings would change, with the degrees of freedom by Satterthwaite."""
    parts = [(s.training_noise, s.training_df) for s in (a, b) if s.training_noise > 0]
    if not parts:
        return difference
    parts.append((difference.error**2, difference.df))
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / df for part, df in parts)
    return replace(difference, error=math.sqrt(variance), df=df)


def compute_differences(samples: Sequence[Sample]) -> Difference:
    """Return the difference of every pair of samples on the same splits, whose scores all exist."""
    values, replicates = (np.stack([getattr(sample, name) for sample in samples]) for name in ("values", "replicates"))
    spread = _Spread.of_pairs(values, replicates)
    noise = np.array([sample.noise for sample in samples])
    squares = noise**2 / np.array([sample.noise_df for sample in samples])
    together = noise[:, None] + noise[None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        df = np.where(together > 0, together**2 / (squares[:, None] + squares[None, :]), 1.0)
    return _make_difference(spread, together, df)


def _make_difference(spread: "_Spread", noise: Any, noise_df: Any) -> Difference:
    error, df = _compute_error(spread, noise, noise_df)
    return Difference(spread.mean, error, df, np.sqrt(spread.between) if spread.n > 1 else error)


@dataclass(frozen=True)
class _Spread:
    """Variation of the differences, of each sample or of every pair."""

    mean: Any  # over splits
    between: Any  # sample variance of the splits; 0 where there is one
    texts: Any  # jackknife variance of the mean
    choice: Any  # what choosing in each replicate adds to it; 0 where nothing is chosen
    within: Any  # jackknife variance of a split, mean over splits
    n: int  # number of splits

    @classmethod
    def of(cls, values: Array, replicates: Array) -> "_Spread":
        """Compute the spread of each sample, from its values, [m, n, 1 + GROUPS], and replicates of their mean, [m, GROUPS]."""
        m, n, _ = values.shape
        scores, left_out = np.ascontiguousarray(values[:, :, 0]), values[:, :, 1:]
        between = scores.var(axis=1, ddof=1) if n > 1 else np.zeros(m)
        texts = _jackknife(left_out.mean(axis=1))
        choice = np.maximum(_jackknife(replicates) - texts, 0)
        return cls(scores.mean(axis=1), between, texts, choice, _jackknife(left_out).mean(axis=1), n)

    @classmethod
    def of_pairs(cls, values: Array, replicates: Array) -> "_Spread":
        """Compute the spread of every pair's difference, from [m, n, 1 + GROUPS] and [m, GROUPS].

        Variances of differences are computed from covariances.
        """
        m, n, _ = values.shape
        scores, left_out = values[:, :, 0], values[:, :, 1:]
        means = scores.mean(axis=1)
        between = _compute_variances(np.cov(scores).reshape(m, m)) if n > 1 else np.zeros((m, m))
        factor = (GROUPS - 1) / GROUPS
        with np.errstate(invalid="ignore"):  # as in `_jackknife`
            centered = (left_out - left_out.mean(axis=2, keepdims=True)).reshape(m, -1)
            fixed, chosen = (x - x.mean(axis=1, keepdims=True) for x in (left_out.mean(axis=1), replicates))
        texts, within, chosen = (_compute_variances(factor * x @ x.T) for x in (fixed, centered / np.sqrt(n), chosen))
        return cls(means[:, None] - means[None, :], between, texts, np.maximum(chosen - texts, 0), within, n)


def _compute_variances(covariance: Array) -> Array:
    variances = np.diag(covariance)
    return np.maximum(variances[:, None] + variances[None, :] - 2 * covariance, 0)


def _jackknife(left_out: Array) -> Any:
    """Return the delete-a-group jackknife variance of [..., GROUPS]; nan where nothing is left without a group."""
    with np.errstate(invalid="ignore"):
        centered = left_out - left_out.mean(axis=-1, keepdims=True)
    return (GROUPS - 1) / GROUPS * (centered**2).sum(axis=-1)


def _compute_error(spread: _Spread, noise: Any, noise_df: Any) -> tuple[Any, Any]:
    """Return the standard error and the degrees of freedom (Satterthwaite) of the mean."""
    if spread.n > 1:
        sampling_variance, sampling_df = spread.between / spread.n, spread.n - 1.0
        # the mean over pairs of splits of the covariance that the replicates show
        covariance = (spread.n * spread.texts - spread.within) / (spread.n - 1)
        # a negative covariance is due to chance: there is nothing to correct
        texts = np.where(covariance > 0, RESPONSE, 1.0) * covariance
        variance = np.maximum(sampling_variance + texts, spread.texts)
    else:
        sampling_variance, sampling_df = np.nan_to_num(noise), noise_df
        texts = RESPONSE * spread.texts
        variance = sampling_variance + texts
    responding = np.maximum(texts, 0)
    squares = _square(sampling_variance) / sampling_df + _square(responding) / (GROUPS - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        df = np.where(squares > 0, _square(sampling_variance + responding) / squares, sampling_df)
    error = np.sqrt(variance + spread.choice)
    return np.where(error < NOTHING, 0.0, error), np.maximum(df, 1.0)


def _square(x: Any) -> Any:
    """Return x ** 2 of one sample or many.

    NumPy's power of an array can differ from its product in the last digit.
    """
    return np.array([v**2 for v in x.tolist()]) if np.ndim(x) == 1 else x**2
