"""Inboxes: where texts come from, day by day, that a task's champion assigns; a folder of files, or a table of a database.

An inbox consists of sources, files or a table. A source has a state, which changes while somebody writes to it.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import pandas as pd
import sqlalchemy as sa

from traube._core import paths, settings
from traube._core.errors import Inaccessible, Invalid, Missing, Unknown, first_line, unknown
from traube._core.hashing import digest
from traube._core.inputs import check_file, is_file, is_folder, resolve_path
from traube._pipeline.params import Inbox, Params
from traube.tasks import sources
from traube.tasks.columns import guess_text_column
from traube.tasks.readers.table import read_column
from traube.tasks.reading import Rows, read_rows

SECONDS = 10  # that a database has to answer


class DailyTexts(Protocol):
    """Sources of texts of each day."""

    @property
    def task(self) -> str:
        """The task."""

    @property
    def given(self) -> Inbox:
        """The settings of params.yaml."""

    def list_states(self) -> dict[str, str]:
        """Return a hash of each source's state, by the source's name."""

    def read(self, name: str, day: str = "") -> pd.DataFrame:
        """Return text and day (ISO 8601) of a source, one row a text; of one day, if a day is given."""

    def find_first_day(self) -> date:
        """Return the first day of which texts are taken."""


def find_inboxes(params: Params) -> dict[str, DailyTexts]:
    """Return the inboxes of all tasks that have one, by task: those of params.yaml, and the folders of `inbox/`."""
    known, zone = sources(None), ZoneInfo(params.nightly.timezone)
    inboxes: dict[str, DailyTexts] = {}
    for task in _name_inboxes(params):
        if task not in known:
            continue
        given = params.inbox.get(task, Inbox())
        inboxes[task] = TableOfTexts(task, given, zone) if given.database else FolderOfTexts(task, given, zone)
    return inboxes


def find_unknown_inboxes(params: Params) -> list[str]:
    """Return the names of inboxes that are no task's."""
    known = sources(None)
    return [name for name in _name_inboxes(params) if name not in known]


def _name_inboxes(params: Params) -> list[str]:
    folders = [path.name for path in sorted(paths.inbox().glob("*")) if is_folder(path)]
    return list(dict.fromkeys([*params.inbox, *folders]))


@dataclass(frozen=True)
class FolderOfTexts:
    """An inbox of files, in all formats that `traube cluster` reads."""

    task: str
    given: Inbox
    zone: ZoneInfo

    @property
    def path(self) -> Path:
        """The folder."""
        return resolve_path(paths.PROJECT, self.given.folder) if self.given.folder else paths.inbox() / self.task

    def list_states(self) -> dict[str, str]:
        """Return a hash of size and time of each file that is not hidden, by its name."""
        states = {}
        for path in self._list_files():
            with suppress(Missing):  # it is gone since
                status = check_file(path)
                states[path.name] = digest([status.st_size, status.st_mtime_ns])
        return states

    def read(self, name: str, day: str = "") -> pd.DataFrame:
        """Return text and day of a file, the file's own date where no column holds days."""
        path = self.path / name
        if name not in {file.name for file in self._list_files()}:
            raise Missing(f"{path}: there is no such file any more")
        texts = read_days(read_rows(path), self.task, self.given, self._date(path), self.zone)
        return texts[texts["day"] == day] if day else texts

    def find_first_day(self) -> date:
        """Return the first day that is given, or the date of the oldest file."""
        dates = [self._date(path) for path in self._list_files()]
        return self.given.since or min(dates, default=datetime.now(self.zone).date())

    def _list_files(self) -> list[Path]:
        return [path for path in sorted(self.path.glob("*")) if is_file(path) and not path.name.startswith(".")]

    def _date(self, path: Path) -> date:
        return datetime.fromtimestamp(check_file(path).st_mtime, self.zone).date()


@dataclass(frozen=True)
class TableOfTexts:
    """An inbox in a database, of which one table is the only source."""

    task: str
    given: Inbox
    zone: ZoneInfo

    def list_states(self) -> dict[str, str]:
        """Return a hash of the number of rows and the newest day."""
        with self.connect() as connection:
            table = self._reflect(connection)
            newest = [sa.func.max(table.c[self.given.day])] if self.given.day else []
            state = connection.execute(sa.select(sa.func.count(), *newest).select_from(table)).one()
        return {str(self.given.table): digest([str(value) for value in state])}

    def read(self, name: str, day: str = "") -> pd.DataFrame:
        """Return text and day of the table; without a column of days, all texts are of the given day, or today's."""
        with self.connect() as connection:
            table = self._reflect(connection)
            wanted = [table.c[column] for column in (self.given.text, self.given.day) if column]
            query = sa.select(*(wanted if self.given.text else table.c))
            if day and self.given.day:  # written out, a time begins with its day, in some time zone
                written = sa.cast(table.c[self.given.day], sa.String)
                before, after = (date.fromisoformat(day) + timedelta(days=step) for step in (-1, 2))
                query = query.where(written >= before.isoformat(), written < after.isoformat())
            values = connection.execute(query).mappings().all()
        names = [column.name for column in query.selected_columns]
        columns = {column: [row[column] for row in values] for column in names}
        rows = Rows(Path(name), columns, [f"row {i}" for i in range(1, len(values) + 1)])
        if not values:
            return pd.DataFrame({"text": [], "day": []}, dtype=object)
        default = date.fromisoformat(day) if day else datetime.now(self.zone).date()
        texts = read_days(rows, self.task, self.given, default, self.zone)
        return texts[texts["day"] == day] if day else texts

    def find_first_day(self) -> date:
        """Return the first day that is given, or today."""
        return self.given.since or datetime.now(self.zone).date()

    @contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """Open a transaction on the database, whose URL stands in the environment alone."""
        variable = str(self.given.database)
        where = f"params.yaml: inbox.{self.task}.database"
        if not (url := os.environ.get(variable, "").strip()):
            raise Missing(f"{where}: the environment has no {variable}: set it to SQLAlchemy's URL of the database")
        try:
            made = sa.make_url(url)
            seconds = "timeout" if made.get_backend_name() == "sqlite" else "connect_timeout"
            engine = sa.create_engine(made, connect_args={seconds: SECONDS}, poolclass=sa.NullPool)
            with engine.begin() as connection:
                yield connection
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            reason = settings.without_password(first_line(error))
            raise Inaccessible(f"{where}: the database that {variable} names: {reason}") from None

    def _reflect(self, connection: sa.Connection) -> sa.Table:
        """Return the table, with all columns of the settings."""
        name = str(self.given.table)
        names = [*sa.inspect(connection).get_table_names(), *sa.inspect(connection).get_view_names()]
        if name not in names:
            raise Unknown(f"params.yaml: inbox.{self.task}.table: {unknown('table', name, names)}")
        table = sa.Table(name, sa.MetaData(), autoload_with=connection)
        for key in ("text", "day"):
            column = getattr(self.given, key)
            if column is not None and column not in table.c:
                raise Unknown(f"params.yaml: inbox.{self.task}.{key}: {unknown('column', column, table.c.keys())}")
        return table


def read_days(rows: Rows, task: str, given: Inbox, default: date, zone: ZoneInfo) -> pd.DataFrame:
    """Return text and day of the rows of a table that have both; blank texts are left out.

    A time with a time zone is one of `zone`.
    """
    column = given.text or _find_text_column(rows, task)
    texts = read_column(rows, column, f"inbox.{task}.text:")
    if given.day is None:
        days = [default.isoformat()] * len(texts)
    else:
        values = rows.column(given.day, f"params.yaml: inbox.{task}.day")
        days = [parse_day(value, zone) for value in values]
        rows.leave_out([not day for day in days], f"without a day in '{given.day}'")  # names them, or refuses the table
    frame = pd.DataFrame({"text": texts, "day": days}, dtype=object)
    return frame[(frame["text"].str.strip() != "") & (frame["day"] != "")].reset_index(drop=True)


def _find_text_column(rows: Rows, task: str) -> str:
    try:
        return guess_text_column(rows)
    except Invalid:
        names = ", ".join(rows.columns)
        raise Invalid(
            f"{rows.path}: which column holds the texts is not clear; inbox.{task}.text of params.yaml names it ({names})"
        ) from None


def parse_day(value: Any, zone: ZoneInfo) -> str:
    """Return the day of a date, a time, or either in ISO 8601; empty if it is none of them."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return ""
    if isinstance(value, datetime):
        moment = value.astimezone(zone) if value.tzinfo else value
        return moment.date().isoformat()
    return value.isoformat() if isinstance(value, date) else ""


def find_first_day(inboxes: Mapping[str, DailyTexts]) -> date:
    """Return the first day of several inboxes."""
    return min(inbox.find_first_day() for inbox in inboxes.values())
