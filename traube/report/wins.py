"""Why one model scores higher than another: on which splits each wins, and what
these splits are like.
"""

from collections.abc import Mapping
from itertools import combinations

import pandas as pd

from traube.benchmark.current import current_cells
from traube.benchmark.params import Protocol
from traube.report.tables import main_metric
from traube.store import Store

COLUMNS = (
    *("task", "protocol", "method", "a", "b", "level", "splits", "a_wins", "b_wins", "mean_difference"),
    *("size_where_a_wins", "size_where_b_wins", "classes_where_a_wins", "classes_where_b_wins"),
)


def split_scores(store: Store, protocols: Mapping[str, Protocol], tasks: list[str]) -> pd.DataFrame:
    """The main metric of every split, with what the split is like.

    Returns
    -------
    DataFrame task, protocol, method, model, split, level, value (mean over seeds), size, classes
    """
    cells = current_cells(store, protocols, tasks)
    cells = cells[cells["status"] == "done"]
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    tables = []
    for (task, name), rows in cells.groupby(["task", "protocol"]):
        card, protocol = store.card(str(task)), protocols.get(str(name))
        scores = store.scores(rows).merge(rows[["cell_id", "task", "protocol", "method", "model"]])
        scores = scores[scores["metric"] == main_metric(card, protocol, scores["metric"])]
        keys = ["task", "protocol", "method", "model", "split", "level"]
        values = scores.groupby(keys)["value"].mean().reset_index()
        if card is not None and store.manifest(card.name):
            splits = store.task(card).test_splits(protocol.split_set if protocol else "default")
            shape = pd.DataFrame([(s.split, s.level, s.size, s.classes) for s in splits])
            values = values.merge(shape.set_axis(["split", "level", "size", "classes"], axis=1), on=["split", "level"])
        tables.append(values)
    columns = ["task", "protocol", "method", "model", "split", "level", "value", "size", "classes"]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def wins(scores: pd.DataFrame) -> pd.DataFrame:
    """Each pair of models by task, method and level: how many splits each wins, and
    how large these are.

    Parameters
    ----------
    scores : from `split_scores`

    Returns
    -------
    DataFrame with COLUMNS; sizes and numbers of classes are medians, empty where a model wins no
    split. A split that both score alike counts for neither.
    """
    rows = []
    for (task, protocol, method, level), group in scores.groupby(["task", "protocol", "method", "level"]):
        grid = group.pivot_table(index="split", columns="model", values="value")
        shape = group.drop_duplicates("split").set_index("split")[["size", "classes"]]
        for a, b in combinations(grid.columns, 2):
            d = (grid[a] - grid[b]).dropna()
            won = {"a": shape.loc[d.index[d > 0]], "b": shape.loc[d.index[d < 0]]}
            medians = [won[side][c].median() for c in ("size", "classes") for side in ("a", "b")]
            rows.append((task, protocol, method, a, b, level, len(d), len(won["a"]), len(won["b"]), d.mean(), *medians))
    return pd.DataFrame(rows, columns=list(COLUMNS))
