"""Tasks as they are stored."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import pandas as pd
from pydantic import ValidationError

from traube._core.errors import Corrupt, Missing, TraubeError
from traube._core.hashing import frame_digest
from traube._storage import Document, Storage, TaskRow, write_table
from traube.tasks.scored_pairs import has_history
from traube.tasks.task import Task, TaskCard, data_version


def get_card_class(type_name: str) -> type[TaskCard] | None:
    """Return the class of the cards of a type, which declares it, here or in a plug-in; None if there is none."""
    classes = [TaskCard]
    for card in classes:
        if "type" in vars(card) and card.type.name == type_name:
            return card
        classes += card.__subclasses__()  # and those of these in their turn
    return None


@dataclass(frozen=True)
class Manifest:
    """Raw version and contents of a stored task."""

    card: TaskCard  # with which it was read
    raw_version: str
    corpus_version: str  # content hashes of both tables
    rows_version: str
    has_history: bool = False  # whether there are pairs with turns before them

    @classmethod
    def of(cls, task: Task) -> Self:
        """Return the manifest of a task in memory, which has no raw version."""
        return cls(task.card, "", task.corpus_version, task.rows_version, has_history(task.rows))

    @property
    def data_version(self) -> str:
        """Content hash of both tables."""
        return data_version(self.corpus_version, self.rows_version)


class Ingested(Document):
    """The last reading of a task, its key: corpus and records, from which splits or pairs are drawn."""

    kind: ClassVar[str] = "corpus"
    raw_version: str
    corpus_version: str = ""

    @property
    def versions(self) -> dict[str, str]:
        """Both versions, by name."""
        return {"raw_version": self.raw_version, "corpus_version": self.corpus_version}


def not_read(name: str) -> TraubeError:
    """Return the error for a task whose tables are not stored."""
    return Missing(f"task '{name}' has not been read yet; `traube run --task {name}` reads it")


def save_corpus(storage: Storage, name: str, corpus: pd.DataFrame, records: pd.DataFrame, raw_version: str) -> str:
    """Store a task's texts and the records that splits or pairs are drawn from; return the content hash of the corpus.

    The task stays as it is until these are stored too.
    """
    version = frame_digest(corpus)
    read = Ingested(key=name, raw_version=raw_version, corpus_version=version)
    storage.save_document(read, {"corpus": write_table(corpus), "records": write_table(records)})
    return version


def save_rows(storage: Storage, card: TaskCard, rows: pd.DataFrame) -> Manifest:
    """Store a task's splits or pairs.

    The task counts as absent until `complete_task` is called, unless the same is stored.
    """
    if (read := storage.get_document(Ingested, card.name)) is None:
        fix = f"`traube run --task {card.name}` reads it again"
        raise Missing(f"task '{card.name}': its corpus was not read whole; {fix}")
    corpus, records = (storage.read_table(read.files[name]) for name in ("corpus", "records"))
    task = Task(card, corpus, rows)
    manifest = replace(Manifest.of(task), raw_version=read.raw_version, corpus_version=read.corpus_version)
    versions = {name: value for name, value in vars(manifest).items() if name != "card"}
    versions["data_version"] = manifest.data_version
    stored = storage.get_task(card.name)
    state = stored.state if stored and stored.versions == versions else "ingested"
    frames = {"corpus": corpus, "records": records, card.type.table: rows}
    about = card.type.name, card.model_dump(mode="json"), versions
    storage.save_task(card.name, *about, frames, card.type.make_splits(task), state)
    return manifest


def complete_task(storage: Storage, card: TaskCard) -> None:
    """Mark a task as complete: its tables are stored, and their checks are done."""
    storage.set_task_state(card.name, "checked", card.model_dump(mode="json"))


def read_ingested(storage: Storage, name: str, table: str) -> pd.DataFrame:
    """Return the corpus or records of a task that were read last, whether its splits or pairs are stored or not."""
    if (read := storage.get_document(Ingested, name)) is None:
        raise not_read(name)
    return storage.read_table(read.files[table])


def get_manifest(storage: Storage, name: str) -> Manifest | None:
    """Return the manifest of a stored task; None if its checks were not done, or it was read again since."""
    row = _get_current(storage, name)
    if row is None or (card_class := get_card_class(row.type)) is None:
        return None
    try:
        card = card_class.model_validate(row.card)
        return Manifest(card, **{name: value for name, value in row.versions.items() if name != "data_version"})
    except (ValidationError, KeyError, TypeError, AttributeError):  # of another version, or of somebody else
        return None


def get_card(storage: Storage, name: str) -> TaskCard | None:
    """Return the card that a stored task was read with; None if `get_manifest` returns None."""
    manifest = get_manifest(storage, name)
    return None if manifest is None else manifest.card


def is_valid(storage: Storage, name: str) -> bool:
    """Return whether a task is stored and its tables are unchanged since they were written."""
    row = _get_current(storage, name)
    try:
        return row is not None and all(storage.get_path(blob) for blob in row.files.values())
    except Corrupt:
        return False


def read_task(storage: Storage, name: str) -> Task:
    """Return a stored task.

    Raises
    ------
    TraubeError
        If it has not been read yet, or a table of it is corrupt.
    """
    manifest, row = get_manifest(storage, name), storage.get_task(name)
    if manifest is None or row is None:
        raise not_read(name)
    corpus, rows = (storage.read_table(row.files[table]) for table in ("corpus", manifest.card.type.table))
    return Task(manifest.card, corpus, rows)


def _get_current(storage: Storage, name: str) -> TaskRow | None:
    row, read = storage.get_task(name), storage.get_document(Ingested, name)
    if row is None or row.state == "ingested" or read is None:
        return None
    return row if read.versions.items() <= row.versions.items() else None
