"""Callbacks for progress of the engine, trainers and deep clusterers; the display is elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Callbacks that receive the progress of work. The defaults do nothing."""

    total: Callable[[str, int], None] = lambda stage, amount: None  # called before a stage, with its amount of work
    done: Callable[[str, int], None] = lambda stage, amount: None  # called with the amount just finished
    said: Callable[[str], None] = lambda words: None  # called with messages on the work, such as a training's losses
    encoded: Callable[[Any], None] = lambda vectors: None  # called with the vectors of texts that are then grouped


SILENT = Progress()
