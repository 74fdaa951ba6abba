"""Who is told of work as it is done.

The engine and the trainers call it; what shows it to people does not belong here.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Who is told of work as it is done. The default tells nobody.

    Attributes
    ----------
    total : called with a stage's name and its amount of work before it begins
    done : called with a stage's name and the amount just finished
    """

    total: Callable[[str, int], None] = lambda stage, amount: None
    done: Callable[[str, int], None] = lambda stage, amount: None


SILENT = Progress()
