"""Tables by pandas 2 and pandas 3, which differ in the types of columns."""

from collections.abc import Sequence

import pandas as pd

# What pandas makes of texts by itself: `object` in pandas 2, `str` from pandas 3 on. By the name "str", pandas 2 would
# turn None into the text "None".
TEXT = pd.Series([""]).dtype


def stack(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of tables one below another, with rows counted from 0.

    A table without rows, or a column without values, has no say in the type of a column, in pandas 3 either.
    """
    filled = [table for table in tables if len(table)]
    typed = {name for table in filled for name in table if table[name].notna().any()}
    kept = [table.drop(columns=[name for name in typed & {*table} if table[name].isna().all()]) for table in filled]
    names = dict.fromkeys(name for table in tables for name in table)
    return (pd.concat(kept, ignore_index=True) if filled else tables[0]).reindex(columns=list(names))
