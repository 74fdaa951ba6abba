"""Texts, labels and embeddings that users pass: lists, arrays, tensors, and tables and columns of any library.

Tables and columns of polars, DuckDB and others are read by the Arrow PyCapsule interface (`__arrow_c_stream__`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube._core.errors import Invalid, Malformed, unknown

Matrix: TypeAlias = NDArray[np.float32] | sparse.csr_matrix
TEXTS = "a list of str, a NumPy array, a pandas Series, a column of Arrow or polars, or a table and text_column="
ONE_EACH = "a list with a label for each text, or the name of a table's column"


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


def read_texts(given: Any, where: str, column: Any = None, labels: Any = None) -> Texts:
    """Return the texts that somebody passed to a function.

    Parameters
    ----------
    given : iterable of str, or a table
        A table is a DataFrame of any library, or whatever exports Arrow data, of which one column holds the texts.
    where : str
        The function, for messages.
    column : str or int, optional
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
    table = to_frame(given)
    if table is not None:
        given = table[_choose_column(table, where, column, labels if _is_name(labels) else None)]
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
    return Texts([replace_surrogates(str(text)) for text in texts], index)


def read_labels(given: Any, where: str, texts: Any = None) -> list[str | None]:
    """Return the labels that somebody passed: as names, None where one is missing.

    Parameters
    ----------
    given : iterable, or str or int
        The labels, or the name of a column of `texts`, a table.
    where : str
        Place of the values, for errors.
    texts : object, optional
        The texts, of which a table may hold the labels.
    """
    if _is_name(given) and (table := to_frame(texts)) is not None:
        given = table[_find_column(table, given)]
    values = _to_list(given, where, "labels", ONE_EACH)
    return [None if pd.isna(value) else replace_surrogates(str(value)) for value in pd.Series(values, dtype=object)]


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
            values = _to_matrix(given)
        except (TypeError, ValueError, RuntimeError):  # RuntimeError: torch, of tensors without values
            values = np.empty(0, dtype=np.float32)
    if values.ndim != 2 or not values.shape[1]:
        fix = "pass an array of numbers with a row for each text, or a sparse matrix"
        raise TypeError(f"{where}: embeddings is of type {_name(given)}: {fix}")
    if count is not None and values.shape[0] != count:
        raise Malformed(f"{where}: there are {count} texts and {values.shape[0]} embeddings: pass one for each text")
    if not np.isfinite(values.data if sparse.issparse(values) else values).all():
        raise Malformed(f"{where}: embeddings hold NaN or infinity")
    return values


def check_whole(value: Any, name: str) -> None:
    """Refuse what is no whole number; True and False are none."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name} is of type {type(value).__name__}: pass a whole number, or leave it out")


def replace_surrogates(text: str) -> str:
    """Return a text that can be encoded: halves of a character are joined, or else replaced, as in files."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def to_frame(given: Any) -> pd.DataFrame | None:
    """Return a table of any library as pandas has it; None of anything else, such as a column."""
    if isinstance(given, pd.DataFrame):
        return given
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, pd.Series):
        import pyarrow as pa

        column = pa.chunked_array(given)
        if not pa.types.is_struct(column.type):
            return None
        batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in column.chunks]
        return pa.Table.from_batches(batches, pa.schema(list(column.type))).to_pandas()
    # Hugging Face's data sets, and those of other libraries that convert to pandas as Arrow's tables do
    return given.to_pandas() if hasattr(given, "to_pandas") and hasattr(given, "column_names") else None


def _to_matrix(given: Any) -> NDArray[np.float32]:
    """Return numbers as an array, float32: of an array, a tensor, a table, or rows of any of these."""
    # a tensor that remembers its gradient, lies on another device or has 16 bits is no array yet
    given = given.detach().cpu().float() if hasattr(given, "detach") else given
    if (table := to_frame(given)) is not None:
        given = table if table.shape[1] != 1 else table.iloc[:, 0]
    try:
        values = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError):
        values = np.stack([_to_matrix(row) for row in _to_list(given, "", "", "")])
    return values[:, None] if table is not None and values.ndim == 1 else values


def _is_name(value: Any) -> bool:
    """Return whether this may name a column of a table."""
    return isinstance(value, (str, int, np.integer)) and not isinstance(value, bool)


def _find_column(table: pd.DataFrame, name: Any) -> Any:
    """Return the name of a column; True is not 1."""
    matches = [column for column in table if column == name and isinstance(column, bool) == isinstance(name, bool)]
    if not matches:
        raise unknown("column", str(name), map(str, table))
    return matches[0]


def _choose_column(table: pd.DataFrame, where: str, column: Any, labels: Any) -> Any:
    if column is not None:
        return _find_column(table, column)
    columns = [name for name in table if name != labels and _holds_texts(table[name])]
    if table.shape[1] == 1 and table.isna().all(axis=None):
        columns = list(table)
    if len(columns) == 1:
        return columns[0]
    names = ", ".join(map(str, columns or table))
    there = f"columns {names} hold texts" if columns else f"none of {names} is text"
    raise Invalid(f"{where}: {there}: name the one to take, text_column=...")


def _holds_texts(column: Any) -> bool:
    values = column.dropna() if isinstance(column, pd.Series) else pd.Series()
    return bool(len(values)) and all(isinstance(value, str) for value in values)


def _to_list(given: Any, where: str, what: str, expected: str) -> list[Any]:
    is_flat = getattr(given, "ndim", 1) == 1
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, (pd.Series, pd.DataFrame, Iterable)):
        import pyarrow as pa

        given = pa.chunked_array(given)
    if isinstance(given, (str, bytes, Mapping, pd.DataFrame)) or not isinstance(given, Iterable) or not is_flat:
        hint = "; embeddings go into embeddings=" if not is_flat and what == "texts" else ""
        raise TypeError(f"{where}: {what} is of type {_name(given)}: pass {expected}{hint}")
    if hasattr(given, "to_pylist"):  # Arrow's
        return list(given.to_pylist())
    return list(given.tolist() if hasattr(given, "tolist") else given)


def _name(value: Any) -> str:
    return type(value).__name__
