"""Pairs of items, same group or not, from the labels of a split."""

import tracemalloc
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import refused
from traube._core.errors import Missing
from traube.papers.qs3m.pairs import ItemPairs, all_pairs, balanced_pairs
from traube.tasks._task import Split

Found = dict[tuple[int, int], bool]

flat = st.lists(st.sampled_from("abcde"), max_size=12)
# few names, so that many paths lie below another; "a-" sorts between "a" and "a/b" as a text
paths = st.lists(st.lists(st.sampled_from(["a", "a-", "b"]), min_size=1, max_size=4).map("/".join), max_size=12)


def split(labels: list[str], name: str = "s") -> Split:
    rows = np.arange(len(labels))
    return Split(name, "l", rows, rows, np.array(labels, dtype=object))


def found(*blocks: ItemPairs) -> Found:
    """The pairs, each of which there is only once."""
    pairs = [(int(i), int(j), bool(same)) for b in blocks for i, j, same in zip(b.first, b.second, b.same, strict=True)]
    assert len({pair[:2] for pair in pairs}) == len(pairs)
    return {(i, j): same for i, j, same in pairs}


def below(one: str, other: str) -> bool:
    return other.startswith(f"{one}/")


def expected(labels: list[str], nested: bool) -> Found:
    return {
        (i, j): a == b
        for (i, a), (j, b) in combinations(enumerate(labels), 2)
        if not (nested and (below(a, b) or below(b, a)))
    }


def test_an_example() -> None:
    labels = ["Core", "Core/Fusion", "Light", "Light"]
    assert found(all_pairs(split(labels))) == {
        **{(0, 1): False, (0, 2): False, (0, 3): False},
        **{(1, 2): False, (1, 3): False, (2, 3): True},
    }
    # whether a passage of a section and one of its subsection belong together is a matter of opinion
    assert (0, 1) not in found(all_pairs(split(labels), separator="/"))
    pairs = balanced_pairs(split(labels), separator="/")
    assert pairs.same.tolist() == [True, False]
    assert (pairs.first[0], pairs.second[0]) == (2, 3)


@given(flat | paths, st.booleans())
def test_all_pairs_are_all_but_those_of_parent_and_child(labels: list[str], nested: bool) -> None:
    assert found(all_pairs(split(labels), separator="/" if nested else None)) == expected(labels, nested)


@given(flat | paths, st.booleans(), st.integers(0, 2**32 - 1), st.integers(0, 30))
def test_balanced_pairs_are_half_and_half_of_all(labels: list[str], nested: bool, seed: int, most: int) -> None:
    """As many of each kind as there are of the rarer; the same again for the same seed."""
    separator = "/" if nested else None
    drawn = found(balanced_pairs(split(labels), seed=seed, separator=separator, most=most))
    everything = expected(labels, nested)
    rarer = min(Counter(everything.values()).get(same, 0) for same in (True, False))
    assert Counter(drawn.values()) == Counter({True: min(rarer, most), False: min(rarer, most)}) - Counter()
    assert drawn.items() <= everything.items()
    again = balanced_pairs(split(labels), seed=seed, separator=separator, most=most)
    assert list(found(again).items()) == list(drawn.items())


def test_every_pair_of_the_commoner_kind_is_drawn_equally_often() -> None:
    labels = ["a", "a", "a", "b", "b", "c"]  # 4 pairs of the same group, 11 of different ones
    times = Counter(
        pair
        for seed in range(2_000)
        for pair, same in found(balanced_pairs(split(labels), seed=seed)).items()
        if not same
    )
    assert len(times) == 11
    assert max(abs(n - 2_000 * 4 / 11) for n in times.values()) < 5 * (2_000 * 4 / 11 * 7 / 11) ** 0.5


def test_seeds_and_splits_draw_their_own() -> None:
    labels = [str(i % 9) for i in range(90)]
    draws = [balanced_pairs(split(labels, name), seed=seed) for name in "st" for seed in (1, 2)]
    assert len({pairs.second[~pairs.same].tobytes() for pairs in draws}) == 4


def test_memory_is_that_of_the_pairs_that_are_given() -> None:
    """Of 20,000 items there are 200 million pairs: 3 GiB."""
    large = split([f"{i % 40}" for i in range(20_000)])
    tracemalloc.start()
    assert len(balanced_pairs(large, most=50_000)) == 100_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * 2**20


@pytest.mark.parametrize("labels", [[], ["a"], ["a", "a"], ["a", "b"]])
def test_where_a_kind_is_missing_there_is_nothing_balanced(labels: list[str]) -> None:
    assert len(balanced_pairs(split(labels))) == 0


def test_a_split_without_labels_is_an_error() -> None:
    rows = np.arange(3)
    with refused(Missing, "s"):
        all_pairs(Split("s", "l", rows, rows, None))
