"""The error of the numbers of clusters that methods find, against the numbers of classes."""

import numpy as np
import pandas as pd

from traube._storage import Storage
from traube.components import get_clusterer
from traube.tasks._stored import get_manifest, read_task

COLUMNS = {
    "found_k": "Number of clusters found, mean over splits.",
    "true_k": "Number of classes, mean over splits.",
    "k_error": "Mean over splits of |log2 (clusters / classes)|: 1 is twice or half as many.",
}


def found_k(storage: Storage, cells: pd.DataFrame, split_sets: dict[str, str] | None = None) -> pd.DataFrame:
    """Return the numbers of clusters that were found by methods that are not given one, where there are labels.

    Parameters
    ----------
    storage : Storage
        The storage of tasks and clusterings.
    cells : DataFrame
        Cells as the storage gives them.
    split_sets : dict of str to str, optional
        The split set of each protocol, by the protocol's name. By default the usual one.

    Returns
    -------
    DataFrame
        `cell_id`, `level` and COLUMNS.
    """
    is_auto = []
    for cell in cells[["status", "clusterer", "params"]].itertuples(index=False):
        component = get_clusterer(cell.clusterer) if cell.status == "done" else None
        is_auto.append(bool(component and (component.finds_k or component.chooses_k(cell.params["clusterer_params"]))))
    auto = cells[np.array(is_auto, dtype=bool)]
    tables = []
    for task, task_cells in auto.groupby("task"):
        if get_manifest(storage, str(task)) is None:
            continue
        read = read_task(storage, str(task))
        for split_set, some in task_cells.groupby(
            task_cells["protocol"].map(lambda name: (split_sets or {}).get(name, "default"))
        ):
            true = {(s.split, s.level): s.classes for s in read.test_splits(str(split_set)) if s.classes}
            values = storage.read_scores(some, ["clusters"]).rename(columns={"value": "found_k"})
            keys = zip(values["split"], values["level"], strict=True)
            values = values.assign(true_k=[true.get(key, np.nan) for key in keys]).dropna(subset=["true_k"])
            tables.append(values.assign(k_error=np.abs(np.log2(values["found_k"] / values["true_k"]))))
    if not tables:
        return pd.DataFrame(columns=["cell_id", "level", *COLUMNS])
    return pd.concat(tables).groupby(["cell_id", "level"], as_index=False)[list(COLUMNS)].mean()


def describe_counts(n_clusters: float, true: float) -> str:
    """Return the found and the true number of clusters, such as `clusters found (84) / labels (89)`."""
    return f"clusters found ({n_clusters:.0f}) / labels ({true:.0f})"
