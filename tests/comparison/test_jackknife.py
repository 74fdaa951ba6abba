"""Intervals and paired tests: what they say where the answer is known; that they hold their level, and find what is there.

The choice of the test, over 96 settings of real vectors, is `benchmarks/verdicts.py`; here are two small settings of it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from traube.comparison.jackknife import RESPONSE, Sample, choose_best, compute_intervals
from traube.comparison.ranking import rank
from traube.comparison.verdict import Undecided, Verdict, compare
from traube.metrics import GROUPS
from traube.metrics._contingency import Contingency
from traube.metrics._measures import compute_measures
from traube.metrics.clustering import replicates

METRIC = "v_measure/noise_as_cluster"


def sample(scores: Sequence[float], left_out: np.ndarray | None = None, noise: float = 0.0, df: float = 2.0) -> Sample:
    """A sample whose replicates, [n, GROUPS], are deviations from the scores; by default the texts do not matter."""
    values = np.repeat(np.asarray(scores, dtype=np.float64)[:, None], 1 + GROUPS, axis=1)
    if left_out is not None:
        values[:, 1:] += left_out
    return Sample(tuple(f"s{i}" for i in range(len(values))), values, noise, df)


def difference(one: Sample, other: Sample) -> Verdict:
    return compare("one", one, "other", other)


def interval(one: Sample) -> tuple[float, float]:
    low, high = compute_intervals([one])[0]
    return float(low), float(high)


def zero(n: int) -> Sample:
    return sample([0.0] * n)


def jackknife(left_out: np.ndarray) -> float:
    return float((GROUPS - 1) / GROUPS * ((left_out - left_out.mean()) ** 2).sum())


# what the formula says


@given(seed=st.integers(0, 1000), n=st.integers(2, 40))
def test_where_texts_do_not_matter_it_is_the_paired_t_test(seed: int, n: int) -> None:
    d = np.random.default_rng(seed).normal(0.3, 1, n)
    expected = stats.ttest_1samp(d, 0)
    found = difference(sample(d), zero(n))
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert interval(sample(d)) == pytest.approx((found.low, found.high))
    assert found.at_least(0.025) == pytest.approx(found.low)
    assert found.at_least(0.05) > found.low


def test_what_splits_share_is_added_and_what_they_do_not_share_is_not() -> None:
    rng = np.random.default_rng(0)
    scores, one, other = [0.1, 0.3], rng.normal(0, 0.05, GROUPS), rng.normal(0, 0.05, GROUPS)
    own = np.var(scores, ddof=1) / 2
    alike = difference(sample(scores, np.stack([one, one])), zero(2))
    assert alike.error**2 == pytest.approx(own + RESPONSE * jackknife(one))
    covariance = float((GROUPS - 1) / GROUPS * ((one - one.mean()) * (other - other.mean())).sum())
    assert covariance > 0
    apart = difference(sample(scores, np.stack([one, other])), zero(2))
    assert apart.error**2 == pytest.approx(max(own + RESPONSE * covariance, jackknife((one + other) / 2)))


def test_of_one_split_the_texts_and_the_seeds_are_counted() -> None:
    left_out = np.random.default_rng(0).normal(0, 0.01, GROUPS)
    a, b = sample([0.5], left_out[None], noise=0.0001), sample([0.4], noise=0.0002)
    assert difference(a, b).error ** 2 == pytest.approx(RESPONSE * jackknife(left_out) + 0.0003)
    assert difference(a, b).undecided is None


def test_one_split_and_one_seed_have_an_interval_that_says_what_it_lacks() -> None:
    varied = np.arange(GROUPS)[None] / 1000
    a, b = sample([0.5], varied, noise=np.nan), sample([0.4], -varied, noise=np.nan)
    assert difference(a, b).undecided is Undecided.ONE_SEED and difference(a, b).better == ""
    assert not a.is_complete
    low, high = interval(a)
    assert low < 0.5 < high


@pytest.mark.parametrize("alike", [True, False])
def test_every_pair_of_a_table_is_each_pair_by_itself_in_a_family_of_all(alike: bool) -> None:
    """Also where a model lacks a score, or was scored on other splits: then each pair has its own common splits."""
    rng = np.random.default_rng(0)
    for n in (1, 3, 12):
        samples = [sample(rng.random(n), rng.normal(0, 0.02, (n, GROUPS)), noise=0.001 * (i + 1)) for i in range(5)]
        samples.append(choose_best(samples[:3]))
        if not alike:
            samples[0].values[0, 5] = np.nan
            samples.append(sample(rng.random(n + 2), rng.normal(0, 0.02, (n + 2, GROUPS))))
        names = [f"m{i}" for i in range(len(samples))]
        ranking = rank(names, samples, "a table")
        for i, a in enumerate(names):
            for j, b in enumerate(names):
                if i == j:
                    continue
                alone = compare(a, samples[i], b, samples[j], about="a table", comparisons=ranking.comparisons)
                found = ranking.verdict(a, b)
                for name in ("difference", "error", "df", "p", "low", "high", "effect"):
                    assert getattr(found, name) == pytest.approx(getattr(alone, name), rel=1e-6, abs=1e-9, nan_ok=True)
                assert (found.splits, found.undecided, found.better) == (alone.splits, alone.undecided, alone.better)
                assert (found.a, found.b, found.about, found.comparisons) == (a, b, "a table", alone.comparisons)
                assert ranking.p[i, j] == pytest.approx(1.0 if alone.undecided else alone.p, abs=1e-9)


def test_equal_scores_are_no_difference() -> None:
    assert difference(sample([0.5, 0.7]), sample([0.5, 0.7])).p == 1


def test_only_splits_that_both_have_scores_of_are_compared() -> None:
    a, b = sample([0.5, 0.7, 0.9]), sample([0.4, 0.5])
    assert difference(a, b).splits == 2
    assert difference(a, b).difference == pytest.approx(0.15)
    other = difference(a, Sample(("other",), zero(1).values, 0.0, 1.0))
    assert other.undecided is Undecided.NO_COMMON_SPLIT and np.isnan(other.difference) and other.evidence == ""
    assert difference(sample([0.5, np.nan, 0.7]), zero(3)).splits == 2
    assert difference(sample([np.nan]), zero(1)).undecided is Undecided.NO_COMMON_SPLIT
    assert np.isnan(interval(sample([0.5, np.nan]))).all()
    found = difference(sample([0.5, np.nan, 0.7]), sample([0.4, 0.5, np.nan]))
    assert found.undecided is Undecided.ONE_COMMON_SPLIT


def test_where_nothing_varies_nothing_is_claimed() -> None:
    """A handful of texts, all right, whichever are left out: that is no certainty."""
    for one, other in ((1.0, 0.0), (0.1, 0.3)):
        assert np.isnan(interval(sample([one]))).all()
        found = difference(sample([one]), sample([other]))
        assert found.undecided is Undecided.TOO_FEW_TEXTS and np.isnan(found.p) and found.better == ""
        assert found.evidence == f"{100 * (one - other):+.2f} points"


# samples


def frame(values: dict[tuple[str, str, str], float]) -> pd.DataFrame:
    rows = [(*key, value, np.full(GROUPS, value)) for key, value in values.items()]
    return pd.DataFrame(rows, columns=["cell_id", "split", "level", "value", "replicates"])


def test_a_sample_averages_seeds_and_the_levels_of_a_split() -> None:
    scores = {("1", "a", "l"): 0.1, ("2", "a", "l"): 0.3, ("1", "b", "l"): 0.5, ("2", "b", "l"): 0.7}
    many = Sample.of(frame(scores), seeded=True)
    assert many.values[:, 0] == pytest.approx([0.2, 0.6])
    assert many.is_complete
    levels = {("1", "a", "x"): 0.1, ("1", "a", "y"): 0.3, ("2", "a", "x"): 0.3, ("2", "a", "y"): 0.5}
    one = Sample.of(frame(levels), seeded=True)
    assert one.values[:, 0] == pytest.approx([0.3])
    assert one.noise == pytest.approx(np.var([0.2, 0.4], ddof=1) / 2)
    both = Sample.of(frame({**levels, ("1", "b", "x"): 0.5, ("2", "b", "x"): 0.7}), seeded=True)
    assert dict(zip(both.splits, both.values[:, 0], strict=True)) == pytest.approx({"a": 0.3, "b": 0.6})
    assert Sample.of(frame({("1", "a", "x"): 0.1}), seeded=False).noise == 0
    assert np.isnan(Sample.of(frame({("1", "a", "x"): 0.1}), seeded=True).noise)


def test_a_split_that_one_seed_lacks_has_no_score() -> None:
    found = Sample.of(frame({("1", "a", "l"): 0.1, ("1", "b", "l"): 0.2, ("2", "a", "l"): 0.3}), True)
    assert np.isnan(found.mean)


def test_the_best_method_is_chosen_in_each_replicate() -> None:
    up, down = np.linspace(-0.1, 0.1, GROUPS)[None], np.linspace(0.1, -0.1, GROUPS)[None]
    a, b = sample([0.50], 0.1 * up), sample([0.49], down)
    chosen = choose_best([a, b])
    assert chosen.mean == 0.5
    assert chosen.values is a.values
    assert chosen.replicates == pytest.approx(np.maximum(0.5 + 0.1 * up[0], 0.49 + down[0]))
    added = jackknife(chosen.replicates) - jackknife(a.replicates)
    assert added > 0
    (_, high), (_, alone) = interval(chosen), interval(a)
    t = stats.t.ppf(0.975, GROUPS - 1)
    assert ((high - 0.5) / t) ** 2 == pytest.approx(((alone - 0.5) / t) ** 2 + added)
    assert interval(choose_best([a])) == interval(a)


def test_a_choice_that_jumps_between_methods_does_not_narrow_the_interval() -> None:
    """Methods that are good on other splits: to mix their splits' replicates would look like independent splits."""
    rng = np.random.default_rng(0)
    texts = rng.normal(0, 0.01, (1, GROUPS))
    a = sample([0.2, 0.4, 0.6], np.repeat(texts, 3, axis=0))
    b = sample([0.6, 0.4, 0.199], np.repeat(texts[:, ::-1], 3, axis=0))
    low, high = interval(choose_best([a, b]))
    assert high - low >= np.diff(interval(a))[0] - 1e-12


# level and power, where texts are shared by splits and the truth is known


def v_measures(labels: np.ndarray, clusters: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the score and its replicates, [1 + GROUPS]."""
    (score,) = compute_measures(Contingency.of(labels, clusters), ["v_measure"])["v_measure"]
    return np.array([score, *replicates(labels, clusters, groups, ["v_measure"])[METRIC]])


def drawn(rng: np.random.Generator, shares: Sequence[float], texts: int = 600, splits: int = 12) -> list[Sample]:
    """Models that put a share of the texts into their class, by a text's own luck; subsamples of 20 to 100 % of one corpus."""
    labels, groups = rng.integers(0, 6, texts), rng.integers(0, GROUPS, texts)
    sides = []
    for share in shares:
        clusters = np.where(rng.random(texts) < share, labels, rng.integers(0, 6, texts))
        sides.append(clusters)
    rows = [rng.permutation(texts)[: int(size * texts)] for size in np.linspace(0.2, 1, splits)]
    names = tuple(f"s{i}" for i in range(splits))
    return [
        Sample(names, np.array([v_measures(labels[r], clusters[r], groups[r]) for r in rows]), 0.0, 1.0)
        for clusters in sides
    ]


@pytest.mark.slow
def test_it_holds_its_level_where_the_plain_test_does_not_and_finds_what_is_there() -> None:
    rng = np.random.default_rng(0)
    trials, plain, rejected, power = 150, 0, 0, 0
    for _ in range(trials):
        a, b, better = drawn(rng, (0.5, 0.5, 0.66))
        rejected += difference(a, b).p < 0.05
        plain += stats.ttest_1samp(a.values[:, 0] - b.values[:, 0], 0).pvalue < 0.05
        power += difference(a, better).p < 0.05
    assert plain / trials > 0.3
    assert rejected / trials < 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / trials)
    assert power / trials > 0.8


@pytest.mark.parametrize("classes", [50, 150])
def test_on_one_split_equal_models_are_seldom_called_different_where_classes_are_many(classes: int) -> None:
    """Resampling texts with replacement called 22 % of equal models different here: repeated texts shrink the spread."""
    rng = np.random.default_rng(0)
    n, trials = (500, 120) if classes == 50 else (2000, 60)
    rejected = found = 0
    for _ in range(trials):
        labels, groups = rng.integers(0, classes, n), rng.integers(0, GROUPS, n)
        sides = []
        for share in (0.5, 0.5, 0.62):
            clusters = np.where(rng.random(n) < share, labels, rng.integers(0, classes, n))
            sides.append(Sample(("s0",), v_measures(labels, clusters, groups)[None], 0.0, 2.0))
        rejected += difference(sides[0], sides[1]).p < 0.05
        found += difference(sides[0], sides[2]).p < 0.05
    assert rejected / trials < 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / trials)
    assert found / trials > 0.8


def trained(rng: np.random.Generator, mean: float, trainings: int, splits: np.ndarray, luck: float = 0.01) -> Sample:
    """A method trained several times: a training's luck holds on all splits, the rest is noise of .01 a split."""
    lucks = rng.normal(0, luck, trainings)
    scores = pd.DataFrame(
        {
            "cell_id": np.repeat([f"training {i}" for i in range(trainings)], len(splits)),
            "split": np.tile([f"s{i}" for i in range(len(splits))], trainings),
            "level": "",
            "value": (mean + lucks[:, None] + splits + rng.normal(0, 0.01, (trainings, len(splits)))).ravel(),
        }
    )
    scores["replicates"] = [np.full(GROUPS, value) for value in scores["value"]]
    return Sample.of(scores, seeded=False, trained=True)


@pytest.mark.slow
def test_of_two_methods_that_train_the_luck_of_trainings_is_counted() -> None:
    """Two sets of three checkpoints differ in nearly every trial, two methods that are equal in one of twenty."""
    rng, trials = np.random.default_rng(0), 400
    of_checkpoints = of_methods = power = 0
    for _ in range(trials):
        splits = rng.normal(0.3, 0.1, 100)
        a, b, better = (trained(rng, mean, n, splits) for mean, n in ((0, 3), (0, 3), (0.04, 10)))
        of_methods += difference(a, b).better != ""
        of_checkpoints += difference(*(replace(side, training_noise=0.0) for side in (a, b))).better != ""
        power += difference(better, a).better == "a"
    assert of_checkpoints / trials > 0.5
    assert of_methods / trials < 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / trials)
    assert power / trials > 0.8


def test_trainings_alone_are_compared_by_welch() -> None:
    rng, same = np.random.default_rng(1), np.full(50, 0.3)
    a, b = (trained(rng, 0.0, n, same, luck=1.0) for n in (4, 7))
    lucks = [rng.normal(size=n) for n in (4, 7)]
    # splits without noise: only trainings vary
    sides = [replace(s, values=np.full_like(s.values, luck.mean()), training_noise=luck.var(ddof=1) / len(luck))
             for s, luck in zip((a, b), lucks, strict=True)]  # fmt: skip
    assert difference(*sides).p == pytest.approx(stats.ttest_ind(*lucks, equal_var=False).pvalue)


def test_one_training_decides_nothing_beside_ten() -> None:
    rng, splits = np.random.default_rng(2), np.linspace(0.2, 0.4, 50)
    once, often = trained(rng, 0.5, 1, splits), trained(rng, 0.0, 10, splits)
    verdict = difference(once, often)
    assert verdict.undecided is Undecided.ONE_TRAINING and verdict.better == ""
    as_it_is = sample([0.0] * 50)  # nothing of it was trained: one model is all there is
    assert difference(often, as_it_is).undecided is None


def test_the_trainings_of_one_split_are_its_seeds() -> None:
    rng, split = np.random.default_rng(3), np.array([0.3])
    a, b = (trained(rng, mean, 5, split) for mean in (0.1, 0.0))
    seeds = [replace(side, training_noise=0.0) for side in (a, b)]
    assert difference(a, b) == difference(*seeds)  # counted once
