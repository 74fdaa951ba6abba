"""Tasks of files that are named without a card.

A card is written into the data directory, and is used like any other. The columns, the encoding and the language are
detected from the file. To keep the card, or to extend it, copy it into `cards/`, where it takes precedence over the
generated one.
"""

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traube._core import paths
from traube._core.cards import is_generated, list_names
from traube._core.errors import TooFew, TraubeError
from traube._core.generated_cards import warn_of_damage, write_card, writing_cards
from traube._core.inputs import is_file, resolve_path
from traube.tasks import RESERVED, card_errors, sources
from traube.tasks._columns import guess_label_column, guess_text_column
from traube.tasks._languages import detect_languages, name_languages
from traube.tasks._readers.table import TableSource, read_column
from traube.tasks._reading import (
    BINARY_FORMATS,
    PACKED,
    TEXT_FORMATS,
    UTF_8,
    Rows,
    TableFormat,
    detect_encoding,
    read_rows,
)


@dataclass(frozen=True)
class FileTask:
    """The task of a file, and the contents of its card."""

    name: str
    card: Path
    text: str
    labels: tuple[str, ...]
    languages: tuple[str, ...]  # of its texts, as they are detected
    about: str  # for the user: how the file was read, in one line


def names_file(name: str) -> bool:
    """Return whether a task's name means a file: a path, or a name with a known ending."""
    endings = tuple(f".{kind}" for kind in (*TEXT_FORMATS, *BINARY_FORMATS, *PACKED, "gz"))
    return "/" in name or "\\" in name or name.lower().endswith(endings)


def find_task(file: Path) -> str | None:
    """Return the name of the task whose card names a file; a card in `cards/` goes before a generated one."""
    return next((source.name for source in _tables_of(resolve_path(Path.cwd(), str(file)))), None)


def make_task_of(
    file: Path, text: str | None = None, labels: Sequence[str] = (), form: TableFormat | None = None
) -> FileTask:
    """Write the card of a file's task; where one in `cards/` says the same of that file, it is used.

    Parameters
    ----------
    file : Path
        A table, or a .txt with a text a line.
    text : str, optional
        The column of the texts; by default that of the card that names the file, or the obvious one.
    labels : sequence of str
        The columns of the labels; by default as `text`.
    form : TableFormat, optional
        What is known of how the file is written; by default as its card says, and else it is found in the file.

    Raises
    ------
    TraubeError
        If the file cannot be read, or its columns are not what they should be.
    """
    file = resolve_path(Path.cwd(), str(file))
    form = TableFormat(**(_get_known_form(file) | (form.model_dump(exclude_none=True) if form else {})))
    rows = read_rows(file, form)
    with writing_cards():  # from the look-up on: one of several first runs of a file names its task
        return _make_task(file, rows, form, text, labels)


def _get_known_form(file: Path) -> dict[str, Any]:
    """Return how a file is written, as the card says that names it; a file that was saved as UTF-8 since is UTF-8."""
    settings = [table.settings for table in _tables_of(file)[:1]]
    known = {
        name: value
        for card in settings
        for name in TableFormat.model_fields
        if (value := getattr(card, name)) is not None
    }
    with suppress(TraubeError):  # only a person knows its encoding
        if "encoding" in known and detect_encoding(file) == UTF_8:
            del known["encoding"]
    return known


def _make_task(file: Path, rows: Rows, form: TableFormat, text: str | None, labels: Sequence[str]) -> FileTask:
    tables = _tables_of(file)
    known = next((table for table in tables if _agrees(table, rows, text, labels)), None)
    if known is not None:
        text, labels = known.settings.text, known.settings.labels
    else:
        text = text or guess_text_column(rows)
        guessed = guess_label_column(rows, text)
        labels = labels or ([guessed] if guessed else [])
    texts = [value for value in read_column(rows, text) if value.strip()]
    for name in labels:
        read_column(rows, name, "--labels")
    if not texts:
        raise TooFew(f"{file}: column '{text}' holds no texts")
    languages = detect_languages(texts)
    generated = next((table for table in tables if is_generated(table.path)), None)
    if known is not None and not is_generated(known.path):
        name, card = known.name, known.path
    else:
        name = generated.name if generated else _free_name(file)
        card = paths.generated_cards() / f"{name}.yaml"
        settings: dict[str, Any] = {"file": str(file), "text": text}
        settings |= {"labels": list(labels)} if labels else {}
        settings |= form.model_dump(exclude_none=True)
        settings |= {"encoding": rows.encoding} if rows.encoding != UTF_8 else {}
        settings |= {"language": languages[0]} if len(languages) == 1 else {}
        if generated is None and is_file(card):
            warn_of_damage(card)
        write_card(card, "Written for a file that was named without a card. To keep it, copy it to cards/.", settings)
    labeled = f"labels in {', '.join(map(repr, labels))}" if labels else "no labels"
    notes = ", ".join(filter(None, [name_languages(languages), *rows.notes]))
    how = f"texts in '{text}', {labeled}{f' ({notes})' if notes else ''}"
    return FileTask(name, card, text, tuple(labels), tuple(languages), f"{file.name}: {how}; task {name}, card {card}")


def _tables_of(file: Path) -> list[TableSource]:
    """Return the tasks whose cards name a file; those of `cards/` come first."""
    tables = [
        source for source in sources(None).values() if isinstance(source, TableSource) and source.files()[0] == file
    ]
    return sorted(tables, key=lambda table: is_generated(table.path))


def _agrees(table: TableSource, rows: Rows, text: str | None, labels: Sequence[str]) -> bool:
    """Return whether a task's columns exist and are the requested ones."""
    settings = table.settings
    is_requested = text in (None, settings.text) and (not labels or tuple(labels) == settings.labels)
    return is_requested and {settings.text, *settings.labels} <= {*rows.columns}


def _free_name(file: Path) -> str:
    """Return a name for the task of a file, from the file's name; with a number if another task has it."""
    stem = re.sub(rf"\.({'|'.join((*TEXT_FORMATS, *BINARY_FORMATS))})(\.gz)?$", "", file.name, flags=re.I)
    plain = unicodedata.normalize("NFKD", stem).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_") or "texts"
    # a damaged card of which nothing is recorded, so that nobody knows whose it was, is written again under its name
    damaged = {path.stem for path in card_errors() if is_generated(path)}
    taken = {*sources(None), *RESERVED, *(list_names() - damaged)}
    return next(free for n in range(1, len(taken) + 2) if (free := name if n == 1 else f"{name}_{n}") not in taken)
