"""Random splits."""

import hypothesis.strategies as st
import numpy as np
import pandas as pd
from hypothesis import given

from traube.tasks.splitting import draw_fraction, draw_fractions, make_rng, shuffle, split_whole


def records(n: int) -> pd.DataFrame:
    return pd.DataFrame({"text_id": [f"t{i}" for i in range(n)], "genre": [f"g{i % 3}" for i in range(n)]})


@given(n=st.integers(1, 500), seed=st.integers(0, 2**32))
def test_a_fraction_is_between_a_tenth_and_all_and_holds_no_item_twice(n: int, seed: int) -> None:
    drawn = draw_fraction(n, make_rng("split", seed))
    assert 0.1 * n <= len(drawn) <= n
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= set(range(n))


@given(n=st.integers(0, 500), name=st.text())
def test_shuffling_loses_nothing_and_depends_on_the_name_only(n: int, name: str) -> None:
    order = shuffle(n, make_rng(name))
    assert sorted(order) == list(range(n))
    assert np.array_equal(order, shuffle(n, make_rng(name)))


def test_fractions_are_spread_between_a_tenth_and_all() -> None:
    shares = [len(split) / 1000 for split in draw_fractions(records(1000), 200, "genre", prefix="coarse")]
    assert 0.1 <= min(shares) < 0.15
    assert 0.95 < max(shares) <= 1.0
    assert 0.5 < np.mean(shares) < 0.6


def test_another_split_leaves_the_first_ones_as_they_are() -> None:
    few = draw_fractions(records(50), 2, "genre", prefix="coarse")
    more = draw_fractions(records(50), 3, "genre", prefix="coarse")
    assert [s["split"].iloc[0] for s in more] == ["coarse_00", "coarse_01", "coarse_02"]
    for a, b in zip(few, more, strict=False):
        pd.testing.assert_frame_equal(a, b)


def test_labels_follow_their_texts() -> None:
    label_of = records(50).set_index("text_id")["genre"]
    for split in [*draw_fractions(records(50), 3, "genre", prefix="coarse"), split_whole(records(50), "all", "genre")]:
        assert (split["label"].to_numpy() == label_of.loc[split["text_id"]].to_numpy()).all()
        assert split["item"].tolist() == list(range(len(split)))


def test_a_whole_split_is_shuffled_in_the_same_way_on_every_machine() -> None:
    split = split_whole(records(50), "within_river", "genre")
    assert set(split["text_id"]) == set(records(50)["text_id"])
    assert split["text_id"].tolist() != records(50)["text_id"].tolist()
    assert shuffle(8, make_rng("coarse_00")).tolist() == [6, 3, 0, 7, 5, 4, 1, 2]
