"""Best-worst scaling: each judgment names the best and the worst of a tuple of items (Louviere et al., 2015).

The module computes the scores of items, how often annotators agree with each other (`alpha`, `strong_agreement`) or
with the order of the scores (`compliance`), whether the two halves of the judgments give the same scores
(`split_half`), and which scores an expert contradicts (`find_contradicted`), as Asaadi et al. (2022) do. Scores are
counted here; `traube.papers.giccs.value_scoring` has the scores that are learned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from traube._core.arrays import Bools, Floats, Ints
from traube._core.errors import Malformed, TooFew
from traube.metrics.correlation import spearman

SEED = 42
REPETITIONS = 3  # of split halves, as in the paper
STRONG = 0.8  # share of a tuple's annotators who agree: in the paper, four of five


@dataclass(frozen=True)
class Judgments:
    """Judgments of annotators: the best and the worst item of each tuple."""

    items: tuple[str, ...]  # their names
    shown: Ints  # the items of each judgment's tuple, in any order, [j, m]
    best: Ints  # the items that were chosen, [j]
    worst: Ints
    annotators: Ints  # who judged, [j]
    tuples: Ints  # which tuple was judged, [j]: judgments of the same items are of the same tuple

    @classmethod
    def of(
        cls,
        item_sets: Sequence[Sequence[str]] | NDArray[np.object_],
        best: Sequence[str],
        worst: Sequence[str],
        annotators: Sequence[str],
    ) -> Self:
        """Make judgments from names."""
        if not len(best):
            raise TooFew("there are no judgments")
        named = np.asarray(item_sets, dtype=object).reshape(len(best), -1)
        codes, names = pd.factorize(np.concatenate([named.ravel(), best, worst]), sort=True)
        items, chosen = codes[: named.size].reshape(named.shape), codes[named.size :].reshape(2, -1)

        same = chosen[0] == chosen[1]
        absent = ~(items[:, :, None] == chosen.T[:, None, :]).any(axis=1).all(axis=1)
        for fault, reason in ((same, "is best and worst at once"), (absent, "was chosen and is not shown")):
            if fault.any():
                first = int(np.flatnonzero(fault)[0])
                both = sorted({str(names[item]) for item in chosen[:, first]})
                raise Malformed(f"judgment {first}: {' or '.join(both)} {reason}")

        tuples = pd.DataFrame(np.sort(items, axis=1)).groupby(list(range(items.shape[1]))).ngroup().to_numpy()
        people = pd.factorize(np.asarray(annotators, dtype=object))[0]
        return cls(tuple(map(str, names)), items, chosen[0], chosen[1], people, tuples)

    def __len__(self) -> int:
        return len(self.best)

    def where(self, kept: Bools) -> Self:
        """Select judgments by `kept`, bool [j]; items keep their numbers."""
        rows = np.flatnonzero(kept)
        arrays = {name: getattr(self, name)[rows] for name in ("shown", "best", "worst", "annotators", "tuples")}
        return replace(self, **arrays)

    def select_items(self, chosen: Bools) -> Self:
        """Select the judgments of which every item is among `chosen`, bool [items]."""
        return self.where(np.asarray(chosen[self.shown].all(axis=1), dtype=bool))


AlphaOf: TypeAlias = Literal["slots", "items", "pairs"]
Scoring: TypeAlias = Callable[[Judgments], Floats]  # a score for each item, nan where it was not shown


def counting_scores(judgments: Judgments) -> Floats:
    """Return each item's score, float64 [items] in [0, 1]; nan for an item that was not shown.

    The score is the share of the item's judgments in which it was best less the share in which it was worst, in
    [-1, 1], moved to [0, 1] by (x + 1) / 2 (section 3.4; Orme, 2009). So the scores of items that were shown
    equally often have the mean 0.5.
    """
    n, answers = len(judgments.items), (judgments.best, judgments.worst, judgments.shown)
    best, worst, seen = (np.bincount(items.ravel(), minlength=n) for items in answers)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (np.divide(best - worst, seen) + 1) / 2


def implied_pairs(judgments: Judgments) -> tuple[Ints, Ints, Ints]:
    """Return the pairs of items that judgments put in order: the best before all others, all others before the worst.

    A judgment of m items gives 2m - 3 pairs.

    Returns
    -------
    winners, losers : ndarray of shape (n_pairs,)
        The item that is better, and the one that is worse.
    judged : ndarray of shape (n_pairs,)
        Which judgment says so.
    """
    best, worst = judgments.best, judgments.worst
    rows, slots = np.nonzero((judgments.shown != best[:, None]) & (judgments.shown != worst[:, None]))
    others = judgments.shown[rows, slots]
    winners, losers = np.concatenate([best, best[rows], others]), np.concatenate([worst, others, worst[rows]])
    return winners, losers, np.concatenate([np.arange(len(judgments)), rows, rows])


def krippendorff_alpha(units: ArrayLike, values: ArrayLike) -> float:
    """Return Krippendorff's alpha for nominal values: 1 is perfect agreement, 0 is chance.

    Floats are given one a row, so what a coder left out is simply absent; a unit with one value
    counts for nothing. The result is nan where no unit has two values, or where all values of
    all units are the same, so that nothing could disagree.

    Parameters
    ----------
    units : array-like of int of shape (n_values,)
        The unit that each value belongs to.
    values : array-like of int of shape (n_values,)
        The values given to the units, one for each coder.

    Returns
    -------
    float
        Alpha, or nan.

    Notes
    -----
    alpha = 1 - D_o / D_e. A unit with m values adds each ordered pair of them 1 / (m - 1) times to
    the coincidences, whose sum is n. D_o is the share of unequal pairs in them, D_e that of all
    pairs that could be made of the n values (Krippendorff, 2004, chapter 11).

    Examples
    --------
    >>> round(krippendorff_alpha([1, 1, 2, 2, 3, 3], [0, 0, 1, 1, 0, 1]), 3)
    0.444
    """
    _, unit = np.unique(np.asarray(units), return_inverse=True)
    kinds, value = np.unique(np.asarray(values), return_inverse=True)
    sizes = np.bincount(unit, minlength=1)
    paired = sizes[unit] >= 2
    unit, value = unit[paired], value[paired]
    n = len(unit)
    if n == 0:
        return np.nan
    of_unit, counts = np.unique(unit * len(kinds) + value, return_counts=True)
    agreeing = (counts * (counts - 1) / (sizes[of_unit // len(kinds)] - 1)).sum()
    totals = np.bincount(value, minlength=len(kinds)).astype(np.float64)
    expected = 1 - (totals * (totals - 1)).sum() / (n * (n - 1.0))
    return float(1 - (1 - agreeing / n) / expected) if expected > 0 else np.nan


def alpha(judgments: Judgments, reading: AlphaOf = "slots") -> float:
    """Return Krippendorff's alpha of the answers, in one of three readings; the paper does not say which one it uses.

    Parameters
    ----------
    judgments : Judgments
        The judgments.
    reading : {"slots", "items", "pairs"}, default="slots"
        What agrees. `slots`: a unit is a question (best or worst) about a tuple, and the value of an answer is which of the
        tuple's places the item has, in an order that is drawn for each tuple, the same for all annotators: then chance is
        1 / m. `items`: the same unit, and the item itself is the value: of many tuples nearly no two are equal by chance,
        which makes alpha larger. `pairs`: a unit is a tuple, and its value best and worst together, by their places: two
        annotators agree only if both answers do.

    Returns
    -------
    float
        Alpha, as in `krippendorff_alpha`.
    """
    best, worst = judgments.best, judgments.worst
    if len(judgments) and reading != "items":
        _, first, tuples = np.unique(judgments.tuples, return_index=True, return_inverse=True)
        order = np.sort(judgments.shown[first], axis=1)
        order = np.random.default_rng(SEED).permuted(order, axis=1)[tuples]
        best, worst = (np.argmax(order == answer[:, None], axis=1) for answer in (best, worst))
    if reading == "pairs":
        return krippendorff_alpha(judgments.tuples, judgments.shown.shape[1] * best + worst)
    units = np.concatenate([2 * judgments.tuples, 2 * judgments.tuples + 1])
    return krippendorff_alpha(units, np.concatenate([best, worst]))


def strong_agreement(judgments: Judgments) -> tuple[float, float]:
    """Return the share of tuples about which most annotators (`STRONG`) gave the same answer, for best and for worst.

    Tuples that one annotator judged do not count; nan if there are no others.
    """
    sizes = np.bincount(judgments.tuples)
    several = sizes >= 2
    if not several.any():
        return np.nan, np.nan
    strong = []
    for answers in (judgments.best, judgments.worst):
        width = int(answers.max(initial=0)) + 1
        keys, often = np.unique(judgments.tuples * width + answers, return_counts=True)
        commonest = np.zeros(len(sizes), dtype=np.int64)
        np.maximum.at(commonest, keys // width, often)
        strong.append(float((commonest >= np.ceil(STRONG * sizes - 1e-9))[several].mean()))
    return strong[0], strong[1]


def compliance(judgments: Judgments, scores: ArrayLike) -> Floats:
    """Return each annotator's share of implied pairs that scores order as the annotator does (Hollis, 2017).

    Unlike `alpha`, compliance needs no tuple that several annotators judged. Guessing gives 0.5 of many items, and less
    where scores are tied: a tie is not in the annotator's order.

    Parameters
    ----------
    judgments : Judgments
        Pairs are taken from all of them.
    scores : array-like of shape (n_items,)
        Scores of the items, usually those of the same judgments.

    Returns
    -------
    ndarray of shape (n_annotators,)
        In the order of the annotators' numbers.
    """
    values = np.asarray(scores, dtype=np.float64)
    winners, losers, judged = implied_pairs(judgments)
    _, people = np.unique(judgments.annotators, return_inverse=True)
    ordered = values[winners] > values[losers]
    return np.bincount(people[judged], ordered) / np.bincount(people[judged])


def split_half(
    judgments: Judgments, repetitions: int = REPETITIONS, seed: int = SEED, scoring: Scoring = counting_scores
) -> Floats:
    """Return Spearman's rho between the scores of two halves of the judgments, float64 [repetitions].

    The judgments of each tuple are divided at random: of five, two give the one score and three the other (section
    4.2). A tuple that was judged once has no half of its own: where all are, see `split_half_of_annotators`. Items that
    one half does not show are left out; nan where fewer than two are left.
    """
    rng = np.random.default_rng(seed)
    sizes = np.bincount(judgments.tuples)
    begins = np.cumsum(sizes) - sizes
    half = sizes // 2
    rhos = []
    for _ in range(repetitions):
        order = np.argsort(judgments.tuples + rng.random(len(judgments)))  # by tuple, within it at random
        tuples = judgments.tuples[order]
        is_first = np.zeros(len(judgments), dtype=bool)
        is_first[order] = np.arange(len(order)) - begins[tuples] < half[tuples]
        rhos.append(_rho(judgments, is_first, scoring))
    return np.array(rhos)


def split_half_of_annotators(
    judgments: Judgments,
    annotators: int,
    repetitions: int = REPETITIONS,
    seed: int = SEED,
    scoring: Scoring = counting_scores,
) -> Floats:
    """Return Spearman's rho as in `split_half`, between two random groups of so many annotators each.

    Use this function where each tuple is judged once. For a growing number of annotators, the values tell how many
    annotators are needed.
    """
    people = np.unique(judgments.annotators)
    most = len(people) // 2
    if not 1 <= annotators <= most:
        there = f"there are {len(people)}, so a group has 1 to {most}"
        raise TooFew(f"two groups of {annotators} annotators: {there}")
    rng = np.random.default_rng(seed)
    rhos = []
    for _ in range(repetitions):
        drawn = rng.permutation(people)[: 2 * annotators]
        both = judgments.where(np.isin(judgments.annotators, drawn))
        rhos.append(_rho(both, np.isin(both.annotators, drawn[:annotators]), scoring))
    return np.array(rhos)


def _rho(judgments: Judgments, is_first: Bools, scoring: Scoring) -> float:
    """Return Spearman's rho between the scores of some judgments and of the others."""
    if not is_first.any():
        return np.nan
    first, second = scoring(judgments.where(is_first)), scoring(judgments.where(~is_first))
    both = np.isfinite(first) & np.isfinite(second)
    return spearman(first[both], second[both]) if np.count_nonzero(both) >= 2 else np.nan


def summarize(rhos: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of the finite values; nan where there are too few."""
    known = rhos[np.isfinite(rhos)]
    mean = float(known.mean()) if len(known) else np.nan
    return mean, float(known.std(ddof=1)) if len(known) > 1 else np.nan


def spearman_brown(rho: ArrayLike) -> Floats:
    """Estimate the reliability of the whole from the correlation of halves: 2 rho / (1 + rho); nan for -1.

    The paper does not use this estimate.
    """
    halves = np.asarray(rho, dtype=np.float64)
    return 2 * halves / np.where(halves > -1, 1 + halves, np.nan)


def find_contradicted(scores: ArrayLike, above: ArrayLike) -> Bools:
    """Return which scores in [0, 1] an expert contradicts, bool [n].

    The expert says whether each score is above 0.5 (section 4.3). A score of exactly 0.5, and one that is nan,
    contradicts nothing.
    """
    values, is_above = np.asarray(scores, dtype=np.float64), np.asarray(above, dtype=bool)
    return np.where(is_above, values < 0.5, values > 0.5)


@dataclass(frozen=True)
class Reliability:
    """Measures of how far judgments can be trusted, and their number."""

    items: int
    tuples: int
    judgments: int
    annotators: int
    alpha: float  # Krippendorff's, of both questions, by the tuples' slots
    alpha_items: float  # the same by the items themselves
    alpha_pairs: float  # of both answers together
    strong_best: float  # shares of tuples
    strong_worst: float
    compliance: float  # mean and minimum over the annotators, by the scores that are counted
    compliance_min: float
    split_half: float  # mean and standard deviation over the repetitions
    split_half_sd: float


def reliability(judgments: Judgments, *, repetitions: int = REPETITIONS) -> Reliability:
    """Return all measures of agreement at once."""
    mean, deviation = summarize(split_half(judgments, repetitions))
    best, worst = strong_agreement(judgments)
    compliances = compliance(judgments, counting_scores(judgments))
    return Reliability(
        items=len(np.unique(judgments.shown)),
        tuples=len(np.unique(judgments.tuples)),
        judgments=len(judgments),
        annotators=len(np.unique(judgments.annotators)),
        alpha=alpha(judgments),
        alpha_items=alpha(judgments, "items"),
        alpha_pairs=alpha(judgments, "pairs"),
        strong_best=best,
        strong_worst=worst,
        compliance=float(compliances.mean()) if len(compliances) else np.nan,
        compliance_min=float(compliances.min(initial=1)) if len(compliances) else np.nan,
        split_half=mean,
        split_half_sd=deviation,
    )
