"""How trainings of deep clusterers went."""

from collections.abc import Iterable

import pandas as pd

from traube.pipeline.cell import Cell
from traube.storage import Storage


def last_epochs(storage: Storage, cells: Iterable[Cell]) -> pd.DataFrame:
    """What the last epoch of each training said.

    Returns
    -------
    DataFrame method, seed, split, epoch, loss and the parts of the loss by name, clusters, changed,
    and acc and nmi where there are labels; empty without a training
    """
    rows = []
    for cell in cells:
        for split, history in storage.read_histories(cell.cell_id).items():
            rows += [{"method": cell.method.name, "seed": cell.seed, "split": split, **history[-1]}] if history else []
    return pd.DataFrame(rows)
