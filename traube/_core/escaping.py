"""Escaping of texts and names from others.

These are data: they control neither the terminal that shows them nor the spreadsheet that opens them.
"""

import csv
import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Characters that control a terminal: C0 (all but tab and line feed), delete, C1, separators of lines, what changes the direction
# of writing for more than itself; and halves of characters, which cannot be encoded
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = frozenset("=+-@")
_SPLITTING = ("\t", "\r", "\n")  # what follows may become a cell of its own


def escape_controls(text: str) -> str:
    r"""Escape the control characters of a text, as in ``\x1b``; tabs and line feeds stay."""
    return _COMMANDS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def format_csv(frame: "pd.DataFrame") -> str:
    """Return a table as CSV from which a spreadsheet computes nothing.

    A text (or column's name) that begins with ``= + - @``, tab, carriage return or line feed gets an apostrophe in
    front, by which spreadsheets know a text. So do the other forms of these characters (full-width, small, raised),
    and any of them behind blanks and invisible characters, which spreadsheets trim. Numbers and all other texts stay
    as they are.
    """
    import pandas as pd
    from pandas.api.types import is_numeric_dtype, is_object_dtype

    safe = frame.rename(columns=_no_formula)
    for column, dtype in enumerate(safe.dtypes):
        values = safe.iloc[:, column]
        if is_object_dtype(dtype):
            # a column of several types stays so: pandas would turn integers with gaps into floats
            cells = [_no_formula(value) for value in values]
            safe.isetitem(column, pd.Series(cells, index=values.index, dtype=object))
        elif not is_numeric_dtype(dtype):
            safe.isetitem(column, values.map(_no_formula))
    written = str(safe.to_csv(index=False))
    if "\r" not in written:
        return written
    # an unquoted carriage return begins a row, whose first cell nobody has checked
    return str(safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC))


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _begins_formula(value) else value


def _begins_formula(text: str) -> bool:
    # categories C, M and Z: controls and formats (a byte order mark), marks without a letter, blanks
    first = next((c for c in text if unicodedata.category(c)[0] not in "CMZ"), "")
    return text.startswith(_SPLITTING) or not _FORMULA.isdisjoint(unicodedata.normalize("NFKC", first))
