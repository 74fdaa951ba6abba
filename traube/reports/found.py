"""How far the number of clusters that was found is from that of the classes, where a method finds it
by itself.
"""

from typing import Any

import numpy as np
import pandas as pd

from traube.components import get_clusterer
from traube.storage import Storage
from traube.tasks.stored import get_manifest, read_task

COLUMNS = ("found_k", "true_k", "k_error")


def found_k(storage: Storage, cells: pd.DataFrame, split_sets: dict[str, str] | None = None) -> pd.DataFrame:
    """The numbers of clusters that cells found whose methods are not told it, where there are labels.

    Parameters
    ----------
    cells : as the storage gives them
    split_sets : of protocols by name; by default the usual one

    Returns
    -------
    DataFrame cell_id, level, found_k and true_k (clusters and classes, means over the splits) and
    k_error (the mean of |log2 (clusters / classes)|: 1 is twice or half as many)
    """
    columns = ["cell_id", "level", *COLUMNS]
    told = zip(cells["status"].tolist(), cells["clusterer"].tolist(), cells["params"].tolist(), strict=True)
    auto = cells[np.array([status == "done" and _chooses(*cell) for status, *cell in told], dtype=bool)]
    tables = []
    for task, own in auto.groupby("task"):
        if get_manifest(storage, str(task)) is None:
            continue
        read = read_task(storage, str(task))
        for split_set, some in own.groupby(own["protocol"].map(lambda name: (split_sets or {}).get(name, "default"))):
            true = {(s.split, s.level): s.classes for s in read.test_splits(str(split_set)) if s.classes}
            values = storage.read_scores(some, ["clusters"]).rename(columns={"value": "found_k"})
            keys = zip(values["split"], values["level"], strict=True)
            values = values.assign(true_k=[true.get(key, np.nan) for key in keys]).dropna(subset=["true_k"])
            tables.append(values.assign(k_error=np.abs(np.log2(values["found_k"] / values["true_k"]))))
    if not tables:
        return pd.DataFrame(columns=columns)
    return pd.concat(tables).groupby(["cell_id", "level"], as_index=False)[list(COLUMNS)].mean()


def _chooses(clusterer: str, params: dict[str, Any]) -> bool:
    component = get_clusterer(clusterer)
    return component.finds_k or component.chooses_k(params["clusterer_params"])


def in_words(found: float, true: float, error: float) -> str:
    """Such as `84 of 89 (|log2| 0.08)`."""
    return f"{found:.0f} of {true:.0f} (|log2| {error:.2f})"
