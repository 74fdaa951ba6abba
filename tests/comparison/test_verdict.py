"""Verdicts and ranks: one rule for a whole family of comparisons, and ties that say so."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from traube.comparison.jackknife import Difference, Sample
from traube.comparison.ranking import Ranking, find_ties, rank, rank_by_splits
from traube.comparison.verdict import Undecided, Verdict, compare_paired, format_score, to_points
from traube.metrics import GROUPS

VERDICTS = st.builds(
    Verdict,
    a=st.just("new"),
    b=st.just("old"),
    difference=st.floats(-1, 1),
    error=st.floats(1e-3, 0.5),
    df=st.floats(1, 100),
    deviation=st.floats(1e-3, 1),
    splits=st.just(12),
    comparisons=st.integers(1, 500),
)


@given(VERDICTS)
def test_the_interval_leaves_out_nothing_exactly_where_p_is_below_the_level(verdict: Verdict) -> None:
    assert (verdict.low > 0 or verdict.high < 0) == (verdict.p < verdict.level)
    assert verdict.better == ("" if verdict.p >= verdict.level else "a" if verdict.difference > 0 else "b")


@given(VERDICTS)
def test_more_comparisons_never_make_anything_surer(verdict: Verdict) -> None:
    alone = replace(verdict, comparisons=1)
    assert alone.p == pytest.approx(2 * stats.t.sf(abs(verdict.difference) / verdict.error, verdict.df), rel=1e-6)
    assert verdict.p == pytest.approx(min(1.0, verdict.comparisons * alone.p))
    assert verdict.low <= alone.low and alone.high <= verdict.high


@given(VERDICTS.filter(lambda verdict: abs(verdict.difference) > 1e-3))
def test_with_so_many_more_texts_four_of_five_families_find_the_difference(verdict: Verdict) -> None:
    more = replace(verdict, error=verdict.error / math.sqrt(verdict.times_to_decide), df=1e9)
    beyond = (abs(more.difference) - (more.high - more.difference)) / more.error
    assert stats.norm.cdf(beyond) == pytest.approx(0.8, abs=1e-3)


def test_a_verdict_says_who_is_better_by_how_much_and_among_how_many() -> None:
    one = Verdict("minilm", "tfidf", "tickets", 0.05, 0.01, 20.0, 0.02, splits=8, comparisons=6)
    assert one.answer == "minilm is better (p < .001, 6 comparisons)"
    assert one.evidence == "+5.00 points (95 % CI +2.07 to +7.93)"
    assert replace(one, a="tfidf", b="minilm", difference=-0.05).answer.startswith("minilm is better (")
    tie = replace(one, difference=0.02)
    assert tie.answer == "not significantly different (p = .36, 6 comparisons)"
    assert replace(tie, comparisons=1).significance == "p = .059, 1 comparison"
    assert one.details == "paired jackknife over texts, 8 splits, standard error 1, df 20, d_z 2.5"
    open_ = replace(one, undecided=Undecided.ONE_SEED)
    assert open_.answer.startswith("undecided: one split and one seed") and "by the texts alone" in open_.evidence


def test_an_id_is_that_of_the_content() -> None:
    one = Verdict("a", "b", "t", 0.05, 0.01, 20.0, 0.02, splits=8, comparisons=6)
    assert one.id == replace(one).id
    changed = [
        replace(one, difference=0.051),
        replace(one, comparisons=7),
        replace(one, about="u"),
        replace(one, b="c"),
    ]
    assert len({one.id, *(other.id for other in changed)}) == 5
    assert one.record()["id"] == one.id and Verdict("a", "b").record()["p"] is None


def test_pages_are_compared_by_the_paired_t_test_from_two_on() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 0.1, 30), rng.normal(0.4, 0.1, 30)
    found = compare_paired("a", a, "b", b, comparisons=3)
    assert found.p == pytest.approx(3 * stats.ttest_rel(a, b).pvalue)
    assert compare_paired("a", a, "b", a - 0.25).undecided is Undecided.TOO_FEW_TEXTS
    a, b = [0.5, 0.7], [0.4, 0.5]
    assert compare_paired("a", a, "b", b).p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert compare_paired("a", a[:1], "b", b[:1]).undecided is Undecided.TOO_FEW_TEXTS
    assert compare_paired("a", [], "b", []).undecided is Undecided.NO_COMMON_SPLIT


# ranks


def table(differences: dict[tuple[int, int], float], n: int) -> Ranking:
    """A ranking with an error of a point; models that are not named do not differ."""
    mean = np.zeros((n, n))
    for (i, j), value in differences.items():
        mean[i, j], mean[j, i] = value, -value
    found = Difference(mean, np.full((n, n), 0.01), np.full((n, n), 50.0), np.full((n, n), 0.01))
    names = tuple("abcdefgh"[:n])
    return Ranking(names, found, np.full((n, n), 9), np.full((n, n), None, dtype=object))


def test_a_rank_is_lost_for_each_model_that_is_significantly_better() -> None:
    ranking = table({(0, 1): 0.1, (0, 2): 0.2, (1, 2): 0.005}, 3)
    assert ranking.ranks.tolist() == [[1, 1], [2, 3], [2, 3]]
    assert ranking.comparisons == 3
    assert find_ties(ranking.p) == [[1, 2]]
    chain = table({(0, 1): 0.01, (1, 2): 0.01, (0, 2): 0.1}, 3)  # each like its neighbor, the ends not alike
    assert chain.ranks.tolist() == [[1, 2], [1, 3], [2, 3]]
    assert find_ties(chain.p) == [[0, 1], [1, 2]]


def test_a_model_that_shares_no_split_with_others_has_no_rank() -> None:
    rng = np.random.default_rng(0)
    values = 0.5 + rng.normal(0, 0.01, (4, 1 + GROUPS))
    alone = Sample(("w", "x", "y", "z"), values, 0.0, 1.0)
    both = [Sample(("a", "b", "c", "d"), values + lead, 0.0, 1.0) for lead in (0.2, 0.0)]
    ranks = rank(["first", "second", "alone"], [*both, alone]).ranks
    assert np.isnan(ranks[2]).all() and np.isfinite(ranks[:2]).all()
    assert rank(["only"], [alone]).ranks.shape == (1, 2) and np.isnan(rank(["only"], [alone]).ranks).all()


def test_ranks_by_splits_rest_on_the_paired_t_test() -> None:
    values = np.random.default_rng(0).normal(size=(3, 9))
    ranking = rank_by_splits(["a", "b", "c"], values)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        differences, p = values[i] - values[j], stats.ttest_rel(values[i], values[j]).pvalue
        assert ranking.found.deviation[i, j] == pytest.approx(differences.std(ddof=1))
        assert ranking.found.error[i, j] == pytest.approx(stats.sem(differences))
        assert ranking.p[i, j] == pytest.approx(min(3 * p, 1))  # corrected for three comparisons


def test_the_level_holds_for_the_whole_table_and_a_leader_is_found() -> None:
    """Six equal models on twelve splits: in how many tables is any pair called different?"""
    rng = np.random.default_rng(0)
    trials, false, found = 300, 0, 0
    names = [f"m{i}" for i in range(6)]
    splits = tuple(f"s{i}" for i in range(12))
    for _ in range(trials):
        scores = rng.normal(0.5, 0.02, (6, 12))
        equal = [Sample(splits, np.repeat(own[:, None], 1 + GROUPS, axis=1), 0.0, 1.0) for own in scores]
        false += bool((rank(names, equal).p < 0.05).any())
        better = Sample(splits, equal[0].values + 0.05, 0.0, 1.0)
        found += bool((rank(names, [better, *equal[1:]]).p[0, 1:] < 0.05).all())
    assert false / trials < 0.05 + 2.33 * np.sqrt(0.05 * 0.95 / trials)
    assert found / trials > 0.8


@pytest.mark.parametrize("mean", [0.50455, 0.5045499999999999, float(np.nextafter(0.50455, 1))])
def test_a_score_is_rounded_alike_wherever_it_comes_from(mean: float) -> None:
    assert format_score(mean) == f"{to_points(mean):.2f}" == "50.45"
    assert format_score(math.nan) == "-"
