"""What a score costs: seconds and memory for 1,000 texts, of a model and of a method.

Both are as measured where the scores were computed, so they compare within one home only.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from traube.benchmark.params import Protocol
from traube.store import Store

COLUMNS = ("task", "protocol", "model", "method", "encoding", "clustering", "seconds", "memory")


def costs(store: Store, protocols: Mapping[str, Protocol], cells: pd.DataFrame) -> pd.DataFrame:
    """What each model and method cost on each task.

    Parameters
    ----------
    cells : that count (`traube.benchmark.current`)

    Returns
    -------
    DataFrame with COLUMNS: seconds for 1,000 texts of encoding, of clustering (with its reduction),
    and of both; `memory`, the most megabytes that either took beyond what was in use before. What
    was not measured is nan
    """
    done = cells[cells["status"] == "done"]
    if done.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    done = done.assign(method=done["reducer"] + "/" + done["clusterer"])
    sizes = {key: _clustered(store, protocols, *key) for key in set(zip(done["task"], done["protocol"], strict=True))}
    done["items"] = [sizes[key] for key in zip(done["task"], done["protocol"], strict=True)]
    done["clustering"] = 1000 * done["seconds"] / done["items"]
    models = done[["task", "fingerprint"]].drop_duplicates()
    encodings = [store.encoding_cost(task, fingerprint) for task, fingerprint in models.itertuples(index=False)]
    models["encoding"] = [1000 * c.seconds / c.texts if c else np.nan for c in encodings]
    models["encoding_memory"] = [c.memory if c else np.nan for c in encodings]
    done = done.merge(models, on=["task", "fingerprint"])
    done["memory"] = done[["encoding_memory"]].max(axis=1)
    table = done.groupby(["task", "protocol", "model", "method"])[["encoding", "clustering", "memory"]].mean()
    table["seconds"] = table["encoding"] + table["clustering"]
    return table.reset_index()[list(COLUMNS)]


def _clustered(store: Store, protocols: Mapping[str, Protocol], task: str, protocol: str) -> float:
    """How many items a cell clusters; nan if the task is not there."""
    card, chosen = store.card(task), protocols.get(protocol)
    if card is None or store.manifest(task) is None:
        return float("nan")
    splits = store.task(card).splits
    own = (splits["part"] == "test") & (splits["split_set"] == (chosen.split_set if chosen else "default"))
    return float(own.sum()) or float("nan")
