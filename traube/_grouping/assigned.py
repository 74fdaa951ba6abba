"""The texts of each day with the groups that a champion gives them; each text once, whatever is killed or done twice.

A day is one document: its table is stored first, then the document is entered in one transaction, under a lease. So a text
is in no table, or in one, and whoever comes back finds which sources are done.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar

import pandas as pd
import sqlalchemy as sa

from traube._core.errors import Busy
from traube._grouping.inboxes import DailyTexts, TableOfTexts
from traube._grouping.served import Served
from traube._storage import Document, Lease, Storage, write_table
from traube.tasks.task import text_id

COLUMNS = {  # of the table of a day, and what each means
    "text_id": "Hash of the text.",
    "text": "The text.",
    "day": "Its day.",
    "cluster": "Its group; -1 for none.",
    "words": "The group's key words.",
    "distance": "Distance to the group's center; by a similarity, the mean distance to its texts.",
    "fits": "Whether it is nearer to its group than to all texts of the clustering.",
    "version": "Version of the champion.",
    "assigned": "When it was assigned, in UTC.",
}
Champion = tuple[Served, str]  # a clustering, and its version in the registry
TEXTS = "texts"  # the file of a day


class Assigned(Document):
    """The assigned texts of a task on a day; the key is `task/day`."""

    kind: ClassVar[str] = "assigned"
    sources: Mapping[str, str] = {}  # states of the sources that the day's texts are of
    version: str = ""  # of the champion that assigned the last texts
    sizes: Mapping[str, Mapping[int, int]] = {}  # by version, the texts that fit each group
    strays: Mapping[str, int] = {}  # by version, the texts that fit none

    @property
    def day(self) -> str:
        """The day."""
        return self.key.rpartition("/")[2]

    @property
    def texts(self) -> int:
        """The number of texts."""
        return self.count(self.version)

    def count(self, version: str) -> int:
        """Return the number of texts by a version of the champion."""
        return sum(self.sizes.get(version, {}).values()) + self.strays.get(version, 0)


class Groups(Document):
    """The groups of a champion; the key is `task/version`."""

    kind: ClassVar[str] = "groups"
    since: str  # the first day whose texts it assigned
    words: Mapping[int, Sequence[str]] = {}


@dataclass(frozen=True)
class Outcome:
    """A day after texts were assigned: its table, and how many are new."""

    day: str
    table: pd.DataFrame
    new: int
    repeated: int  # texts that were assigned before, on this day or another


def read_assigned(storage: Storage, task: str) -> dict[str, Assigned]:
    """Return what was assigned of a task, by day, the first one first."""
    return {one.day: one for one in storage.read_documents(Assigned) if one.key.rpartition("/")[0] == task}


def assign_days(
    storage: Storage,
    inbox: DailyTexts,
    days: Sequence[str],
    names: Sequence[str],
    load: Callable[[], Champion],
    lease: Lease | None = None,
) -> Iterator[Outcome]:
    """Assign the texts of each day that no day has yet, store them, and yield the day.

    Parameters
    ----------
    storage : Storage
        Where days are stored.
    inbox : DailyTexts
        Where the texts come from.
    days : sequence of str
        The days, in ISO 8601.
    names : sequence of str
        The sources that are read.
    load : callable
        Returns the champion; called if there are new texts.
    lease : Lease, optional
        The lease of the task's inbox: whoever holds it assigns alone.

    Yields
    ------
    Outcome
        A day's whole table, and how many of its texts are new.
    """
    states = inbox.list_states()  # before they are read: what is written meanwhile is another state
    frames = [inbox.read(name, days[0] if len(days) == 1 else "") for name in names]
    read = pd.concat(frames) if frames else pd.DataFrame({"text": [], "day": []}, dtype=object)
    assigned, load = read_assigned(storage, inbox.task), cache(load)
    known = {name for one in assigned.values() for name in read_day(storage, one, ["text_id"])["text_id"]}
    for day in days:
        texts = read.loc[read["day"] == day, "text"].tolist()
        new = {name: text for text in texts if (name := text_id(text)) not in known}
        known.update(new)
        before = assigned.get(day, Assigned(key=f"{inbox.task}/{day}"))
        table = read_day(storage, before)
        sources = {**before.sources, **({name: states[name] for name in names} if texts else {})}
        after = before.model_copy(update={"sources": sources})
        if new:
            table, after = _add(storage, inbox.task, table, after, new, load)
        if sources != before.sources and not storage.save_document(after, {TEXTS: write_table(table)}, lease):
            raise Busy(f"{inbox.task}, {day}: another process has taken over the texts of this task; run again")
        yield Outcome(day, table, len(new), len(texts) - len(new))


def _add(
    storage: Storage,
    task: str,
    table: pd.DataFrame,
    one: Assigned,
    new: Mapping[str, str],
    load: Callable[[], Champion],
) -> tuple[pd.DataFrame, Assigned]:
    """Return the table of a day, and the day, with new texts in the champion's groups."""
    served, version = load()
    added = _assign(served, version, one.day, new)
    table = pd.concat([table, added], ignore_index=True) if len(table) else added
    groups = storage.get_document(Groups, f"{task}/{version}")
    if groups is None or one.day < groups.since:
        storage.save_document(Groups(key=f"{task}/{version}", since=one.day, words=served.words))
    counted = count_again(one, version, table[table["version"] == version])
    return table, counted.model_copy(update={"version": version})


def _assign(served: Served, version: str, day: str, texts: Mapping[str, str]) -> pd.DataFrame:
    """Return the table of texts, given by their ids."""
    predictions = served.predict([*texts.values()])
    return pd.DataFrame(
        {
            "text_id": [*texts],
            "text": [*texts.values()],
            "day": day,
            **{name: predictions[name].to_numpy() for name in ("cluster", "words", "distance", "fits")},
            "version": version,
            "assigned": datetime.now(UTC).isoformat(timespec="seconds"),
        },
        columns=list(COLUMNS),
    )


def count_again(one: Assigned, version: str, table: pd.DataFrame) -> Assigned:
    """Return a day with the counts of a table by a version of the champion."""
    fitting = table.loc[table["fits"].astype(bool), "cluster"]
    sizes = {int(c): int(n) for c, n in fitting.value_counts().sort_index().items()}
    return one.model_copy(
        update={
            "sizes": {**one.sizes, version: sizes},
            "strays": {**one.strays, version: len(table) - len(fitting)},
        }
    )


def read_day(storage: Storage, one: Assigned, columns: Sequence[str] = tuple(COLUMNS)) -> pd.DataFrame:
    """Return the table of a day, or some of its columns."""
    if TEXTS not in one.files:
        return pd.DataFrame({name: [] for name in columns}, dtype=object)
    return pd.read_parquet(storage.get_path(one.files[TEXTS]), columns=list(columns))


def write_to_database(inbox: TableOfTexts, day: str, table: pd.DataFrame) -> None:
    """Replace the rows of a task's day in the database's table of assigned texts, in one transaction."""
    kinds: dict[str, Any] = {
        "cluster": sa.Integer,
        "distance": sa.Float,
        "fits": sa.Boolean,
        "text_id": sa.String(16),
        "day": sa.String(10),
    }
    columns: list[sa.Column[Any]] = [
        sa.Column(name, kinds.get(name, sa.Text), primary_key=name == "text_id") for name in COLUMNS
    ]
    of_task: sa.Column[Any] = sa.Column("task", sa.String(255), primary_key=True)
    target = sa.Table(str(inbox.given.assigned), sa.MetaData(), of_task, *columns)
    rows = [{"task": inbox.task, **row} for row in table.astype(object).where(table.notna(), None).to_dict("records")]
    with inbox.connect() as connection:
        target.create(connection, checkfirst=True)
        connection.execute(sa.delete(target).where(target.c.task == inbox.task, target.c.day == day))
        if rows:
            connection.execute(sa.insert(target), rows)
