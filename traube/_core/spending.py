"""The costs of a command at endpoints, and the budget that it keeps to."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Spending:
    """The costs of a run at endpoints: dollars of models whose cards state a price, tokens of others.

    Attributes
    ----------
    budget : float or None
        The most of either; None for no limit.
    dollars : float
        Spent on models with a price.
    tokens : float
        Spent on models without one.
    compared : dict of str to str
        The endpoints that were compared with what they were, and why one could not be; empty if it was.
    lengths : dict of str to int
        Of each endpoint, the length of its vectors.
    rates : dict of str to float
        Of each endpoint, the most tokens that it has counted for each that was estimated; at least 1.
    """

    budget: float | None = None
    dollars: float = 0.0
    tokens: float = 0.0
    compared: dict[str, str] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)


_SPENDING: ContextVar[Spending | None] = ContextVar("spending", default=None)  # set by `limit_spending`


@contextmanager
def limit_spending(budget: float | None = None) -> Iterator[Spending]:
    """Count what endpoints cost inside the block, and send nothing that would cost more than a budget."""
    token = _SPENDING.set(spending := Spending(budget))
    try:
        yield spending
    finally:
        _SPENDING.reset(token)


def get_spending() -> Spending | None:
    """Return the costs of the enclosing `limit_spending`; None outside of one, as in a run that nobody has started."""
    return _SPENDING.get()


def set_budget(budget: float | None) -> float | None:
    """Set the budget of the enclosing `limit_spending`, and return it."""
    if spending := _SPENDING.get():
        spending.budget = budget
    return budget


def in_dollars(amount: float) -> str:
    """Return an amount of dollars: in cents, or with the two digits of a smaller one that count."""
    digits = 2 if amount >= 0.1 or amount <= 0 else min(1 - math.floor(math.log10(amount)), 12)
    whole, _, cents = f"{amount:,.{digits}f}".partition(".")
    return f"${whole}.{cents.rstrip('0'):0<2}"
