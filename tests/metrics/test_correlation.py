"""Pearson's r and Spearman's rho of predicted and gold scores, with intervals over groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.errors import refused
from traube._core.errors import Malformed
from traube.metrics.correlation import correlation, pearson, spearman

SCORES = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=30)


@given(SCORES)
@settings(deadline=None)
def test_both_are_what_scipy_computes_ties_included(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(pearson(x, y)) and np.isnan(spearman(x, y))
        return
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


@given(SCORES)
@settings(deadline=None)
def test_spearman_knows_the_order_alone(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs).T
    assert spearman(np.exp(x), y) == pytest.approx(spearman(x, y), nan_ok=True)
    assert spearman(-x, y) == pytest.approx(-spearman(x, y), nan_ok=True)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_the_interval_is_that_of_resamples_computed_one_by_one(kind) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 8, 40)
    y = x + rng.normal(0, 3, 40)
    groups = np.repeat(np.arange(8), 5)
    found = correlation(kind, x, y, groups, resamples=3_000)
    of = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[kind]
    slow = []
    for _ in range(1_000):
        rows = np.concatenate([np.flatnonzero(groups == g) for g in rng.integers(0, 8, 8)])
        slow.append(of(x[rows], y[rows]).statistic)
    assert (found.low, found.high) == pytest.approx(np.percentile(slow, [2.5, 97.5]), abs=0.02)
    assert found.low < found.value < found.high
    assert (found.n, found.groups) == (40, 8)


def test_items_that_belong_together_make_the_interval_wider() -> None:
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 10)
    level = rng.normal(0, 1, 20)[groups]  # the same for a whole group, in both scores
    x, y = level + rng.normal(0, 0.1, 200), level + rng.normal(0, 0.1, 200) + rng.normal(0, 1, 20)[groups]
    alone, together = correlation("pearson", x, y), correlation("pearson", x, y, groups)
    assert alone.value == together.value
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng, covered = np.random.default_rng(2), 0
    for trial in range(200):
        x = rng.normal(size=80)
        y = 0.6 * x + 0.8 * rng.normal(size=80)
        found = correlation("pearson", x, y, resamples=200, seed=trial)
        covered += found.low <= 0.6 <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_the_same_seed_gives_the_same_interval_and_one_group_gives_none() -> None:
    x, y = [1, 2, 3, 4, 5, 6], [1, 3, 2, 4, 5, 6]
    assert correlation("spearman", x, y, seed=5) == correlation("spearman", x, y, seed=5)
    alone = correlation("spearman", x, y, ["a"] * 6)
    assert alone.value == pytest.approx(spearman(x, y)) and np.isnan(alone.low) and np.isnan(alone.high)


@pytest.mark.parametrize("constant", [0.0, 0.1, 0.7, 1e6])
def test_what_does_not_vary_is_correlated_with_nothing(constant: float) -> None:
    """Rounding leaves something of most constants when their mean is taken away."""
    found = correlation("pearson", [constant] * 10, np.arange(10) / 7)
    assert np.isnan([found.value, found.low, found.high]).all()
    assert pearson([constant + 1e-3 * (i % 3) for i in range(9)], np.arange(9)) > 0


def test_what_cannot_be_correlated_is_refused() -> None:
    with refused(Malformed, 3, 2):
        pearson([1, 2, 3], [1, 2])
    with refused(Malformed):
        spearman([1, float("nan")], [1, 2])
