"""What a reader of raw data must be able to do."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import pandas as pd

from traube.foundation.config import Strict, parse
from traube.foundation.errors import TraubeError, Unavailable
from traube.foundation.hashes import stated_sha256
from traube.foundation.hashing import digest, file_sha256
from traube.foundation.inputs import is_file, named
from traube.tasks.task import Task, TaskCard, index_texts, make_split

# The line of each key of a card, for errors.
KeyLines = dict[tuple[Any, ...], int]


class _Card(Protocol):
    """What every card says."""

    @property
    def name(self) -> str: ...

    @property
    def licence(self) -> str: ...

    @property
    def source(self) -> str: ...

    def model_dump(self) -> dict[str, Any]: ...


C = TypeVar("C", bound=_Card)


class Raw(ABC, Generic[C]):
    """Raw data of any kind: which files it is, and whether they are here and sound.

    Attributes
    ----------
    card : what people must know of it
    version : raise it when the reader's output changes for the same raw data
    """

    version = "1"

    def __init__(self, card: C) -> None:
        self.card = card

    @property
    def name(self) -> str:
        return self.card.name

    @abstractmethod
    def files(self) -> list[Path]:
        """The raw files that are read."""

    @property
    def offline(self) -> bool:
        """Whether the task needs no raw data that has to be fetched or put there by a person."""
        return False

    def missing(self) -> str | None:
        """Why the task cannot be read here, and where to get what is missing; None if it can."""
        for path in self.files():
            if not path.is_file():
                return f"{path} is not there; get it from {self.card.source} (licence: {self.card.licence})"
        return None

    def fetch(self) -> None:  # most raw data is put there by a person
        """Download what is missing, where that can be done.

        Raises
        ------
        Unavailable
            If it cannot be had.
        """

    def raw_version(self) -> str:
        """Content hash of the raw data and the reader: the same string means there is
        nothing to read again.
        """
        return digest(
            [type(self).__name__, self.version, self.card.model_dump(), [file_sha256(p) for p in self.files()]]
        )

    def check(self) -> None:
        """Compare the raw files with their checksums, where something states them: what was sound
        when it was downloaded may be damaged since.

        Raises
        ------
        TraubeError
            If one is another.
        """
        for path in self.files():
            stated = stated_sha256(path)
            if stated is not None and stated != file_sha256(path):
                raise TraubeError(
                    f"{path}: damaged, or another file: its SHA-256 is not {stated[:64] or 'stated'}; delete it and get it again"
                )

    def require(self, kind: str) -> None:
        """Refuse what is missing or damaged.

        Parameters
        ----------
        kind : of what is read, for the message

        Raises
        ------
        Unavailable
            If raw data is missing.
        TraubeError
            If a raw file is another than its checksum states.
        """
        reason = self.missing()
        if reason:
            raise Unavailable(f"{kind} '{self.name}': {reason}")
        self.check()

    def _where(self) -> str:
        return ", ".join(map(str, self.files())) or "its source"


K = TypeVar("K", bound=Strict)


class CardSource(Raw[Any], Generic[K]):
    """What a card in `cards/` describes: a `Source` or a `PairSource`, by one of the user's own files.

    Attributes
    ----------
    form : type
        The form of the cards, with `plain()`, the part of a card that every task has.
    key : str
        The card's key that names the file.
    path : Path
        Of the card.
    settings : Strict
        The card.
    """

    form: ClassVar[Any]
    key: ClassVar[str]

    def __init__(self, path: Path, settings: K, key_lines: KeyLines | None = None) -> None:
        super().__init__(settings.plain())  # type: ignore[attr-defined]
        self.path, self.settings, self._key_lines = path, settings, key_lines or {}

    @classmethod
    def from_card(cls, path: Path, value: dict[str, Any], key_lines: KeyLines) -> Self:
        """Return the source of a card that has been read.

        Raises
        ------
        TraubeError
            If a key is missing, unknown or wrong; names the card, the line and the key.
        """
        return cls(path, parse(cls.form, {**value, "name": path.stem}, path, key_lines), key_lines)

    def files(self) -> list[Path]:
        return [named(self.path.parent, getattr(self.settings, self.key))]

    def missing(self) -> str | None:
        file = self.files()[0]
        return None if is_file(file) else f"{self.place(self.key)}: {file} is not there"

    def raw_version(self) -> str:
        return digest([super().raw_version(), self.settings.model_dump()])

    def place(self, key: str) -> str:
        """Return where a key stands, for errors."""
        return f"{self.path}: line {self._key_lines.get((key,), 1)}: {key}"


class Source(Raw[TaskCard]):
    """Turns raw data into a task. One subclass per raw format.

    Attributes
    ----------
    has_training_splits : whether there are labelled splits to train on and to validate, besides
        those that are scored
    """

    has_training_splits = False

    def unlabelled(self) -> list[str]:
        """More texts of the same kind, without labels, to train on; mostly none."""
        return []

    def augmented(self) -> dict[str, str]:
        """Texts that mean the same, by text, where somebody has published some; mostly none. One that
        occurs several times has the first of its augmentations.

        Raises
        ------
        TraubeError
            If raw data cannot be read.
        """
        return {}

    @abstractmethod
    def read(self) -> pd.DataFrame:
        """The records, in raw order: `text`, labels per level and, where there are, `part`
        and `query` (its text).
        """

    @abstractmethod
    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """The splits table (task.py), from records whose `text` has become `text_id`."""

    def load(self) -> Task:
        """Read raw data into a task.

        Raises
        ------
        Unavailable
            If raw data is missing.
        TraubeError
            If raw data cannot be read; the message names the file and the line.
        """
        self.require("task")
        records = self.read()
        if records.empty:
            raise TraubeError(f"task '{self.name}': {self._where()} holds no texts")
        corpus, indexed = index_texts(records)
        return Task(self.card, corpus, self.draw(indexed))


def whole(records: pd.DataFrame, levels: list[str]) -> pd.DataFrame:
    """All records as a single split called `all`, once per level of labels; without
    levels, without labels.
    """
    part = records.get("part", "test")
    if not levels:
        return make_split(records, "all", "none", part=part)
    return pd.concat([make_split(records, "all", level, label=level, part=part) for level in levels], ignore_index=True)
