"""Judge the rules of a table by pandas, where Great Expectations is not installed.

A rule is an expectation of Great Expectations on one column; `judge` finds the same rows for the
six kinds that `traube.pipeline.validation.rules` uses.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from traube.pipeline.validation.rules import CHECKS, Rule, Table
from traube.tasks.task import Declared


@dataclass(frozen=True)
class Verdict:
    """What became of a rule.

    Attributes
    ----------
    check, says : name of the check, and the rule in words
    rows : positions of the rows that break the rule; empty for a rule on the whole table
    count : how many they are; None for a rule on the whole table
    observed : what was seen, of a rule on the whole table
    """

    check: str
    says: str
    success: bool
    rows: list[int]
    count: int | None = None
    observed: Any = None


def applied_rules(table: Table, declared: Declared) -> Iterable[tuple[str, Rule, dict[str, Any]]]:
    """Yield the name of its check, the rule and its arguments for each rule that a card's sizes leave in force."""
    for check in CHECKS[table]:
        for rule in check.rules:
            if rule.declared is None:
                yield check.name, rule, rule.arguments
            elif (size := getattr(declared, rule.declared)) is not None:
                least, greatest = (size, size) if isinstance(size, int) else size
                yield check.name, rule, {**rule.arguments, "min_value": least, "max_value": greatest}


def judge(table: Table, declared: Declared, judged: pd.DataFrame) -> list[Verdict]:
    """Judge every rule of a table.

    Parameters
    ----------
    judged : DataFrame
        The table with its facts.
    """
    return [_verdict(name, rule, arguments, judged) for name, rule, arguments in applied_rules(table, declared)]


def _verdict(check: str, rule: Rule, arguments: dict[str, Any], judged: pd.DataFrame) -> Verdict:
    if rule.expectation == "ExpectTableRowCountToBeBetween":
        number = len(judged)
        return Verdict(check, rule.says, _is_between(number, **arguments), [], observed=number)
    rows = _BROKEN[rule.expectation](judged, **arguments).to_numpy(dtype=bool).nonzero()[0].tolist()
    return Verdict(check, rule.says, not rows, rows, len(rows))


def _is_between(number: int, min_value: int | None = None, max_value: int | None = None) -> bool:
    return (min_value is None or number >= min_value) and (max_value is None or number <= max_value)


def _null(judged: pd.DataFrame, column: str) -> pd.Series:
    return judged[column].isna()


def _repeated(judged: pd.DataFrame, column: str) -> pd.Series:
    return judged[column].notna() & judged[column].duplicated(keep=False)


def _repeated_together(judged: pd.DataFrame, column_list: list[str], ignore_row_if: str) -> pd.Series:
    assert ignore_row_if == "never"
    return judged.duplicated(column_list, keep=False)


def _outside_set(judged: pd.DataFrame, column: str, value_set: list[Any]) -> pd.Series:
    return judged[column].notna() & ~judged[column].isin(value_set)


def _outside_bounds(
    judged: pd.DataFrame, column: str, min_value: int | None = None, max_value: int | None = None
) -> pd.Series:
    numbers = pd.to_numeric(judged[column]).astype("Float64")
    broken = pd.Series(False, judged.index, dtype="boolean")
    if min_value is not None:
        broken |= numbers < min_value
    if max_value is not None:
        broken |= numbers > max_value
    return broken.fillna(False)


_BROKEN: dict[str, Callable[..., pd.Series]] = {
    "ExpectColumnValuesToNotBeNull": _null,
    "ExpectColumnValuesToBeUnique": _repeated,
    "ExpectColumnValuesToBeInSet": _outside_set,
    "ExpectColumnValuesToBeBetween": _outside_bounds,
    "ExpectCompoundColumnsToBeUnique": _repeated_together,
}
