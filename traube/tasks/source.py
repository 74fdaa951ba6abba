"""The base classes of readers of raw data."""

from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import pandas as pd
from typing_extensions import override

from traube._core.cards import name_card
from traube._core.config import Strict, parse, read_yaml
from traube._core.errors import Corrupt, TooFew, Unavailable
from traube._core.hashing import digest, file_sha256, read_stated_sha256
from traube._core.inputs import is_file, resolve_path
from traube.tasks.task import Task, TaskCard, index_texts

# The line of each key of a card, for errors.
KeyLines = dict[tuple[Any, ...], int]

C = TypeVar("C", bound=TaskCard)


@cache
def _read_catalogue(path: Path) -> dict[str, Any]:
    return read_yaml(path)[0]


def catalogue_card(catalogue: Path, name: str, form: type[C]) -> C:
    """Return the card of a task from a file of cards by name."""
    return form.model_validate({"name": name, **_read_catalogue(catalogue)[name]})


class Source(ABC):
    """Reader that turns raw data into a task.

    One subclass per raw format.

    Examples
    --------
    >>> from traube.tasks import get_source
    >>> get_source("pydocs_s2s").has_training_splits
    False
    """

    card: TaskCard
    version = "1"  # raise it when the reader's output changes for the same raw data
    has_training_splits = False  # labeled, to train on and to validate, besides those that are scored

    def __init__(self, card: TaskCard) -> None:
        self.card = card

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.card.name

    @abstractmethod
    def files(self) -> list[Path]:
        """Return the raw files that are read."""

    def missing(self) -> str | None:
        """Return why the task cannot be read here, and where to get the missing files; None if it can."""
        for path in self.files():
            if not path.is_file():
                return f"{path} is not there; get it from {self.card.source} (license: {self.card.license})"
        return None

    def fetch(self) -> None:  # noqa: B027 (most raw data is put there by a person)
        """Download the missing files, where that is possible.

        Raises
        ------
        Unavailable
            If it cannot be had.
        """

    def raw_version(self) -> str:
        """Return the content hash of the raw data and the reader.

        The same string means that there is nothing to read again.
        """
        hashes = [file_sha256(path) for path in self.files()]
        return digest([type(self).__name__, self.version, self.card.model_dump(), hashes])

    def check(self) -> None:
        """Compare the raw files with their checksums, if these are stated.

        The files may be corrupt since the download.
        """
        for path in self.files():
            stated = read_stated_sha256(path)
            if stated is not None and stated != file_sha256(path):
                fault = f"damaged, or another file: its SHA-256 is not {stated[:64] or 'stated'}"
                raise Corrupt(f"{path}: {fault}; delete it and get it again")

    def read_unlabeled(self) -> list[str]:
        """Return more texts of the same kind, without labels, to train on; mostly none."""
        return []

    @abstractmethod
    def read(self) -> pd.DataFrame:
        """Return the records, in raw order.

        The columns are `text`, labels per level and, where they exist, `part` and `query` (its text).

        Raises
        ------
        TraubeError
            If raw data cannot be read, or lacks something; the message names the file and the line.
        """

    @abstractmethod
    def draw(self, records: pd.DataFrame) -> pd.DataFrame:
        """Return the splits table (task.py), from records whose `text` has become `text_id`."""

    def ingest(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Read raw data, after `check`, into a corpus, and records that `draw` takes."""
        self.check()
        return index_texts(self.read())

    def load(self) -> Task:
        """Read raw data into a task.

        Raises
        ------
        Unavailable
            If raw data is missing.
        TraubeError
            If raw data cannot be read; the message names the file and the line.
        """
        if reason := self.missing():
            raise Unavailable(f"task '{self.name}': {reason}")
        corpus, records = self.ingest()
        if corpus.empty:
            raise TooFew(f"task '{self.name}': {', '.join(map(str, self.files())) or 'its source'} holds no texts")
        return Task(self.card, corpus, self.draw(records))


K = TypeVar("K", bound=Strict)


class CardSource(Source, Generic[K]):
    """A task that a card in `cards/` describes, read from one of the user's own files."""

    form: ClassVar[Any]  # of the cards, with `plain()`, the part of a card that every task has
    key: ClassVar[str]  # of the card, which names the file

    def __init__(self, path: Path, settings: K, key_lines: KeyLines | None = None) -> None:
        super().__init__(settings.plain())  # type: ignore[attr-defined]
        self.path, self.settings, self._key_lines = path, settings, key_lines or {}

    @classmethod
    def from_card(cls, path: Path, value: dict[str, Any], key_lines: KeyLines) -> Self:
        """Return the source of a card that has been read."""
        return cls(path, parse(cls.form, {**value, "name": name_card(path)}, path, key_lines), key_lines)

    @override
    def files(self) -> list[Path]:
        return [resolve_path(self.path.parent, getattr(self.settings, self.key))]

    @override
    def missing(self) -> str | None:
        file = self.files()[0]
        return None if is_file(file) else f"{self.place(self.key)}: {file} is not there"

    @override
    def raw_version(self) -> str:
        return digest([super().raw_version(), self.settings.model_dump()])

    def place(self, key: str) -> str:
        """Return where a key stands, for errors."""
        return f"{self.path}: line {self._key_lines.get((key,), 1)}: {key}"
