"""The user's own data: a table, and a card in `cards/` that names its columns (`cards/README.md`)."""

from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationInfo, field_validator

from traube._core.config import OneOrMany, PathName
from traube._core.errors import Malformed, Unknown, unknown
from traube._core.frames import TEXT
from traube.tasks._reading import Rows, TableFormat, read_rows
from traube.tasks._source import CardSource, KeyLines
from traube.tasks._task import SUBSETS, TaskCard, make_split, names_texts


class TableCard(TaskCard, TableFormat):
    """A task card that says where the data lies, and names its columns."""

    file: PathName
    text: str
    labels: OneOrMany = ()
    split: str | None = None
    query: str | None = None
    part: str | None = None

    @field_validator("labels", "split", "part")
    @classmethod
    def _own_columns(cls, value: Any, info: ValidationInfo) -> Any:
        columns = value if isinstance(value, tuple) else (value,)
        if len(set(columns)) < len(columns):
            raise ValueError("a column is named twice")
        if info.data.get("text") in columns:
            raise ValueError(f"'{info.data['text']}' is the column of the texts; name another")
        return value


class TableSource(CardSource[TableCard]):
    """A table described by a card."""

    form = TableCard
    key = "file"
    version = "2"  # without rows that lack a text or all labels

    def __init__(self, path: Path, settings: TableCard, key_lines: KeyLines | None = None) -> None:
        super().__init__(path, settings, key_lines)
        self.has_training_splits = settings.part is not None and bool(settings.labels)

    def read(self) -> pd.DataFrame:
        """Return text, and a column `level:<name>` per level.

        The prefix is there because a user's column may have any name, also one of Traube's. Rows without a text, or
        without any label, are left out.
        """
        rows = read_rows(self.files()[0], self.settings)
        rows.require_rows()
        labels = self.settings.labels
        texts = rows.texts(self.settings.text, self.place("text"))
        named = [rows.texts(level, self.place("labels")) for level in labels]
        is_labeled = [any(_holds(value) for value in values) for values in zip(*named, strict=True)]
        if any(is_labeled):
            lacking = [not (_holds(text) and labeled) for text, labeled in zip(texts, is_labeled, strict=True)]
            rows = rows.leave_out(lacking, "without a text or a label")
        else:
            rows = rows.leave_out([not _holds(text) for text in texts], "without a text")
        columns: dict[str, list[str | None]] = {"text": rows.texts(self.settings.text)}
        for level in labels:
            values = columns[f"level:{level}"] = [value if _holds(value) else None for value in rows.texts(level)]
            if not self.settings.split and names_texts(values):
                raise Malformed(
                    f"{self.place('labels')}: column '{level}' has {len(set(values)):,} different values in "
                    f"{len(values):,} rows: they name texts, not groups; name the column of groups"
                )
        for key in ("split", "query", "part"):
            column = getattr(self.settings, key)
            if not column:
                continue
            columns[key] = rows.texts(column, self.place(key))
            for value, place in zip(columns[key], rows.places, strict=True):
                if value is None and key != "query":
                    raise Malformed(f"{place}: column '{column}' is empty")
                if key == "part" and value not in SUBSETS:
                    raise Malformed(f"{place}: column '{column}': '{value}' is none of {', '.join(SUBSETS)}")
        return pd.DataFrame({name: pd.array(values, dtype=TEXT) for name, values in columns.items()})

    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return one split per value of the column `split`, or one split called `all`; once per level, of what has it."""
        groups = records.groupby("split", sort=False) if "split" in records else [("all", records)]
        labels: dict[str, str | None] = {level: f"level:{level}" for level in self.settings.labels} or {"none": None}
        splits = []
        for name, group in groups:
            for level, label in labels.items():
                there = group[group[label].notna()] if label and records[label].notna().any() else group
                splits.append(make_split(there, str(name), level, label=label, subset=there.get("part", "test")))
        return pd.concat(splits, ignore_index=True)


def _holds(value: str | None) -> bool:
    return value is not None and bool(value.strip())


def read_column(rows: Rows, column: str, option: str = "--text") -> list[str]:
    """Return a column as texts; `option` of the command line names it."""
    if column not in rows.columns:
        raise Unknown(f"{rows.path}: {unknown('column', column, rows.columns)} (name it with {option} COLUMN)")
    rows.require_rows()
    return [text or "" for text in rows.texts(column)]


CARDS = {"file": TableSource}
