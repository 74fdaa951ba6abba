"""The sizes of a task's splits, which papers on benchmarks report."""

import pandas as pd


def split_sizes(splits: pd.DataFrame) -> pd.DataFrame:
    """How many rows and classes each split has.

    Parameters
    ----------
    splits : of a task, or some rows of it

    Returns
    -------
    DataFrame split_set, part, split, level, rows, classes; a row a split
    """
    groups = splits.groupby(["split_set", "part", "split", "level"], sort=False)
    return groups.agg(rows=("item", "size"), classes=("label", "nunique")).reset_index()
