"""Claims of a paper: what it says, and whether what was measured here bears it out, computed from the rows of its tables.

The rules are the same for all papers, and the same in both directions:

- A test decides where a table has one (`judge_test`). A difference that is not significant speaks against a claim only
  if the test finds a difference of the size that the paper reports four times in five (`detectable`).
- Without a test the signs of all differences are looked at (`judge_signs`), and one training of a side decides nothing.
- Weak evidence (no test, fewer data sets, or another method than the claim is about) moves a verdict one step towards
  "not tested" (`weaken`): "holds" becomes "in part", "does not hold" becomes "not tested".
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

import pandas as pd
from scipy.special import stdtrit

from traube.comparison.verdict import LEVEL, format_significance

NO_TEST = "no test"
FEWEST_TRAININGS = 2  # one training says nothing of what another would give


class Holds(Enum):
    """Verdict on a claim, of what was measured here."""

    HOLDS = "holds"
    PARTLY = "in part"
    FAILS = "does not hold"
    UNTESTED = "not tested"


@dataclass(frozen=True)
class Evidence:
    """Verdict on a claim, and the numbers that it rests on."""

    holds: Holds
    # numbers, the main ones first, with interval or test, and of how many trainings; where not tested, the reason
    findings: Sequence[str]
    on: str = ""  # data and encoder

    @property
    def measured(self) -> str:
        """Return all findings in a line."""
        return "; ".join(self.findings)


# gives the rows of one of the paper's tables in which something was measured; empty where nothing was
MeasuredRows: TypeAlias = Callable[[str], pd.DataFrame]


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper that numbers can bear out or not."""

    says: str  # what the paper says, in a line, with its number
    place: str  # section, table or figure of the paper
    judge: Callable[[MeasuredRows], Evidence]


def leave_untested(reason: str, on: str = "") -> Evidence:
    """Return the evidence of a claim that nothing here decides."""
    return Evidence(Holds.UNTESTED, [reason], on)


def select(rows: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the rows with these values, or with one of several; none where a column is missing."""
    for column, value in values.items():
        if column not in rows:
            return rows.iloc[:0]
        rows = rows[rows[column].isin([value] if isinstance(value, str) else list(value))]
    return rows


def has_test(row: pd.Series) -> bool:
    """Return whether a row was tested with trainings as units; `detectable` came with that test, an older p did not."""
    return pd.notna(row.get("detectable")) and pd.notna(row.get("p"))


def judge_test(row: pd.Series, expected: Literal["higher", "lower"], reported: float, trainings: float) -> Holds:
    """Judge a row by its test against the table's reference.

    Parameters
    ----------
    row : Series
        Columns `verdict` and `detectable`, the latter in the unit of `reported`.
    expected : {"higher", "lower"}
        Verdict that the claim predicts.
    reported : float
        Size of the difference that the paper reports.
    trainings : float
        Trainings of the side that has fewer.
    """
    if not has_test(row) or trainings < FEWEST_TRAININGS:
        return Holds.UNTESTED
    if row["verdict"] in ("higher", "lower"):
        return Holds.HOLDS if row["verdict"] == expected else Holds.FAILS
    return Holds.FAILS if row["detectable"] <= abs(reported) else Holds.UNTESTED


def judge_signs(differences: Iterable[float]) -> Holds:
    """Judge a claim about a sign: it holds if all differences are positive, and does not if none is."""
    are_positive = [difference > 0 for difference in differences]
    if not are_positive:
        return Holds.UNTESTED
    if all(are_positive):
        return Holds.HOLDS
    return Holds.PARTLY if any(are_positive) else Holds.FAILS


def judge_size(low: float, high: float, reported: float) -> Holds:
    """Judge a claim about a gain by its interval: in part if there is a gain, and it is smaller than reported."""
    if math.isnan(low):
        return Holds.UNTESTED
    if low > 0:
        return Holds.HOLDS if high >= reported else Holds.PARTLY
    return Holds.UNTESTED if high >= reported else Holds.FAILS


def weaken(holds: Holds) -> Holds:
    """Move a verdict one step towards `UNTESTED`."""
    return {Holds.HOLDS: Holds.PARTLY, Holds.FAILS: Holds.UNTESTED}.get(holds, holds)


def combine(verdicts: Iterable[Holds]) -> Holds:
    """Return the verdict on a claim about several cases: those that are not tested neither refute nor complete it."""
    cases = set(verdicts)
    if len(cases) == 1:
        return cases.pop()
    if cases & {Holds.HOLDS, Holds.PARTLY}:
        return Holds.PARTLY
    return Holds.FAILS if Holds.FAILS in cases else Holds.UNTESTED


def find_interval(mean: float, deviation: float, trainings: float) -> tuple[float, float]:
    """Return Student's 95 % interval of a mean over trainings; nan for one training."""
    if trainings < FEWEST_TRAININGS:
        return math.nan, math.nan
    margin = float(stdtrit(trainings - 1, 1 - LEVEL / 2)) * deviation / math.sqrt(trainings)
    return mean - margin, mean + margin


def format_points(difference: float) -> str:
    """Return a difference of scores x100 with its sign, such as `+3.7`."""
    return f"{round(difference, 1) + 0.0:+.1f}".replace("-", "−")  # a rounded zero has no minus


def format_percent(ratio: float) -> str:
    """Return a relative change with its sign, such as `+13 %`."""
    return f"{round(100 * ratio) + 0.0:+.0f} %".replace("-", "−")


def format_score(value: float, digits: int = 3) -> str:
    """Return a score between 0 and 1 as journals print it, such as `.374`."""
    return f"{value:.{digits}f}".replace("0.", ".", 1).replace("-", "−")


def format_test(row: pd.Series, format_size: Callable[[float], str] = format_score) -> str:
    """Return the p-value of a row, its comparisons and what the test finds four times in five; or that there is no test."""
    if not has_test(row):
        return NO_TEST
    return f"{format_significance(row['p'], int(row['comparisons']))}, finds {format_size(row['detectable'])}"


def count_trainings(trainings: float) -> str:
    """Return a number of trainings in words, such as `3 trainings`."""
    return f"{int(trainings)} training{'' if trainings == 1 else 's'}"


def describe_data(rows: pd.DataFrame, paper: str) -> str:
    """Return the data and encoders of rows, and beside them those of the paper."""
    names = [", ".join(filter(None, dict.fromkeys(rows[c].dropna()))) for c in ("task", "base", "model") if c in rows]
    return f"{'; '.join(filter(None, names))} (paper: {paper})"
