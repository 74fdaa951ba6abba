"""Why one model scores higher than another: on which splits each wins, and what these splits are like."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube.pipeline.current import current_cells
from traube.pipeline.params import Protocol
from traube.reports.tables import metric_of
from traube.storage import Storage
from traube.tasks.stored import get_card, read_task

MODELS = 30
COLUMNS = (
    *("task", "protocol", "method", "a", "b", "level", "splits", "a_wins", "b_wins", "mean_difference"),
    *("size_where_a_wins", "size_where_b_wins", "classes_where_a_wins", "classes_where_b_wins"),
)


def split_scores(storage: Storage, protocols: Mapping[str, Protocol], tasks: list[str]) -> pd.DataFrame:
    """The main metric of every split, with what the split is like.

    Returns
    -------
    DataFrame task, protocol, method, model, split, level, value (mean over seeds), size, classes
    """
    cells = current_cells(storage, protocols, tasks)
    cells = cells[cells["status"] == "done"]
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    tables = []
    for (task, name), rows in cells.groupby(["task", "protocol"]):
        card, protocol = get_card(storage, str(task)), protocols.get(str(name))
        scores = storage.read_scores(rows).merge(rows[["cell_id", "task", "protocol", "method", "model"]])
        scores = scores[scores["metric"] == metric_of(card, protocol, scores["metric"])]
        keys = ["task", "protocol", "method", "model", "split", "level"]
        values = scores.groupby(keys)["value"].mean().reset_index()
        if card is not None:
            splits = read_task(storage, card.name).test_splits(protocol.split_set if protocol else "default")
            shape = pd.DataFrame([(s.split, s.level, s.size, s.classes) for s in splits])
            values = values.merge(shape.set_axis(["split", "level", "size", "classes"], axis=1), on=["split", "level"])
        tables.append(values)
    columns = ["task", "protocol", "method", "model", "split", "level", "value", "size", "classes"]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def wins(scores: pd.DataFrame) -> pd.DataFrame:
    """Each pair of models by task, method and level: how many splits each wins, and how large these
    are.

    Parameters
    ----------
    scores : from `split_scores`

    Returns
    -------
    DataFrame with COLUMNS; sizes and numbers of classes are medians, empty where a model wins no
    split. A split that both score alike counts for neither. Of more than MODELS models, the best on
    average are compared: pairs grow with the square.
    """
    keys = ["task", "protocol", "method", "level"]
    tables = [_pairs(rows).assign(**dict(zip(keys, key, strict=True))) for key, rows in scores.groupby(keys)]
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)] if tables else pd.DataFrame(columns=list(COLUMNS))


def _pairs(scores: pd.DataFrame) -> pd.DataFrame:
    """The pairs of models on the splits of one task, method and level."""
    best = scores.groupby("model")["value"].mean().nlargest(MODELS).index
    grid = scores[scores["model"].isin(best)].pivot_table(index="split", columns="model", values="value")
    shape = scores.drop_duplicates("split").set_index("split").loc[grid.index]
    first, second = np.triu_indices(len(grid.columns), 1)
    values = grid.to_numpy()
    difference = values[:, first] - values[:, second]  # a row for each split, a column for each pair
    a_wins, b_wins = difference > 0, difference < 0
    return pd.DataFrame(
        {
            "a": grid.columns[first],
            "b": grid.columns[second],
            "splits": (~np.isnan(difference)).sum(axis=0),
            "a_wins": a_wins.sum(axis=0),
            "b_wins": b_wins.sum(axis=0),
            "mean_difference": pd.DataFrame(difference).mean().to_numpy(),
            **{
                f"{what}_where_{side}_wins": _median(shape[what], won)
                for what in ("size", "classes")
                for side, won in (("a", a_wins), ("b", b_wins))
            },
        }
    )


def _median(values: pd.Series, where: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The median of the splits' values for each pair, over the splits that are marked for it."""
    marked = np.where(where, values.to_numpy(dtype=float)[:, None], np.nan)
    return pd.DataFrame(marked).median().to_numpy()
