"""The family of comparisons of a task: the models whose pairs are tested together, and ranked.

Each further model costs every test power. So near copies, a checkpoint a night, may not pile up in it: a checkpoint is
compared in the night in which it comes. Then it stays on the leaderboard with its score and interval, but without a rank.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import timedelta

import pandas as pd

from traube._pipeline.current import current_cells
from traube._pipeline.params import Protocol, load_params
from traube._storage import Storage
from traube.comparison.champions import read_champions
from traube.models import checkpoints, model_cards

NIGHT = timedelta(hours=20)  # less than the day between two nightly runs
OUTSIDE = (
    "without a rank: checkpoints of earlier nightly runs that are no champions; `models:` of params.yaml may name them"
)

Lasting = Mapping[str, Collection[str]]  # the models that are always compared, by task


def list_lasting(storage: Storage) -> dict[str, set[str]]:
    """Return the models that are always compared, by task: all but checkpoints, those of params.yaml, and champions."""
    always = {*load_params().models} | (model_cards().keys() - checkpoints.cards().keys())
    champions = read_champions(storage).models
    return {task: always | {*champions.get(task, ())} for task in {*storage.list_scored_tasks(), *champions}}


def is_compared(cells: pd.DataFrame, lasting: Lasting) -> pd.Series:
    """Return whether each cell is of a model that is compared with others.

    Parameters
    ----------
    cells : DataFrame
        Cells that count, in the columns of the storage.
    lasting : mapping of str to collection of str
        Models that are always compared; of the others, those that were first scored in the last night of a task.

    Returns
    -------
    Series of bool
        With the index of the cells.
    """
    created = pd.to_datetime(cells["created"], utc=True, format="ISO8601")
    first = created.groupby([cells["task"], cells["protocol"], cells["model"]]).transform("min")
    newest = first.groupby([cells["task"], cells["protocol"]]).transform("max")
    lasts = [model in lasting.get(task, ()) for task, model in zip(cells["task"], cells["model"], strict=True)]
    return (newest - first < NIGHT) | pd.Series(lasts, cells.index, dtype=bool)


def list_compared(storage: Storage, protocols: Mapping[str, Protocol]) -> dict[str, set[str]]:
    """Return the models of each task's family under some protocols, and of champions; no other model is a newcomer."""
    cells = current_cells(storage, protocols, own_choice=True)
    compared = defaultdict(set, {task: {*models} for task, models in read_champions(storage).models.items()})
    rows = cells[is_compared(cells, list_lasting(storage))]
    for task, model in zip(rows["task"], rows["model"], strict=True):
        compared[task].add(model)
    return compared
