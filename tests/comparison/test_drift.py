"""Of days on which nothing changes, fewer than one a month is called a drift; of days that change, most are."""

import numpy as np
import pytest

from tests.errors import refused
from traube._core.errors import Invalid, TooFew
from traube.comparison.drift import REFERENCE, judge_day

Draw = tuple[list[list[int]], list[int]]
SHARES = np.array([0.3, 0.25, 0.2, 0.15, 0.1])


def draw(rng: np.random.Generator, days: int, texts: int, spread: float, shares: np.ndarray, outside: float) -> Draw:
    """Days of texts that fall into groups, or into none; by `spread`, days differ from each other."""
    sizes, strays = [], []
    for _ in range(days):
        n = 1 + rng.poisson(texts)
        rate = rng.beta(outside / spread, (1 - outside) / spread) if spread else outside
        strays.append(int(rng.binomial(n, rate)))
        of_day = rng.dirichlet(shares / spread) if spread else shares
        sizes.append(rng.multinomial(n - strays[-1], of_day).tolist())
    return sizes, strays


def count_alarms(texts: int, spread: float, trials: int, changed: np.ndarray = SHARES, outside: float = 0.05) -> float:
    """The share of last days that drift, where the reference period has the usual shares, and 5 % that fit no group."""
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(trials):
        sizes, strays = draw(rng, REFERENCE, texts, spread, SHARES, 0.05)
        size, stray = draw(rng, 1, texts, spread, changed, outside)
        alarms += judge_day([*sizes, *size], [*strays, *stray]).drifts
    return alarms / trials


@pytest.mark.slow
@pytest.mark.parametrize("texts", [20, 300])
@pytest.mark.parametrize("spread", [0.0, 0.02], ids=["texts are independent", "days differ"])
def test_without_a_drift_there_is_less_than_one_alarm_a_month(texts: int, spread: float) -> None:
    rate, trials = 1 / (REFERENCE + 1), 1000
    found = count_alarms(texts, spread, trials)
    assert found <= rate + 3 * np.sqrt(rate * (1 - rate) / trials)  # three standard errors of the simulation
    assert found >= rate / 3  # the twin: it is a test that can alarm, not one that sleeps


def test_a_year_against_one_reference_has_less_than_one_alarm_a_month() -> None:
    """References differ, and with them the years; their mean keeps to the level."""
    rng, years = np.random.default_rng(3), []
    for _ in range(8):
        usual = draw(rng, REFERENCE, 60, 0.01, SHARES, 0.05)
        sizes, strays = draw(rng, 330, 60, 0.01, SHARES, 0.05)
        alarms = [
            judge_day([*usual[0], size], [*usual[1], stray]).drifts for size, stray in zip(sizes, strays, strict=True)
        ]
        years.append(30 * float(np.mean(alarms)))
    assert np.mean(years) <= 1 + 2 * np.std(years, ddof=1) / np.sqrt(len(years))
    assert max(years) < 4  # no reference makes every week alarm


def test_a_table_of_chi_squared_would_alarm_every_other_day_where_days_differ() -> None:
    """Days are the unit, not texts."""
    from scipy.stats import chi2_contingency

    rng, alarms = np.random.default_rng(0), 0
    for _ in range(100):
        sizes, _ = draw(rng, REFERENCE + 1, 300, 0.02, SHARES, 0.05)
        usual = np.sum(sizes[:-1], axis=0)
        alarms += chi2_contingency([sizes[-1], usual]).pvalue < 1 / 31
    assert alarms / 100 > 0.4


def test_more_texts_that_fit_no_group_and_a_group_that_doubles_are_found() -> None:
    assert count_alarms(100, 0.0, 200, outside=0.15) > 0.8
    assert count_alarms(300, 0.0, 200, changed=np.array([0.3, 0.25, 0.15, 0.1, 0.2])) > 0.8


def test_the_verdict_says_what_has_changed() -> None:
    rng = np.random.default_rng(1)
    sizes, strays = draw(rng, REFERENCE, 300, 0.0, SHARES, 0.05)
    usual = judge_day([*sizes, [90, 72, 58, 40, 25]], [*strays, 15])
    assert not usual.drifts and usual.p > 1 / 31 and usual.share == pytest.approx(0.05)
    strange = judge_day([*sizes, [90, 72, 58, 40, 25]], [*strays, 60])
    assert strange.by_share and not strange.by_sizes and strange.p == pytest.approx(1 / 31)
    assert strange.share == pytest.approx(60 / 345) and strange.usual_share == pytest.approx(0.05, abs=0.01)
    grown = judge_day([*sizes, [10, 72, 58, 40, 105]], [*strays, 15])
    assert grown.by_sizes and not grown.by_share
    assert grown.changes.argmax() == 4 and grown.changes.argmin() == 0 and abs(grown.changes.sum()) < 1e-9
    fewer = judge_day([*sizes, [90, 72, 58, 40, 25]], [*strays, 0])
    assert not fewer.by_share  # that all texts fit is no reason for an alarm


def test_groups_with_few_texts_count_as_one() -> None:
    """Thirty groups of a text a day: chance alone would fill one of them sometimes."""
    rng = np.random.default_rng(2)
    sizes = rng.multinomial(30, [1 / 30] * 30, size=REFERENCE + 1)
    assert not judge_day(sizes, [1 + day % 2 for day in range(REFERENCE + 1)]).by_sizes


def test_a_month_is_needed_and_each_day_has_texts() -> None:
    with refused(Invalid, "30", "3"):
        judge_day([[1, 2]] * 3, [0, 0, 1])
    with refused(TooFew):
        judge_day([[1, 2]] * 30 + [[0, 0]], [0] * 31)
    assert not judge_day([[1, 2]] * 31, [0] * 31).drifts
    assert not judge_day([[0, 0]] * 31, [3] * 31).drifts  # nothing fits, as ever
