"""Metrics of how well a similarity separates pairs of the same group from all others."""

from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import roc_auc_score

from tests.errors import refused
from traube._core.errors import Failed
from traube.papers.qs3m.auc import auc, page_auc
from traube.papers.qs3m.pairs import balanced_pairs
from traube.tasks.task import Split

LABELS = np.array(["milk", "milk", "rennet", "rennet", "mould"])
TRUTH = (LABELS[:, None] == LABELS).astype(np.float32)


@st.composite
def pages(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """A symmetric similarity with many ties, and labels of which some are equal and some are not."""
    labels = np.array(draw(st.lists(st.sampled_from("abc"), min_size=3, max_size=9)))
    assume(1 < len(set(labels)) < len(labels))
    values = draw(arrays(np.int64, (len(labels), len(labels)), elements=st.integers(-3, 3)))
    return np.triu(values, 1) + np.triu(values, 1).T + 0.0, labels


def test_what_knows_the_groups_is_perfect_and_upside_down_it_is_always_wrong() -> None:
    assert page_auc(TRUTH, LABELS) == 1
    assert page_auc(1 - TRUTH, LABELS) == 0
    assert page_auc(np.ones((5, 5)), LABELS) == 0.5  # what knows nothing
    distances = np.array([[0, 1, 5], [1, 0, 4], [5, 4, 0]])
    assert page_auc(-distances, np.array(["a", "a", "b"])) == 1


def test_random_values_are_at_chance() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 5, 300)
    assert page_auc(rng.random((300, 300)), labels) == pytest.approx(0.5, abs=0.01)
    split = Split("s", "l", np.arange(300), np.arange(300), labels.astype(str).astype(object))
    pairs = balanced_pairs(split)
    alike = (labels[:, None] == labels) + rng.normal(0, 1, (300, 300))
    balanced = auc(alike[pairs.first, pairs.second], pairs.same)
    assert balanced == pytest.approx(page_auc(alike, labels), abs=0.02)  # it does not depend on the shares


@given(pages())
def test_it_is_always_the_share_of_pairs_in_the_right_order(page: tuple[np.ndarray, np.ndarray]) -> None:
    alike, labels = page
    values = {True: [], False: []}
    for i, j in combinations(range(len(labels)), 2):
        values[bool(labels[i] == labels[j])].append(alike[i, j])
    order = [1.0 if a > b else 0.5 if a == b else 0.0 for a in values[True] for b in values[False]]
    assert page_auc(alike, labels) == pytest.approx(np.mean(order))
    truth = [True] * len(values[True]) + [False] * len(values[False])
    assert page_auc(alike, labels) == pytest.approx(roc_auc_score(truth, values[True] + values[False]))


@pytest.mark.slow
@given(pages(), st.randoms(use_true_random=False))
def test_it_always_depends_on_the_order_of_values_alone(page: tuple[np.ndarray, np.ndarray], random: Random) -> None:
    alike, labels = page
    expected = page_auc(alike, labels)
    assert page_auc(np.exp(alike) * 7 - 2, labels) == pytest.approx(expected)
    assert page_auc(-alike, labels) == pytest.approx(1 - expected)
    order = list(range(len(labels)))
    random.shuffle(order)
    assert page_auc(alike[np.ix_(order, order)], labels[order]) == pytest.approx(expected)


@pytest.mark.parametrize("labels", [[], ["a"], ["a", "a", "a"], ["a", "b", "c"]])
def test_where_all_pairs_are_the_same_or_none_is_there_is_no_value(labels: list[str]) -> None:
    assert np.isnan(page_auc(np.ones((len(labels), len(labels))), np.array(labels)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_one_clear_error(value: float) -> None:
    with refused(Failed, "NaN"):
        auc(np.array([0.1, value]), np.array([True, False]))
