"""Curves of trainings, and studies of a recipe: trials, their history, and the values that mattered."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from traube._pipeline.cell import Cell
from traube._reports.figures import Plot, axes, grouped_bars, line
from traube._reports.rendering import figures_page
from traube._storage import Storage

if TYPE_CHECKING:
    import optuna


def last_epochs(storage: Storage, cells: Iterable[Cell]) -> pd.DataFrame:
    """Return the last epoch of each training of a deep clusterer.

    Returns
    -------
    DataFrame
        `method`, `seed`, `split`, `epoch`, `loss` and its parts by name, `clusters`, `changed`, and `acc` and `nmi` where
        there are labels; empty without a training.
    """
    rows = []
    for cell in cells:
        for split, history in storage.read_histories(cell.cell_id).items():
            rows += [{"method": cell.method.name, "seed": cell.seed, "split": split, **history[-1]}] if history else []
    return pd.DataFrame(rows)


def trials_table(study: "optuna.Study") -> pd.DataFrame:
    """Return a DataFrame with trial, value (empty for one that failed), the values tried and state."""
    rows = [{"trial": t.number, "value": t.value, **t.params, "state": t.state.name.lower()} for t in study.trials]
    return pd.DataFrame(rows, columns=None if rows else ["trial", "value", "state"])


def history(study: "optuna.Study") -> str:
    """Return a page: the score of each trial and the best so far."""
    done = [(trial.number, trial.value) for trial in study.trials if trial.value is not None]
    trials, values = [number for number, _ in done], np.array([value for _, value in done])
    so_far = np.maximum.accumulate(values) if study.direction.name == "MAXIMIZE" else np.minimum.accumulate(values)
    traces = [line("trials", trials, values, 0, mode="markers"), line("the best so far", trials, so_far, 1)]
    return figures_page("The trials of a study", [Plot("", traces, axes("trial", "value", 480))])


def importances(study: "optuna.Study") -> str:
    """Return a page: how much of the scores' variance each value explains; two different trials are needed at least."""
    from optuna.importance import get_param_importances

    title = "How much of the scores' variance each value explains"
    try:
        explained = get_param_importances(study)
    except (RuntimeError, ValueError) as error:
        return figures_page(title, [], [f"Not yet: {error}"])
    rows = pd.DataFrame({"value": list(explained), "of": "", "mean": list(explained.values()), "sem": 0.0})
    return figures_page(title, [grouped_bars("", rows, "value", "of", "share")])
