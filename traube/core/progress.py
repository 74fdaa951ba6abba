"""Callbacks for progress of the engine, trainers and deep clusterers; the display is elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Callbacks that receive the progress of work. The defaults do nothing."""

    total: Callable[[str, int], None] = lambda stage, amount: None  # before a stage begins, of its amount of work
    done: Callable[[str, int], None] = lambda stage, amount: None  # of the amount just finished
    said: Callable[[str], None] = lambda words: None  # how the work goes, such as a training's losses


SILENT = Progress()
