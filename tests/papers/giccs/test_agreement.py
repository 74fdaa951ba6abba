"""Best-worst scaling: scores of items, and how far annotators agree."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import refused
from traube._core.errors import Malformed, TooFew
from traube.papers.giccs.agreement import (
    Judgments,
    alpha,
    compliance,
    counting_scores,
    find_contradicted,
    implied_pairs,
    krippendorff_alpha,
    reliability,
    spearman_brown,
    split_half,
    split_half_of_annotators,
    strong_agreement,
)

CHEESES = ["brie", "edam", "feta", "gouda", "parmesan"]
TRIPLES = list(combinations(CHEESES, 3))


def judged_by(orders: list[list[str]], tuples: list[tuple[str, ...]] = TRIPLES) -> Judgments:
    """Judgments of annotators who each have an order of their own, the best first."""
    rows = [
        (one, min(one, key=order.index), max(one, key=order.index), f"annotator {i}")
        for i, order in enumerate(orders)
        for one in tuples
    ]
    return Judgments.of(*zip(*rows, strict=True))


@st.composite
def judgments(draw: st.DrawFn) -> Judgments:
    """All triples of five items, by two to six annotators who answer anything."""
    rows = [
        (one, *draw(st.sampled_from(list(combinations(one, 2)))), f"annotator {i}")
        for i in range(draw(st.integers(2, 6)))
        for one in TRIPLES
    ]
    return Judgments.of(*zip(*rows, strict=True))


def test_perfect_annotators_give_the_whole_scale_and_agree_in_everything() -> None:
    judged = judged_by([CHEESES] * 5)
    assert counting_scores(judged).tolist() == [1, 0.75, 0.5, 0.25, 0]
    assert alpha(judged) == 1
    assert strong_agreement(judged) == (1, 1)
    np.testing.assert_allclose(split_half(judged), 1)


@given(judgments())
@settings(max_examples=50, deadline=None)
def test_where_all_triples_are_judged_the_mean_score_is_always_a_half(judged: Judgments) -> None:
    scores = counting_scores(judged)
    assert scores.mean() == pytest.approx(0.5)
    times_shown = len(judged) * 3 // 5
    np.testing.assert_allclose(scores * 2 * times_shown, np.round(scores * 2 * times_shown), atol=1e-9)
    assert ((scores >= 0) & (scores <= 1)).all()


@given(judgments(), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_neither_the_order_of_judgments_nor_that_of_a_tuples_items_changes_anything(judged: Judgments, random) -> None:
    rows = [
        (random.sample([judged.items[i] for i in shown], 3), judged.items[best], judged.items[worst], str(who))
        for shown, best, worst, who in zip(judged.shown, judged.best, judged.worst, judged.annotators, strict=True)
    ]
    random.shuffle(rows)
    other = Judgments.of(*zip(*rows, strict=True))
    np.testing.assert_allclose(counting_scores(other), counting_scores(judged))
    assert alpha(other) == pytest.approx(alpha(judged), nan_ok=True)
    assert strong_agreement(other) == strong_agreement(judged)


@given(judgments())
@settings(max_examples=30, deadline=None)
def test_with_best_and_worst_exchanged_scores_are_upside_down(judged: Judgments) -> None:
    names = np.array(judged.items)
    turned = Judgments.of(
        names[judged.shown], names[judged.worst], names[judged.best], [str(a) for a in judged.annotators]
    )
    np.testing.assert_allclose(counting_scores(turned), 1 - counting_scores(judged))
    assert strong_agreement(turned) == strong_agreement(judged)[::-1]


def test_an_item_that_nobody_saw_has_no_score() -> None:
    judged = judged_by([CHEESES], TRIPLES[:1]).where(np.array([False]))
    assert np.isnan(counting_scores(judged)).all()


# Krippendorff, 2011, "Computing Krippendorff's alpha-reliability", part C: four observers, twelve
# units, some values missing; alpha for nominal data is .743. Rows are observers, 0 is missing.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]


def test_alpha_is_that_of_krippendorffs_own_example() -> None:
    table = np.array(OBSERVERS)
    _, units = np.nonzero(table)
    assert krippendorff_alpha(units, table[table > 0]) == pytest.approx(0.743, abs=5e-4)


def test_alpha_worked_by_hand() -> None:
    # units aa, bb, ab: coincidences aa 2, bb 2, ab 1, ba 1, of n = 6; D_o = 2/6; n_a = n_b = 3, so
    # D_e = 2 * 3 * 3 / (6 * 5) = 18/30
    assert krippendorff_alpha([1, 1, 2, 2, 3, 3], list("aabbab")) == pytest.approx(1 - (2 / 6) / (18 / 30))
    # three coders, one unit with two: aab (ordered pairs aa 2, ab 4, each / 2), bb
    # n = 5, D_o = 2 / 5, n_a = 2, n_b = 3, D_e = 2 * 2 * 3 / (5 * 4)
    assert krippendorff_alpha([1, 1, 1, 2, 2], list("aabbb")) == pytest.approx(1 - (2 / 5) / (12 / 20))
    # everybody disagrees about everything: below chance
    assert krippendorff_alpha([1, 1, 2, 2], list("abab")) == pytest.approx(1 - 1 / (8 / 12))
    units, values = [1, 1, 2, 2, 3, 3], list("aabbab")
    assert krippendorff_alpha([*units, 4], [*values, "c"]) == krippendorff_alpha(units, values)
    assert np.isnan(krippendorff_alpha([1, 2, 3], list("abc")))  # one coder
    assert np.isnan(krippendorff_alpha([1, 1, 2, 2], list("aaaa")))  # one value
    assert np.isnan(krippendorff_alpha([], []))


def test_random_annotators_are_at_chance_and_items_as_values_flatter_those_who_agree() -> None:
    rng = np.random.default_rng(0)
    dialogues = [[f"{d}{c}" for c in CHEESES] for d in range(40)]
    tuples = [one for names in dialogues for one in combinations(names, 3)]
    everything = [name for names in dialogues for name in names]
    random = judged_by([rng.permutation(everything).tolist() for _ in range(5)], tuples)
    assert alpha(random) == pytest.approx(0, abs=0.05)
    assert strong_agreement(random)[0] < 0.2
    truth = np.arange(len(everything)) % 5
    near = [sorted(everything, key=lambda n: truth[everything.index(n)] + rng.normal(0, 1)) for _ in range(5)]
    agreeing = judged_by(near, tuples)
    of_items, of_pairs = alpha(agreeing, "items"), alpha(agreeing, "pairs")
    # of many tuples, nearly no two items are equal by chance; both answers at once are equal less often than one
    assert 0.2 < of_pairs < alpha(agreeing) < of_items
    assert alpha(random, "pairs") == pytest.approx(0, abs=0.05)


def test_the_readings_of_alpha_worked_by_hand() -> None:
    """Two annotators, one tuple of three: the same best, another worst."""
    judged = Judgments.of([list("abc")] * 2, ["a", "a"], ["c", "b"], ["anna", "ben"])
    # one of two questions agrees; four answers are a, a, c, b: 10 of 12 pairs would differ by chance
    assert alpha(judged, "items") == pytest.approx(1 - 0.5 / (10 / 12))
    assert alpha(judged, "slots") == alpha(judged, "items")  # with one tuple a slot is an item
    assert alpha(judged, "pairs") == pytest.approx(1 - 1 / 1)  # (a, c) and (a, b): the only pair differs, as by chance


def test_a_judgment_puts_all_pairs_with_its_best_or_worst_in_order() -> None:
    judged = Judgments.of([list("abcd"), list("dcba")], ["a", "d"], ["d", "c"], ["anna", "ben"])
    names = np.array(judged.items)
    winners, losers, rows = implied_pairs(judged)
    pairs = np.char.add(names[winners], names[losers])
    assert sorted(pairs[rows == 0]) == ["ab", "ac", "ad", "bd", "cd"]
    assert sorted(pairs[rows == 1]) == ["ac", "bc", "da", "db", "dc"]


def test_compliance_is_the_share_of_pairs_in_the_order_of_the_scores() -> None:
    judged = judged_by([CHEESES, CHEESES[::-1]])
    assert compliance(judged, [1, 0.75, 0.5, 0.25, 0]).tolist() == [1, 0]
    assert compliance(judged, [0.5] * 5).tolist() == [0, 0]  # ties are in nobody's order
    assert compliance(judged.where(judged.annotators == 1), [1, 0.75, 0.5, 0.25, 0]).tolist() == [0]
    perfect = reliability(judged_by([CHEESES] * 3))
    assert perfect.compliance == perfect.compliance_min == 1


def test_strong_agreement_is_of_four_in_five() -> None:
    triple = [("brie", "edam", "feta")]
    orders = [["brie", "edam", "feta"]] * 3
    assert strong_agreement(judged_by([*orders, *orders[:1], ["edam", "brie", "feta"]], triple)) == (1, 1)
    assert strong_agreement(judged_by([*orders, *([["edam", "brie", "feta"]] * 2)], triple)) == (0, 1)
    assert all(np.isnan(strong_agreement(judged_by(orders[:1], triple))))  # one annotator agrees with nobody


def test_split_half_worked_by_hand() -> None:
    # of two annotators each is a half: one gives a, b, c the scores 1, .5, 0, the other 1, 0, .5;
    # rho = 1 - 6 (0 + 1 + 1) / (3 (9 - 1)) = .5, whoever is the first half
    judged = Judgments.of([list("abc")] * 2, ["a", "a"], ["c", "b"], ["anna", "ben"])
    np.testing.assert_allclose(split_half(judged, 10), 0.5)
    np.testing.assert_allclose(split_half_of_annotators(judged, 1, 10), 0.5)
    # and the scores of both: a 1, b (0.5 + 0) / 2, c (0 + 0.5) / 2
    assert counting_scores(judged).tolist() == [1, 0.25, 0.25]
    # a tuple that was judged once is in one half alone: nothing is left to compare
    alone = Judgments.of([list("abc")], ["a"], ["c"], ["anna"])
    assert np.isnan(split_half(alone, 3)).all()


def test_split_halves_of_five_are_two_and_three() -> None:
    # two annotators say one thing and three its opposite: whoever are the two, halves that were 2
    # and 3 can be the opposite of each other once in ten, so a mean over many tells the sizes
    up, down = CHEESES, CHEESES[::-1]
    triple = [("brie", "edam", "feta")]
    rhos = split_half(judged_by([up, up, down, down, down], triple), 2_000)
    # A has two: both up (1/10) or both down (3/10) or one of each (6/10, a tie and so no rho)
    assert np.isnan(rhos).mean() == pytest.approx(0.6, abs=0.05)
    opposite = np.sum(rhos == -1) / 2_000
    assert opposite == pytest.approx(0.4, abs=0.05)


def test_split_half_grows_with_agreement_and_is_repeatable() -> None:
    rng = np.random.default_rng(1)
    orders = [sorted(CHEESES, key=lambda c: CHEESES.index(c) + rng.normal(0, 2)) for _ in range(5)]
    noisy = split_half(judged_by(orders), 50).mean()
    assert noisy < split_half(judged_by([CHEESES] * 5), 50).mean()
    np.testing.assert_array_equal(split_half(judged_by(orders), 5, seed=3), split_half(judged_by(orders), 5, seed=3))


def test_more_annotators_give_more_reliable_scores() -> None:
    rng = np.random.default_rng(2)
    names = [f"word {i}" for i in range(60)]
    rows = []
    for annotator in range(16):
        order = rng.permutation(60)
        for four in order.reshape(-1, 4):  # each sees every word once
            seen = four + rng.normal(0, 15, 4)
            best, worst = names[four[seen.argmax()]], names[four[seen.argmin()]]
            rows.append(([names[i] for i in four], best, worst, str(annotator)))
    judged = Judgments.of(*zip(*rows, strict=True))
    curve = [split_half_of_annotators(judged, size, 20).mean() for size in (1, 2, 4, 8)]
    assert curve == sorted(curve) and curve[-1] > curve[0] + 0.15
    with refused(TooFew, 1, 8):
        split_half_of_annotators(judged, 9)


def test_spearman_brown_tells_of_the_whole() -> None:
    assert spearman_brown([0.5, 1, 0]).tolist() == [2 / 3, 1, 0]


def test_an_expert_contradicts_scores_on_the_other_side_of_the_middle() -> None:
    scores, above = [0.65, 0.35, 0.9, 0.1, 0.5, float("nan")], [False, True, True, False, False, True]
    assert find_contradicted(scores, above).tolist() == [True, True, False, False, False, False]


def test_judgments_that_contradict_themselves_are_refused() -> None:
    with refused(Malformed, "brie"):
        Judgments.of([CHEESES[:3]], ["brie"], ["brie"], ["anna"])
    with refused(Malformed, "brie", "gouda"):
        Judgments.of([CHEESES[:3]], ["brie"], ["gouda"], ["anna"])
    with refused(TooFew):
        Judgments.of([], [], [], [])


def test_agreement_within_some_items_is_that_of_their_judgments_alone() -> None:
    breads = ["rye", "emmer", "wheat"]
    judged = judged_by([[*CHEESES, *breads], [*CHEESES, *reversed(breads)]], [*TRIPLES, tuple(breads)])
    of_cheese = np.isin(judged.items, CHEESES)
    assert reliability(judged.select_items(of_cheese)).alpha == 1
    assert reliability(judged.select_items(~of_cheese)).alpha < 0
    whole = reliability(judged)
    assert (whole.items, whole.tuples, whole.judgments, whole.annotators) == (8, 11, 22, 2)
