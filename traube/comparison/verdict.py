"""The verdict on two sides: which one is better, by how much, and with which certainty.

Every surface quotes this object. A verdict belongs to a family of comparisons that are read
together: the pairs of models of a table, say, or the newcomers that challenge champions. Level and
interval hold for the whole family, by Bonferroni's rule for both: with m comparisons,

    p = min(1, m p_1),        low, high = difference -/+ t(1 - level / 2m, df) error

so that the interval leaves out 0 exactly where p is below the level. docs/explanation/statistics.md lists the
families.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtr, stdtrit  # Student's t; scipy.stats takes half a second to import

from traube._core.hashing import digest
from traube.comparison.jackknife import Difference, Sample, compute_difference

LEVEL = 0.05


class Undecided(Enum):
    """Reason for which nothing is decided between two sides.

    Examples
    --------
    >>> from traube.comparison import Undecided
    >>> Undecided.SAME.value
    'they are the same'
    """

    SAME = "they are the same"
    NO_COMMON_SPLIT = "they have no split in common whose scores are defined, whichever texts are left out"
    ONE_COMMON_SPLIT = "they have 1 scored split in common; two are needed"
    TOO_FEW_TEXTS = "too few texts: the scores are the same whichever are left out, so how much they vary is not known"
    ONE_TRAINING = "one training of a side: what another would give is not known, and not included"
    ONE_SEED = "one split and one seed: what another seed would give is not known, and not included"


@dataclass(frozen=True)
class Verdict:
    """The verdict on side `a` against side `b`.

    Attributes
    ----------
    a : str
        Name of the first side.
    b : str
        Name of the second side.
    about : str
        What is compared: task, level, metric and protocol.
    difference : float
        Mean score of a minus that of b, in the metric's unit; nan without anything in common.
    error : float
        Standard error of the difference.
    df : float
        Degrees of freedom of the error.
    deviation : float
        Standard deviation of the splits' differences; of one split, the error.
    splits : int
        Number of splits that are compared.
    comparisons : int
        Size of the family: for so many comparisons level and interval hold together.
    level : float
        Chance that any comparison of the family is significant where none should be.
    undecided : Undecided or None
        Reason why the numbers decide nothing.
    test : str
        What was computed.

    Examples
    --------
    >>> from traube.comparison import Verdict
    >>> verdict = Verdict("minilm", "tfidf", difference=0.1, error=0.02, df=19, splits=5)
    >>> verdict.answer
    'minilm is better (p < .001, 1 comparison)'
    >>> verdict.evidence
    '+10.00 points (95 % CI +5.81 to +14.19)'
    """

    a: str
    b: str
    about: str = ""
    difference: float = math.nan
    error: float = math.nan
    df: float = math.nan
    deviation: float = math.nan
    splits: int = 0
    comparisons: int = 1
    level: float = LEVEL
    undecided: Undecided | None = None
    test: str = "paired jackknife over texts"

    @property
    def p(self) -> float:
        """Two-sided p-value, times the number of comparisons; nan if nothing can be tested."""
        if math.isnan(self.error):
            return math.nan
        if self.error == 0:  # nothing varies: the sides are equal, or the data say too little
            return 1.0
        return min(1.0, self.comparisons * 2 * float(stdtr(self.df, -abs(self.difference) / self.error)))

    @property
    def low(self) -> float:
        """Lower end of the family's interval of the difference."""
        return self.difference - self._margin

    @property
    def high(self) -> float:
        """Upper end of the family's interval of the difference."""
        return self.difference + self._margin

    @property
    def _margin(self) -> float:
        return float(stdtrit(self.df, 1 - self.level / (2 * self.comparisons))) * self.error

    @property
    def better(self) -> Literal["a", "b", ""]:
        """The side that is significantly better; empty if neither is."""
        if self.undecided or not self.p < self.level:
            return ""
        return "a" if self.difference > 0 else "b"

    @property
    def effect(self) -> float:
        """Effect size, Cohen's d_z: the difference over the standard deviation of the splits' differences."""
        return self.difference / self.deviation if self.deviation > 0 else math.nan

    @property
    def id(self) -> str:
        """Content hash: equal verdicts have equal ids."""
        values = {**vars(self), "undecided": self.undecided and self.undecided.name}
        return digest({name: f"{v:.9g}" if isinstance(v, float) else v for name, v in values.items()})[:12]

    @property
    def significance(self) -> str:
        """The p-value and the number of comparisons, such as `p = .43, 5 comparisons`."""
        return format_significance(self.p, self.comparisons)

    @property
    def answer(self) -> str:
        """The better side, if there is one, in a few words, and how sure that is."""
        if self.undecided:
            return f"undecided: {self.undecided.value}"
        conclusion = f"{getattr(self, self.better)} is better" if self.better else "not significantly different"
        return f"{conclusion} ({self.significance})"

    @property
    def evidence(self) -> str:
        """Difference and confidence interval of scores x100; empty if there are none."""
        if math.isnan(self.difference):
            return ""
        points = f"{100 * self.difference:+.2f} points"
        if math.isnan(self.error):
            return points
        interval = f"{100 * (1 - self.level):g} % CI {100 * self.low:+.2f} to {100 * self.high:+.2f}"
        return f"{points} ({interval}{', by the texts alone' if self.undecided else ''})"

    @property
    def details(self) -> str:
        """The test, and what it was computed from, for who checks it."""
        known = {"standard error": 100 * self.error, "df": self.df, "d_z": self.effect}
        numbers = [f"{name} {value:.3g}" for name, value in known.items() if math.isfinite(value)]
        return ", ".join([self.test, f"{self.splits} split{'' if self.splits == 1 else 's'}", *numbers])

    @property
    def detectable(self) -> float:
        """Difference that is significant in four of five families like this one: what the test can see."""
        return float(ndtri(1 - self.level / (2 * self.comparisons)) + ndtri(0.8)) * self.error

    @property
    def times_to_decide(self) -> float:
        """Factor by which more texts make a difference of this size significant in four of five families like this one."""
        return (self.detectable / self.difference) ** 2

    def at_least(self, level: float) -> float:
        """Return the lower bound that the true difference exceeds, except with a chance of `level`."""
        return self.difference - float(stdtrit(self.df, 1 - level)) * self.error

    def record(self) -> dict[str, Any]:
        """Return the verdict as a JSON-compatible dict: None for a number that does not exist."""
        names = (
            *("id", "a", "b", "about", "answer", "better", "difference", "low", "high", "p", "comparisons", "level"),
            *("effect", "splits", "error", "df", "test"),
        )
        values = {name: getattr(self, name) for name in names}
        values = {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in values.items()}
        return {**values, "undecided": self.undecided and self.undecided.name.lower()}


def to_points(score: float) -> float:
    """Return a score times 100; a last bit that depends on the order of sums decides no rounding."""
    return round(100 * score, 9)


def format_score(score: float) -> str:
    """Return a score times 100 with two decimals; a dash if there is none."""
    return "-" if math.isnan(score) else f"{to_points(score):.2f}"


def format_significance(p: float, comparisons: int) -> str:
    """Return a p-value as journals print it, and the number of comparisons that it is corrected for."""
    if math.isnan(p):
        words = "no p-value"
    elif p < 0.001:
        words = "p < .001"
    else:
        words = f"p = {f'{p:.2g}'.removeprefix('0')}"
    return f"{words}, {comparisons} comparison{'' if comparisons == 1 else 's'}"


def compare(
    a: str, one: Sample, b: str, other: Sample, *, about: str = "", comparisons: int = 1, level: float = LEVEL
) -> Verdict:
    """Compare two samples on the splits that both have, and whose scores and replicates exist.

    With a single split and a single seed of a method that draws random numbers, the interval of the verdict holds what
    the texts explain only, and nothing is decided.

    Parameters
    ----------
    a : str
        Name of the first model.
    one : Sample
        Its scores.
    b : str
        Name of the second model.
    other : Sample
        Its scores.
    about : str, optional
        What is compared: task, level, metric and protocol.
    comparisons : int, default=1
        Number of comparisons that level and interval hold for together.
    level : float, default=0.05
        Chance that any of the comparisons is significant where none should be.

    Returns
    -------
    Verdict
        The verdict on the first model against the second.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.comparison import Sample, compare
    >>> random = np.random.default_rng(42)
    >>> good = Sample(("one", "two"), 0.8 + random.normal(scale=1e-3, size=(2, 21)), noise=0.0, noise_df=1.0)
    >>> poor = Sample(("one", "two"), 0.2 + random.normal(scale=1e-3, size=(2, 21)), noise=0.0, noise_df=1.0)
    >>> compare("good", good, "poor", poor).answer
    'good is better (p = .0043, 1 comparison)'
    """
    shared = one.valid_splits & other.valid_splits
    common = [name for name in one.splits if name in shared]
    family: dict[str, Any] = {"about": about, "comparisons": comparisons, "level": level}
    if not common:
        return Verdict(a, b, **family, undecided=Undecided.NO_COMMON_SPLIT)
    if len(common) == 1 < max(len(one.splits), len(other.splits)):
        return Verdict(a, b, **family, undecided=Undecided.ONE_COMMON_SPLIT)
    one, other = one.on(common), other.on(common)
    difference = compute_difference(one, other)
    undecided = None if one.is_complete and other.is_complete else Undecided.ONE_SEED
    if one.is_trained_once or other.is_trained_once:
        undecided = Undecided.ONE_TRAINING
    if one.training_noise or other.training_noise:
        family["test"] = "paired jackknife over texts, and Welch's over trainings"
    if difference.error == 0 and difference.mean != 0:
        undecided = Undecided.TOO_FEW_TEXTS
    return make_verdict(a, b, difference, len(common), undecided, **family)


def compare_paired(a: str, one: ArrayLike, b: str, other: ArrayLike, *, comparisons: int = 1) -> Verdict:
    """Compare two sides by a paired t-test over units that share no texts, such as pages.

    Parameters
    ----------
    one, other : array-like of shape (n_units,)
        Scores of the sides on the same units.
    """
    d = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    n, mean = len(d), float(d.mean()) if len(d) else math.nan
    family: dict[str, Any] = {"comparisons": comparisons, "test": "paired t-test"}
    if n < 2 or np.allclose(d, mean):
        undecided = Undecided.TOO_FEW_TEXTS if n else Undecided.NO_COMMON_SPLIT
        return Verdict(a, b, difference=mean, splits=n, undecided=undecided, **family)
    deviation = float(d.std(ddof=1))
    difference = Difference(mean, deviation / math.sqrt(n), n - 1.0, deviation)
    return make_verdict(a, b, difference, n, None, **family)


def make_verdict(
    a: str, b: str, difference: Difference, splits: int, undecided: Undecided | None, **family: Any
) -> Verdict:
    """Return the verdict that a difference of two samples makes."""
    given: dict[str, Any] = {"difference": float(difference.mean), "splits": splits, "undecided": undecided, **family}
    if undecided is Undecided.TOO_FEW_TEXTS:  # an error of 0 is no standard error
        return Verdict(a, b, **given)
    return Verdict(
        a, b, **given, error=float(difference.error), df=float(difference.df), deviation=float(difference.deviation)
    )
