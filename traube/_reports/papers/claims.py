"""Claims of a paper: what it says, and whether what was measured here bears it out, computed from the rows of its tables."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pandas as pd


class Holds(Enum):
    """Whether a claim holds here."""

    HOLDS = "holds"
    PARTLY = "in part"
    FAILS = "does not hold"
    UNTESTED = "not tested"


@dataclass(frozen=True)
class Evidence:
    """What a claim's verdict rests on."""

    holds: Holds
    measured: str  # the numbers, with interval or test, and of how many trainings; where not tested, the reason
    on: str = ""  # data and encoder


# gives the rows of one of the paper's tables in which something was measured; empty where nothing was
MeasuredRows: TypeAlias = Callable[[str], pd.DataFrame]


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper that numbers can bear out or not."""

    says: str  # what the paper says, in a line, with its number
    place: str  # section, table or figure of the paper
    judge: Callable[[MeasuredRows], Evidence]
