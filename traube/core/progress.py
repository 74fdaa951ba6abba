"""Who is told of work as it is done.

The engine, the trainers and the deep clusterers call it; what shows it to people does not belong
here.
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
    said : called with how the work goes, in a few words, such as a training's losses
    """

    total: Callable[[str, int], None] = lambda stage, amount: None
    done: Callable[[str, int], None] = lambda stage, amount: None
    said: Callable[[str], None] = lambda words: None


SILENT = Progress()
