"""Accuracy of multiple choice: ties, standard error and chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traube.papers.giccs.choices import accuracy, credit, right_answers


def test_of_equal_gold_scores_any_is_right_and_equal_likings_share_the_credit() -> None:
    assert right_answers([0.9, 0.3, 0.9]) == [0, 2]
    assert credit([1, 3, 2], [1]) == 1
    assert credit([1, 3, 2], [0]) == 0
    assert credit([3, 3, 2], [0]) == 0.5
    assert credit([3, 3, 2], [0, 1]) == 1
    assert credit([2, 2, 2, 2], [3]) == 0.25


def test_the_standard_error_is_the_papers() -> None:
    # table 6: four, five, three and two right of 30
    for right, printed in ((4, 0.063), (5, 0.069), (3, 0.055), (2, 0.046)):
        value, error, chance = accuracy([1] * right + [0] * (30 - right), [0.2] * 30)
        assert value == pytest.approx(right / 30)
        assert np.floor(1_000 * error) / 1_000 == printed  # the paper cuts digits off
        assert value < chance == pytest.approx(0.2)  # all are below chance
    assert np.isnan(accuracy([1], [0.2])[1])


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=6), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_what_likes_everything_alike_is_always_at_chance(liked: list[int], gold: list[int]) -> None:
    right = right_answers(gold[: len(liked)])
    assert credit([0.5] * len(liked), right) == pytest.approx(len(right) / len(liked))
    assert 0 <= credit(liked, right) <= 1
    assert credit([2 * x + 1 for x in liked], right) == credit(liked, right)  # the order alone counts
