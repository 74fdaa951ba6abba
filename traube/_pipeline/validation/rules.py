"""The checks of a task's tables, as data: `checks.yaml`, which says how checks are written."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from traube._core.config import read_yaml
from traube.tasks.task import TaskCard

SPLIT = ("split_set", "split", "level")  # what names one clustering problem

Table = Literal["corpus", "splits", "pairs"]
Size = Literal["splits", "rows", "classes"]  # fields of a card's `declared`


@dataclass(frozen=True)
class Rule:
    """One expectation on one column. Rows in which the column is null are not judged."""

    says: str  # the rule in words
    expectation: str  # name of a class in `great_expectations.expectations`
    arguments: dict[str, Any] = field(default_factory=dict)
    # field of the task's card that gives the least and the greatest value; without it there is no such rule
    declared: Size | None = None


@dataclass(frozen=True)
class Check:
    """A named check of an asset."""

    name: str
    description: str
    blocking: bool  # whether a failure stops the task; otherwise it warns, unless the task's card says that it blocks
    rules: tuple[Rule, ...]
    one_row_per: tuple[str, ...] = ()  # columns; of the offending rows that agree in them one is shown


CHECKS = TypeAdapter(dict[Table, tuple[Check, ...]]).validate_python(
    read_yaml(Path(__file__).with_name("checks.yaml"))[0]
)


def blocks(check: Check, card: TaskCard) -> bool:
    """Return whether a failure of the check stops the task; a task's card can raise a warning to that."""
    return check.blocking or check.name in card.blocking
