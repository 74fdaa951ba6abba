"""Kinds of tasks: a module for each, here or in a plug-in's `kinds`, which offers its `KIND`."""

from functools import lru_cache
from importlib import import_module
from typing import Any

import pandas as pd

from traube._core.plugins import import_plugins, modules_of
from traube._pipeline.kinds.kind import Kind
from traube.tasks.task import TaskCard


@lru_cache(maxsize=1)
def kinds() -> tuple[Kind[Any], ...]:
    """Return the kinds of tasks: Traube's own, then the plug-ins'."""
    modules = (*modules_of(import_module(__name__)), *(module for _, module in import_plugins("kinds")))
    return tuple(module.KIND for module in modules if hasattr(module, "KIND"))


def kind_of(card: TaskCard) -> Kind[Any]:
    """Return the kind of a task."""
    return {kind.type.name: kind for kind in kinds()}[card.type.name]


def select_kind(table: pd.DataFrame, kind: Kind[Any]) -> pd.DataFrame:
    """Return the rows of a kind, of stored cells or of the leaderboard: what stands as their protocol tells it."""
    if kind.mark is not None:
        return table[table["protocol"] == kind.mark]
    return table[~table["protocol"].isin([other.mark for other in kinds() if other.mark is not None])]
