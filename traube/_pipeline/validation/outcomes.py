"""Judge the rules of a table by pandas, where Great Expectations is not installed: the same rows are found."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from traube._pipeline.validation.rules import CHECKS, Rule, Table
from traube.tasks.task import Declared


@dataclass(frozen=True)
class RuleOutcome:
    """Outcome of a rule."""

    check: str  # its name
    says: str  # the rule in words
    success: bool
    rows: list[int]  # positions of the rows that break the rule; empty for a rule on the whole table
    count: int | None = None  # number of these rows; None for a rule on the whole table
    observed: Any = None  # what was seen, of a rule on the whole table


def list_applied_rules(table: Table, declared: Declared) -> Iterable[tuple[str, Rule, dict[str, Any]]]:
    """Yield the name of its check, the rule and its arguments for each rule that a card's sizes leave in force."""
    for check in CHECKS[table]:
        for rule in check.rules:
            if rule.declared is None:
                yield check.name, rule, rule.arguments
            elif (size := getattr(declared, rule.declared)) is not None:
                least, greatest = (size, size) if isinstance(size, int) else size
                yield check.name, rule, {**rule.arguments, "min_value": least, "max_value": greatest}


def judge(table: Table, declared: Declared, judged: pd.DataFrame) -> list[RuleOutcome]:
    """Judge every rule of a table, given with its facts."""
    outcomes = []
    for check, rule, arguments in list_applied_rules(table, declared):
        if rule.expectation == "ExpectTableRowCountToBeBetween":
            least, greatest = _bounds(arguments)
            outcome = RuleOutcome(check, rule.says, least <= len(judged) <= greatest, [], observed=len(judged))
        else:
            rows = _find_offending(rule.expectation, arguments, judged).to_numpy(dtype=bool).nonzero()[0].tolist()
            outcome = RuleOutcome(check, rule.says, not rows, rows, len(rows))
        outcomes.append(outcome)
    return outcomes


def _find_offending(expectation: str, arguments: dict[str, Any], judged: pd.DataFrame) -> pd.Series:
    if expectation == "ExpectCompoundColumnsToBeUnique":
        assert arguments["ignore_row_if"] == "never"
        return judged.duplicated(arguments["column_list"], keep=False)
    column = judged[arguments["column"]]
    match expectation:
        case "ExpectColumnValuesToNotBeNull":
            return column.isna()
        case "ExpectColumnValuesToBeUnique":
            return column.notna() & column.duplicated(keep=False)
        case "ExpectColumnValuesToBeInSet":
            return column.notna() & ~column.isin(arguments["value_set"])
        case "ExpectColumnValuesToBeBetween":
            numbers = pd.to_numeric(column).astype("Float64")
            return ~numbers.between(*_bounds(arguments)).fillna(True)
    raise KeyError(expectation)


def _bounds(arguments: dict[str, Any]) -> tuple[float, float]:
    return arguments.get("min_value", -math.inf), arguments.get("max_value", math.inf)
