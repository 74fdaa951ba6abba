"""Who is told of work as it is done, by engine, trainers and deep clusterers; what shows it to people is elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Who is told of work as it is done. The default tells nobody."""

    total: Callable[[str, int], None] = lambda stage, amount: None  # before a stage begins, of its amount of work
    done: Callable[[str, int], None] = lambda stage, amount: None  # of the amount just finished
    said: Callable[[str], None] = lambda words: None  # how the work goes, such as a training's losses


SILENT = Progress()
