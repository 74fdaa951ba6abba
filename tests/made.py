"""Made for tests: scores as the store wants them, and cells."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from traube.benchmark.params import Protocol
from traube.benchmark.plan import Cell, cells
from traube.methods import parse_method
from traube.metrics import GROUPS
from traube.models import Model, load_model
from traube.tasks.task import Task


def with_replicates(scores: pd.DataFrame, spread: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Scores with replicates that vary by `spread` about the value; by default they say that the texts do not matter."""
    rng = np.random.default_rng(seed)
    made = [value + spread * rng.normal(size=GROUPS) for value in scores["value"]]
    return scores.assign(replicates=pd.Series(made, index=scores.index, dtype=object))


_OWN = Protocol(reducers=("none",), clusterers=("kmeans",))


def cells_of(task: Task, *methods: str, model: Model | None = None, seeds: Sequence[int] = (1,)) -> list[Cell]:
    """The cells of a task by some methods, by default with bag of words and one seed."""
    return cells(task, model or load_model("bow"), _OWN, methods=[parse_method(m) for m in methods], seeds=seeds)
