"""The table of a clustering: each row of the user's file, with the text's group."""

import re
from decimal import Decimal
from typing import Any

import pandas as pd

from traube._grouping.clustering import Clustering
from traube.tasks._reading import Rows, as_cell

_NEGATIVE = re.compile(r"-(0|[1-9]\d{0,9})(\.\d{1,6})?", re.ASCII)


def result_table(rows: Rows, clusters: Clustering) -> pd.DataFrame:
    """Return a row for each text.

    Returns
    -------
    DataFrame of n_texts rows
        The file's columns as they are, then `group` (int64; -1 is none), `name`, `distance` and, where it is known,
        `stability`, and where there are layers, `path`. If the file has a column of one of these names, the new column is
        called `traube_` and the name.
    """
    columns = {as_cell(name): [_cell(value) for value in values] for name, values in rows.columns.items()}
    table = pd.DataFrame(columns, dtype=object, index=range(len(rows)))
    labels = clusters.labels.tolist()
    new_columns = {"group": labels, "name": [clusters.name(c) for c in labels], "distance": clusters.distances}
    if clusters.stability:
        new_columns["stability"] = [clusters.stability.get(c) for c in labels]
    if clusters.layers:
        new_columns["path"] = clusters.paths()
    for name, values in new_columns.items():
        while name in table:
            name = f"traube_{name}"
        table[name] = values
    return table


def _cell(value: Any) -> Any:
    """Return a value as `as_cell` does, but a negative number that a CSV file holds as text as a number."""
    cell = as_cell(value)
    return Decimal(cell) if isinstance(cell, str) and _NEGATIVE.fullmatch(cell) else cell
