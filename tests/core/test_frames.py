"""Tables below one another, the same by every pandas."""

import warnings

import numpy as np
import pandas as pd

from traube._core.frames import TEXT, stack

NUMBERS = pd.DataFrame({"task": pd.Series(["a", "b"], dtype=TEXT), "measured": [0.5, 1.0]})


def test_a_table_without_rows_and_a_column_without_values_have_no_say_in_a_type() -> None:
    nothing = pd.DataFrame(columns=["task", "measured", "note"])  # of objects
    unread = pd.DataFrame({"task": ["c"], "measured": [None], "note": ["not there"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = stack([nothing, NUMBERS, unread])
    assert table["measured"].dtype == np.float64
    assert table["task"].tolist() == ["a", "b", "c"]
    assert table["measured"].isna().tolist() == [False, False, True]
    assert table["note"].tolist()[2] == "not there"
    assert table.index.tolist() == [0, 1, 2]


def test_columns_stay_where_nobody_has_rows_or_values() -> None:
    assert list(stack([NUMBERS.iloc[:0], NUMBERS.iloc[:0]])) == ["task", "measured"]
    unmeasured = NUMBERS.assign(measured=np.nan)
    assert list(stack([unmeasured, unmeasured])) == ["task", "measured"]
