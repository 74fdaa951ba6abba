"""Texts, labels and embeddings that users pass: lists, arrays, and columns of pandas or Arrow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube._core.errors import TraubeError, unknown

Matrix: TypeAlias = NDArray[np.float32] | sparse.csr_matrix
TEXTS = "a list of str, a NumPy array, a pandas Series, an Arrow column, or a table and text_column="


@dataclass(frozen=True)
class Texts:
    """A column of texts.

    Attributes
    ----------
    values : list of str
        The texts; a missing one is empty.
    index : pandas.Index
        Of what was passed, or 0, 1, 2, ...
    """

    values: list[str]
    index: pd.Index


def read_texts(given: Any, where: str, column: str | None = None, labels: Any = None) -> Texts:
    """Return the texts that somebody passed to a function.

    Parameters
    ----------
    given : iterable of str, or a table
        A table is a DataFrame or an Arrow table, of which one column holds the texts.
    where : str
        The function, for messages.
    column : str, optional
        The table's column of texts. By default its only one, the column of `labels` aside.
    labels : object, optional
        Labels that were passed: of a table, maybe the name of a column.

    Raises
    ------
    TypeError
        If this is neither texts nor a table.
    TraubeError
        If the table has no such column, or no column alone holds texts.
    """
    table = _to_frame(given)
    if table is not None:
        given = table[_choose_column(table, where, column, labels if isinstance(labels, str) else None)]
    elif column is not None:
        raise TypeError(f"{where}: text_column names a column, and texts is of type {_name(given)}, no table")
    values = _to_list(given, where, "texts", TEXTS)
    missing = pd.isna(pd.Series(values, dtype=object)).tolist()
    texts = ["" if is_missing else value for value, is_missing in zip(values, missing, strict=True)]
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            hint = "embeddings go into embeddings=" if isinstance(text, (float, int, list, np.ndarray)) else "pass str"
            raise TypeError(f"{where}: text {i} is of type {_name(text)}: {hint}")
    index = given.index if isinstance(given, pd.Series) else pd.RangeIndex(len(texts))
    return Texts([str(text) for text in texts], index)


def read_labels(given: Any, where: str, texts: Any = None) -> list[str | None]:
    """Return the labels that somebody passed: as names, None where one is missing.

    Parameters
    ----------
    given : iterable, or str
        The labels, or the name of a column of `texts`, a table.
    where : str
        Place of the values, for errors.
    texts : object, optional
        The texts, of which a table may hold the labels.
    """
    if isinstance(given, str) and (table := _to_frame(texts)) is not None:
        if given not in table:
            raise unknown("column", given, map(str, table))
        given = table[given]
    values = _to_list(given, where, "labels", "a list with a label for each text, or the name of a table's column")
    return [None if pd.isna(value) else str(value) for value in pd.Series(values, dtype=object)]


def read_embeddings(given: Any, where: str, count: int | None = None) -> Matrix:
    """Return embeddings that somebody passed, float32 (n_texts, n_dimensions).

    Raises
    ------
    TypeError
        If they are no matrix of numbers.
    TraubeError
        If they are not as many as the texts, or hold NaN or infinity.
    """
    if sparse.issparse(given):
        values = sparse.csr_matrix(given, dtype=np.float32)
    else:
        try:
            values = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError):
            values = np.empty(0, dtype=np.float32)
    if values.ndim != 2 or not values.shape[1]:
        fix = "pass an array of numbers with a row for each text, or a sparse matrix"
        raise TypeError(f"{where}: embeddings is of type {_name(given)}: {fix}")
    if count is not None and values.shape[0] != count:
        raise TraubeError(f"{where}: there are {count} texts and {values.shape[0]} embeddings: pass one for each text")
    if not np.isfinite(values.data if sparse.issparse(values) else values).all():
        raise TraubeError(f"{where}: embeddings hold NaN or infinity")
    return values


def _to_frame(given: Any) -> pd.DataFrame | None:
    """Return a table as pandas has it; None of anything else."""
    if isinstance(given, pd.DataFrame):
        return given
    # Arrow's tables, and those of other libraries that convert to pandas in the same way
    return given.to_pandas() if hasattr(given, "to_pandas") and hasattr(given, "column_names") else None


def _choose_column(table: pd.DataFrame, where: str, column: str | None, labels: str | None) -> Any:
    if column is not None:
        if column not in table:
            raise unknown("column", column, map(str, table))
        return column
    found = [name for name in table if name != labels and _holds_texts(table[name])]
    if len(found) == 1:
        return found[0]
    names = ", ".join(map(str, found or table))
    there = f"columns {names} hold texts" if found else f"none of {names} is text"
    raise TraubeError(f"{where}: {there}: name the one to take, text_column=...")


def _holds_texts(column: Any) -> bool:
    values = column.dropna() if isinstance(column, pd.Series) else pd.Series()
    return bool(len(values)) and all(isinstance(value, str) for value in values)


def _to_list(given: Any, where: str, what: str, expected: str) -> list[Any]:
    is_flat = getattr(given, "ndim", 1) == 1
    if isinstance(given, (str, bytes, Mapping, pd.DataFrame)) or not isinstance(given, Iterable) or not is_flat:
        hint = "; embeddings go into embeddings=" if not is_flat and what == "texts" else ""
        raise TypeError(f"{where}: {what} is of type {_name(given)}: pass {expected}{hint}")
    if hasattr(given, "to_pylist"):  # Arrow's
        return list(given.to_pylist())
    return list(given.tolist() if hasattr(given, "tolist") else given)


def _name(value: Any) -> str:
    return type(value).__name__
