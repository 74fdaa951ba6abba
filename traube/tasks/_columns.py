"""Detection of the columns that hold texts and labels, where their names leave no doubt."""

from traube._core.errors import LISTED, TraubeError
from traube.tasks._reading import Rows
from traube.tasks._task import names_texts

# Names in any case, the surest first; German ones beside them, since German spreadsheets are as usual here.
TEXTS = (
    "text", "texts", "body", "content", "message", "sentence", "document", "description", "comment", "review", "question",
    "utterance", "abstract", "inhalt", "nachricht", "beschreibung", "satz", "kommentar", "titel", "title",
)  # fmt: skip
LABELS = (
    "label", "labels", "category", "topic", "class", "area", "intent", "department", "kategorie", "thema",
    "klasse", "bereich", "abteilung",
)  # fmt: skip
LOOKED_AT = 1_000  # rows
WORDS = 3  # that texts have on average


def guess_text_column(rows: Rows) -> str:
    """Return the column of a table's texts: the one with a name of `TEXTS`, or the only one that reads like texts.

    Raises
    ------
    TraubeError
        If that leaves none, or several, or there are no rows.
    """
    rows.require_rows()
    if (named := _find_named(rows, TEXTS)) is not None:
        return named
    found = [name for name in rows.columns if _reads_like_texts(rows, name)]
    if len(rows.columns) == 1 or len(found) == 1:
        return next(iter(found or rows.columns))
    names = ", ".join(list(rows.columns)[:LISTED]) or "none"
    fault = f"which column holds the texts is not clear; name it with --text COLUMN (columns: {names})"
    raise TraubeError(f"{rows.path}: {fault}")


def guess_label_column(rows: Rows, text_column: str) -> str | None:
    """Return the column of a table's labels, the one with a name of `LABELS` that groups texts; None if there is none."""
    return _find_named(rows, LABELS, beside=text_column)


def _find_named(rows: Rows, names: tuple[str, ...], beside: str | None = None) -> str | None:
    """Return the column with the first of some names; a column of labels only if it stands beside that of the texts."""
    columns = {name.strip().casefold(): name for name in reversed(rows.columns) if name != beside}
    found = (columns[name] for name in names if name in columns)
    return next((name for name in found if beside is None or _groups(rows, name)), None)


def _groups(rows: Rows, name: str) -> bool:
    """Return whether the values of a column group texts: there are two or more, and they do not name each text."""
    values = [None if value is None else str(value) for value in rows.columns[name]]
    return len({*values} - {None}) > 1 and not names_texts(values)


def _reads_like_texts(rows: Rows, name: str) -> bool:
    values = [value for value in rows.columns[name][:LOOKED_AT] if value not in (None, "")]
    if not values or not all(isinstance(value, str) for value in values):
        return False
    return sum(len(value.split()) for value in values) >= WORDS * len(values)
