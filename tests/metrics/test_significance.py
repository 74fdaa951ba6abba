"""Paired tests: what they say where the answer is known, and that they hold their level where splits share texts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from traube.errors import TraubeError
from traube.metrics.clustering import metric_of
from traube.metrics.significance import (
    bonferroni,
    bootstrap,
    bootstrap_texts,
    holm,
    paired_t,
    permutation,
    shared,
    wilcoxon,
)

P_VALUES = arrays(np.float64, st.integers(1, 20), elements=st.floats(0, 1))


def subsamples(rng: np.random.Generator, n: int, count: int) -> list[np.ndarray]:
    return [rng.permutation(n)[: int(size * n)] for size in np.linspace(0.1, 1, count)]


@given(seed=st.integers(0, 1000), n=st.integers(2, 40))
def test_without_shared_texts_the_test_is_scipys(seed: int, n: int) -> None:
    d = np.random.default_rng(seed).normal(0.3, 1, n)
    expected = stats.ttest_1samp(d, 0)
    found = paired_t(d)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    disjoint = shared([np.arange(10 * i, 10 * i + 10) for i in range(n)])
    assert paired_t(d, disjoint).p == pytest.approx(expected.pvalue)


def test_for_splits_of_one_size_the_correction_is_nadeau_and_bengios() -> None:
    # each pair of splits shares exactly half of its texts
    covariance = np.full((5, 5), 0.5) + 0.5 * np.eye(5)
    d = np.array([0.1, 0.3, 0.2, 0.4, 0.1])
    error = d.std(ddof=1) * np.sqrt(1 / 5 + 0.5 / (1 - 0.5))
    assert paired_t(d, covariance).p == pytest.approx(2 * stats.t.sf(d.mean() / error, 4))


def test_what_splits_share_is_counted_in_texts() -> None:
    found = shared([["a", "b"], ["b", "c", "d", "e"], ["x"]])
    assert found == pytest.approx(np.array([[1 / 2, 1 / 8, 0], [1 / 8, 1 / 4, 0], [0, 0, 1]]))


def test_splits_of_the_same_texts_decide_nothing() -> None:
    d = [0.1, 0.11, 0.12]
    assert paired_t(d).p < 0.01
    assert paired_t(d, shared([range(50)] * 3)).p == 1


def test_the_corrected_test_holds_its_level_where_the_plain_one_does_not() -> None:
    rng = np.random.default_rng(0)
    splits = subsamples(rng, 300, 12)
    covariance = shared(splits)
    rejected = np.zeros(2)
    for _ in range(600):
        effects = rng.normal(size=300)  # of no model, on average
        d = [effects[s].mean() for s in splits]
        rejected += [paired_t(d).p < 0.05, paired_t(d, covariance).p < 0.05]
    plain, corrected = rejected / 600
    assert plain > 0.3
    assert corrected < 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / 600)


def test_a_true_difference_is_found() -> None:
    rng = np.random.default_rng(1)
    splits = subsamples(rng, 1000, 10)
    effects = rng.normal(0.5, 1, 1000)
    d = [effects[s].mean() for s in splits]
    assert paired_t(d, shared(splits)).p < 0.01
    assert all(test(d).p < 0.01 for test in (permutation, wilcoxon, bootstrap))


@given(P_VALUES)
def test_corrections_only_raise_and_holm_never_beyond_bonferroni(p: np.ndarray) -> None:
    assert (holm(p) >= p).all()
    assert (holm(p) <= bonferroni(p) + 1e-12).all()
    assert (bonferroni(p) <= 1).all()


@given(P_VALUES, st.randoms())
def test_corrections_do_not_depend_on_the_order(p: np.ndarray, random) -> None:
    order = list(range(len(p)))
    random.shuffle(order)
    assert holm(p[order]) == pytest.approx(holm(p)[order])


def test_holm_of_a_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("d", [[], [0.1], [0.1, np.nan], [[0.1, 0.2]]])
def test_what_cannot_be_tested_is_refused(d: list[float]) -> None:
    with pytest.raises(TraubeError, match="at least two finite differences"):
        paired_t(d)


def test_equal_scores_are_no_difference() -> None:
    assert paired_t([0.0, 0.0, 0.0]).p == 1
    assert wilcoxon([0.0, 0.0]).p == 1


# one split


def noisy(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(labels)) < share, rng.integers(0, 5, len(labels)), labels)


def test_on_one_split_a_clear_difference_is_found_and_a_seeds_whim_is_not() -> None:
    labels = np.random.default_rng(0).integers(0, 5, 400)
    good, bad = ([noisy(labels, share, seed) for seed in range(3)] for share in (0.2, 0.5))
    metric = metric_of("v_measure/noise_as_cluster")
    assert bootstrap_texts(labels, good, bad, metric).p < 0.001
    # one side's seeds scatter widely about the other's: the texts alone would call that a difference
    scattered = [noisy(labels, share, 7) for share in (0.05, 0.3, 0.4)]
    steady = [noisy(labels, 0.2, seed) for seed in range(3)]
    assert bootstrap_texts(labels, scattered, steady, metric).p > 0.2


def test_without_seeds_only_the_texts_vary() -> None:
    labels = np.random.default_rng(0).integers(0, 5, 400)
    found = bootstrap_texts(labels, [noisy(labels, 0.2, 1)], [noisy(labels, 0.5, 2)], metric_of("acc/noise_dropped"))
    assert found.p < 0.001
    assert found.low < found.difference < found.high
    assert found.n == 400
