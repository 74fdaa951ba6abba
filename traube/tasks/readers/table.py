"""The user's own data: a table, and a card in `cards/` that says which column is what.

    file: tickets.csv          # relative to the card's folder; csv, tsv, jsonl or parquet
    text: body
    labels: [area, team]       # optional: one column, or a list of columns, each a level
    split: month               # optional
    query: question            # optional: a text that all texts of a split answer

The task's name is the card's. Every field of `TaskCard` may be given too, and `part` (a column of
train / validation / test) and `separator`. All formats but parquet may be gzipped (`.gz`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field, ValidationInfo, field_validator

from traube.core.config import PathName
from traube.core.errors import TraubeError, unknown
from traube.core.inputs import regular
from traube.tasks.reading import Rows, format_of, lines, read_rows
from traube.tasks.source import CardSource, KeyLines, Source
from traube.tasks.task import PARTS, Part, TaskCard, make_split, names_texts


class TableCard(TaskCard):
    """A task card that says where the data lies, and which column is what."""

    file: PathName
    text: str
    labels: tuple[str, ...] = ()
    split: str | None = None
    query: str | None = None
    part: str | None = None
    separator: str | None = Field(None, min_length=1, max_length=1)

    @field_validator("labels", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("labels")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a column is named twice")
        return value

    @field_validator("labels", "split", "part")
    @classmethod
    def _not_the_texts(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("text") in (value if isinstance(value, tuple) else (value,)):
            raise ValueError(f"'{info.data['text']}' is the column of the texts; name another")
        return value


class Table(CardSource[TableCard], Source):
    """A table described by a card."""

    form = TableCard
    key = "file"

    def __init__(self, path: Path, settings: TableCard, key_lines: KeyLines | None = None) -> None:
        super().__init__(path, settings, key_lines)
        self.has_training_splits = settings.part is not None and bool(settings.labels)

    def read(self) -> pd.DataFrame:
        """Text, and a column `level:<name>` per level: a user's column may have any
        name, also one of ours.

        Raises
        ------
        TraubeError
            If the file cannot be read, has no rows, lacks a column or has a value
            that cannot be used.
        """
        rows = read_rows(self.files()[0], self.settings.separator)
        if not len(rows):
            raise TraubeError(f"{rows.path}: there are no rows")
        columns: dict[str, list[str | None]] = {"text": [text or "" for text in self._values(rows, "text")]}
        for level in self.settings.labels:
            columns[f"level:{level}"] = self._labels(rows, level)
        if self.settings.split:
            columns["split"] = _required(rows, self.settings.split, self._values(rows, "split"))
        if self.settings.query:
            columns["query"] = self._values(rows, "query")
        if self.settings.part:
            columns["part"] = _required(rows, self.settings.part, self._values(rows, "part"), PARTS)
        return pd.DataFrame({name: pd.array(values, dtype="str") for name, values in columns.items()})

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """One split per value of the column `split`, or one split called `all`; once per level."""
        groups = records.groupby("split", sort=False) if "split" in records else [("all", records)]
        return pd.concat([part for name, group in groups for part in self._levels(str(name), group)], ignore_index=True)

    def _levels(self, split: str, group: pd.DataFrame) -> Iterator[pd.DataFrame]:
        part: Part | pd.Series = group.get("part", "test")
        if not self.settings.labels:
            yield make_split(group, split, "none", part=part)
        for level in self.settings.labels:
            yield make_split(group, split, level, label=f"level:{level}", part=part)

    def _values(self, rows: Rows, key: str, column: str | None = None) -> list[str | None]:
        return rows.texts(column or getattr(self.settings, key), self.place(key))

    def _labels(self, rows: Rows, column: str) -> list[str | None]:
        values = self._values(rows, "labels", column)
        if not self.settings.split and names_texts(values):
            raise TraubeError(
                f"{self.place('labels')}: column '{column}' has {len(set(values)):,} different values in "
                f"{len(values):,} rows: they name texts, not groups; name the column of groups"
            )
        return values


def read_any_rows(path: Path) -> Rows:
    """A table as it is, or the lines of a .txt that are not blank as the column `text` of one."""
    regular(path)
    if format_of(path) != "txt":
        return read_rows(path)
    texts = {f"{path}:{number}": line for number, line in enumerate(lines(path), start=1) if line.strip()}
    return Rows(path, {"text": list(texts.values())}, list(texts))


def texts_of(rows: Rows, column: str = "text", option: str = "--text") -> list[str]:
    """A column as texts, where a .txt has but one.

    Parameters
    ----------
    option : of the command line, that names the column

    Raises
    ------
    TraubeError
        If there is no such column, there are no rows, or a value is none that can be a text.
    """
    column = "text" if format_of(rows.path) == "txt" else column
    if column not in rows.columns:
        raise TraubeError(f"{rows.path}: {unknown('column', column, rows.columns)} (name it with {option} COLUMN)")
    if not len(rows):
        raise TraubeError(f"{rows.path}: there are no rows")
    return [text or "" for text in rows.texts(column)]


def _required(
    rows: Rows, column: str, values: list[str | None], allowed: tuple[str, ...] | None = None
) -> list[str | None]:
    for value, place in zip(values, rows.places, strict=True):
        if value is None:
            raise TraubeError(f"{place}: column '{column}' is empty")
        if allowed and value not in allowed:
            raise TraubeError(f"{place}: column '{column}': '{value}' is none of {', '.join(allowed)}")
    return values


# the key of a card that asks for this reader
CARDS = {"file": Table}
