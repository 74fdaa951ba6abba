"""The cost of a score for 1,000 texts, as measured; costs compare within one data directory only."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from traube._core.measure import Cost
from traube._pipeline.params import Protocol
from traube._storage import Storage
from traube._storage.costs import read_costs
from traube.components._method import name_methods
from traube.tasks._stored import get_manifest, read_task

NOTHING = Cost(1, np.nan, np.nan)  # is known
COLUMNS = ("task", "protocol", "model", "method", "encoding", "clustering", "seconds", "memory", "money", "earlier")


def costs(storage: Storage, protocols: Mapping[str, Protocol], cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cost of each model and method on each task.

    Parameters
    ----------
    storage : Storage
        The storage of cells, tasks and costs.
    protocols : mapping of str to Protocol
        Protocols by name.
    cells : DataFrame
        The cells that count (`traube._pipeline.current`).

    Returns
    -------
    DataFrame
        With COLUMNS: seconds for 1,000 texts of encoding, of clustering (with its reduction), and of both; `memory`, the
        most megabytes that either took beyond what was in use before; `money`, the dollars that an endpoint was paid for
        1,000 texts. `earlier` says that the task's texts were encoded
        before the task was evaluated, so that encoding is the model's cost in another task. What was not measured is nan.
    """
    done = cells[cells["status"] == "done"]
    if done.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    done = done.assign(method=name_methods(done))
    keys = list(zip(done["task"], done["protocol"], strict=True))
    items = {key: _clustered(storage, protocols, *key) for key in set(keys)}
    is_measured = done["total_seconds"].notna()
    known = done[["total_seconds", "seconds", "texts", "memory"]].astype(float)
    # where nothing was reduced, no reduction is missing in the seconds that a record has
    seconds = known["total_seconds"].fillna(known["seconds"].where(done["reducer"] == "none"))
    done["clustering"] = 1000 * seconds / known["texts"].where(is_measured, [items[key] for key in keys])
    done["own_memory"] = known["memory"].where(is_measured)
    models = done[["task", "fingerprint"]].drop_duplicates()
    known_costs = read_costs(storage)
    models["earlier"] = [key not in known_costs for key in models.itertuples(index=False, name=None)]
    encodings = [_encoding(known_costs, *key) for key in zip(models["task"], models["fingerprint"], strict=True)]
    models[["encoding", "encoding_memory", "money"]] = [
        (1000 * c.seconds / c.texts, c.memory, 1000 * c.money / c.texts) for c in encodings
    ]
    done = done.merge(models, on=["task", "fingerprint"])
    done["memory"] = done[["encoding_memory", "own_memory"]].max(axis=1, skipna=False)
    groups = done.groupby(["task", "protocol", "model", "method"])
    table = groups[["encoding", "clustering", "memory", "money"]].mean().assign(earlier=groups["earlier"].any())
    table["seconds"] = table["encoding"] + table["clustering"]
    return table.reset_index()[list(COLUMNS)]


def _encoding(known: Mapping[tuple[str, str], Cost], task: str, fingerprint: str) -> Cost:
    """Return the cost of encoding a task's texts.

    If the texts were encoded for other tasks, return the model's cost on the most texts.
    """
    others = [cost for (_, model), cost in known.items() if model == fingerprint]
    return known.get((task, fingerprint)) or max(others, key=lambda cost: cost.texts, default=NOTHING)


def _clustered(storage: Storage, protocols: Mapping[str, Protocol], task: str, protocol: str) -> float:
    """Return how many items a cell clusters; nan if the task is not there."""
    if get_manifest(storage, task) is None:
        return float("nan")
    splits, chosen = read_task(storage, task).splits, protocols.get(protocol)
    is_clustered = (splits["part"] == "test") & (splits["split_set"] == (chosen.split_set if chosen else "default"))
    return float(is_clustered.sum()) or float("nan")
