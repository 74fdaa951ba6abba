"""What a study of a recipe found: its trials, their history, and which values mattered."""

from html import escape
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    import optuna


def trials_table(study: "optuna.Study") -> pd.DataFrame:
    """DataFrame trial, value (empty for one that failed), the values tried, state."""
    rows = [
        {
            "trial": t.number,
            "value": t.value if t.value is not None else None,
            **t.params,
            "state": t.state.name.lower(),
        }
        for t in study.trials
    ]
    return pd.DataFrame(rows, columns=None if rows else ["trial", "value", "state"])


def history(study: "optuna.Study") -> str:
    """A page: the score of each trial and the best so far."""
    from optuna.visualization import plot_optimization_history

    return str(plot_optimization_history(study).to_html(include_plotlyjs=True))


def importances(study: "optuna.Study") -> str:
    """A page: how much of the scores' variance each value explains; two different trials
    are needed at least.
    """
    from optuna.visualization import plot_param_importances

    try:
        return str(plot_param_importances(study).to_html(include_plotlyjs=True))
    except (RuntimeError, ValueError) as error:
        return f"<!doctype html><meta charset='utf-8'><p>Not yet: {escape(str(error))}</p>"
