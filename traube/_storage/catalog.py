"""The catalog of what is stored: tables in SQLite or Postgres, made of the entries among the blobs.

A row that describes something stored has the `revision` and the name of its entry's blob. Of two
entries of one key the one with the higher revision counts, wherever and in whichever order they
are entered, so a rebuilt catalog equals the one that was lost, and no clocks are compared. What is
removed is an entry too, which `clean` drops after a week. Each row has a checksum: a flipped bit in it is found when it is read.
"""

import json
import os
import re
import sqlite3
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa

from traube._core import settings
from traube._core.errors import Conflict, Corrupt, Inaccessible, Invalid, NotInstalled, install_hint
from traube._core.paths import is_plain
from traube._core.system_errors import find_sqlite_number, format_error, get_sqlite_code
from traube._storage.blobs import NAME, retry
from traube._storage.entries import Entry
from traube._storage.rows import ROW_CLASSES

T = TypeVar("T")
Row = dict[str, Any]
SCHEMA_VERSION = "2"
CHUNK = 500  # cells that are read by one statement
NETWORK_FILE_SYSTEMS = {
    *("9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs"),
    *("fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "smb3", "smbfs", "vboxsf"),
}
_SCHEMA = "traube"  # in Postgres, where Dagster and MLflow have schemas of their own
_MENDED = "`traube rebuild` makes the catalog again"
# SQLite's primary codes for a damaged file. SQLITE_ERROR is a name that is not there: every statement is Traube's, and
# tables are made when a catalog is opened
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_CORRUPT_STATES = ("XX001", "XX002")  # Postgres: data_corrupted, index_corrupted
# connection lost, try again (serialization, deadlock), the server shuts down or starts
_LOST_STATES = ("08", "40", "57")
metadata = sa.MetaData()
_TYPES = {"text": sa.Text, "json": sa.Text, "integers": sa.BigInteger, "numbers": sa.Double, "binary": sa.LargeBinary}


def _make_table(name: str, key: str, **columns: str) -> sa.Table:
    """Return a table; `columns` are names by type, `key` those of its primary key."""
    keys = key.split()
    made: list[sa.Column[Any]] = [
        sa.Column(column, _TYPES[kind], primary_key=column in keys, info={"is_json": kind == "json"})
        for kind, names in columns.items()
        for column in names.split()
    ]
    return sa.Table(name, metadata, *made)


def _make_entry_table(
    name: str, key: str, text: str, json: str = "", integers: str = "", numbers: str = ""
) -> sa.Table:
    columns = {"text": f"{key} {text} created blob", "json": json, "numbers": numbers}
    return _make_table(name, key, **columns, integers=f"{integers} is_removed revision checksum")


TASK = _make_entry_table("task", "name data_version", "type state", "versions card files")
CHECK = _make_entry_table("check", "task data_version name", "severity", "passed examples")
MODEL = _make_entry_table("model", "name content", "", "provenance files")  # a checkpoint, by the hash of its files
CELL = _make_entry_table(
    "cell",
    "cell_id",
    "task family model fingerprint precision reducer clusterer protocol split_set data_version code_version scoring_version "
    "device run_id status reason",
    json="params numerics library_versions measures",
    integers="seed clusters texts",
    numbers="seconds memory total_seconds",
)
sa.Index("cell_of_task", CELL.c.task)
ARTIFACT = _make_entry_table("artifact", "kind key", "", "files", "bytes texts", "seconds memory")
EMBEDDING = _make_entry_table("embedding", "fingerprint numerics block", "", "files", "texts bytes")
# nightly runs, publications, cells to report to MLflow, imports, pins of champions, costs; their files and cells are roots
DOCUMENT = _make_entry_table("document", "kind key", "", "content files cells")
ENTRY_TABLES = {table.name: table for table in (TASK, CHECK, MODEL, CELL, ARTIFACT, EMBEDDING, DOCUMENT)}
SPLIT = _make_table(
    "split",
    "data_version split_set position",
    text="data_version split_set level name",
    integers="position size classes checksum",
)
SCORE = _make_table(
    "score",
    "cell_id metric level",
    text="cell_id metric level same_as",
    integers="n checksum",
    numbers="mean",
    binary="positions values replicates",
)
LEASE = _make_table("lease", "task model stage", text="task model stage owner", numbers="expires")
SETTING = _make_table("setting", "name", text="name content")
MARK = _make_table("mark", "blob", text="blob", numbers="since")  # blobs that nothing referred to


# Names that become parts of paths, such as that of a task's page, by table
_NAMES = {
    "task": ("name", "data_version"),
    "check": ("task", "data_version"),
    "model": ("name", "content"),
    "cell": ("cell_id", "task", "data_version"),
    "embedding": ("fingerprint", "numerics"),
}


def check_entry(entry: Entry) -> None:
    """Refuse an entry that Traube does not write: blobs may be somebody else's.

    Raises
    ------
    Corrupt
        If the table, a column's type or a name is none of Traube's.
    """
    table, row = ENTRY_TABLES.get(entry.table), entry.row
    if table is None or not isinstance(row, dict) or not isinstance(entry.details, dict):
        raise Corrupt("a blob holds no entry of the catalog")
    splits = entry.details.get("splits") or []
    if not isinstance(splits, list) or not all(isinstance(split, dict) for split in splits):
        raise Corrupt(f"a blob holds no entry of {table.name}: splits")
    rows = [(table, row), *((SPLIT, {**split, "data_version": row.get("data_version")}) for split in splits)]
    for of_table, values in rows:
        for column in of_table.c:
            value = values.get(column.name)
            is_made = column.info["is_json"] or column.name in ("blob", "checksum", "measures")
            if not is_made and not _is_valid(column, value):
                raise Corrupt(f"a blob holds no entry of {table.name}: {column.name} is {value!r:.80}")
    if not row.get("is_removed"):
        for name in ROW_CLASSES[table.name].list_required():
            if row.get(name) is None or (table.c[name].info["is_json"] and not isinstance(row[name], dict)):
                raise Corrupt(f"a blob holds no entry of {table.name}: {name} is {row.get(name)!r:.80}")
    try:
        json.dumps([row, splits, entry.scores], ensure_ascii=False, default=repr).encode()
    except (ValueError, RecursionError):  # half a character, which no database takes; a number that JSON lacks is none
        raise Corrupt(f"a blob holds no entry of {table.name}: half a character") from None
    _check_scores(table.name, entry.scores)
    files = row.get("files")
    if files is not None and not (isinstance(files, dict) and all(map(_is_blob, files.values()))):
        raise Corrupt(f"a blob holds no entry of {table.name}: files")
    _check_names(table.name, row)


def _check_scores(table: str, scores: Sequence[Mapping[str, Any]]) -> None:
    """Refuse scores that are not arrays of the lengths that they say, one for each level and metric."""
    held: dict[tuple[Any, Any], bool] = {}  # whether a metric has values of its own
    for score in scores:
        key, n = (score["level"], score["metric"]), score["n"]
        if key in held or None in key or not isinstance(n, int) or n < 0:
            raise Corrupt(f"a blob holds no entry of {table}: scores of {key!r:.80}")
        held[key] = score["same_as"] is None
        sizes = [len(score[name] or b"") for name in ("values", "positions", "replicates")]
        is_whole = (sizes[0], sizes[1]) in ((8 * n, 0), (8 * n, 4 * n)) and sizes[2] % max(1, 4 * n) == 0
        if not (is_whole and score["values"] is not None if held[key] else sizes == [0, 0, 0]):
            raise Corrupt(f"a blob holds no entry of {table}: scores of {key!r:.80}")
    for score in scores:
        if score["same_as"] is not None and not held.get((score["level"], score["same_as"])):
            raise Corrupt(f"a blob holds no entry of {table}: scores like those of {score['same_as']!r:.80}")


def _is_valid(column: sa.Column[Any], value: Any) -> bool:
    if value is None:
        return not column.primary_key
    if isinstance(value, str):
        return isinstance(column.type, sa.Text)
    if isinstance(value, float):
        return isinstance(column.type, sa.Double)
    is_number = isinstance(column.type, sa.Double | sa.BigInteger)
    return isinstance(value, int) and not isinstance(value, bool) and is_number and abs(value) < 2**63


def _is_blob(name: Any) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def _check_names(table: str, row: Mapping[str, Any]) -> None:
    """Refuse a row with a name that leads out of a folder, whoever wrote it."""
    for column in _NAMES.get(table, ()):
        if (name := row.get(column)) and ("/" in name or not is_plain(name)):
            raise Corrupt(f"{table} {column}: '{name[:80]}' leads out of its folder")


class Catalog:
    """The database of a data directory, or the one that several nodes share.

    Parameters
    ----------
    url : str or URL
        SQLAlchemy's URL of the database.
    name : str
        The database as people know it.
    is_read_only : bool, default=False
        Whether nothing is written, the tables included.
    """

    def __init__(self, url: str | sa.URL, name: str, *, is_read_only: bool = False) -> None:
        self.name, self.is_read_only = name, is_read_only
        backend = sa.make_url(url).get_backend_name()
        self._is_sqlite = backend == "sqlite"
        seconds = {"timeout": 60} if self._is_sqlite else {"connect_timeout": 5}
        try:
            self._engine = sa.create_engine(url, connect_args=seconds, pool_pre_ping=not self._is_sqlite)
        except ImportError:
            raise NotInstalled(f"{settings.DATABASE}: psycopg2 is not installed: {install_hint('postgres')}") from None
        weakref.finalize(self, self._engine.dispose)  # SQLite writes its journal into the database then
        self.insert = import_module(f"sqlalchemy.dialects.{backend}").insert  # loading both would take some .05 s
        self._upserts = {table.name: self._upsert(table) for table in ENTRY_TABLES.values()}
        if self._is_sqlite:
            sa.event.listen(self._engine, "connect", _open_read_only if is_read_only else _open_sqlite)
            sa.event.listen(self._engine, "begin", _begin_sqlite)
        if not is_read_only:
            self.write(self._create_tables, patience=0)
        if (version := self.get_setting("schema")) != SCHEMA_VERSION:
            raise Corrupt(f"{name}: made by another version of Traube ({version}, not {SCHEMA_VERSION}); {_MENDED}")

    @property
    def now(self) -> sa.ColumnElement[float]:
        """The database's own clock, in seconds since 1970."""
        sqlite_now = "((julianday('now') - 2440587.5) * 86400.0)"
        postgres_now = "extract(epoch from clock_timestamp())::float8"
        return sa.literal_column(sqlite_now if self._is_sqlite else postgres_now, sa.Double)

    def close(self) -> None:
        """Close all connections to the database."""
        self._engine.dispose()

    # transactions

    def read(self, work: Callable[[sa.Connection], T], patience: float | None = None) -> T:
        """Return the result of reading one state of the catalog; errors are those of `write`."""
        try:
            return self._transact(work, "REPEATABLE READ", patience)
        except (
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
        ) as error:  # a value of another type than was written
            raise Corrupt(f"{self.name}: corrupt ({error}); {_MENDED}") from error

    def write(self, work: Callable[[sa.Connection], T], patience: float | None = None) -> T:
        """Run a unit of work in one transaction. It may be tried again, so it must do no harm twice.

        Parameters
        ----------
        work : callable
            Takes the connection and returns the result.
        patience : float, optional
            Seconds that the database has to answer.

        Returns
        -------
        object
            The result of `work`.

        Raises
        ------
        Unreachable
            If the database does not answer in so many seconds (`patience`).
        """
        self.check_writable()
        return self._transact(work, "READ COMMITTED", patience)

    def check_writable(self) -> None:
        """Refuse to write to a folder that is read-only."""
        if self.is_read_only:
            raise Inaccessible(f"{self.name}: read-only; set TRAUBE_HOME to a folder that can be written to")

    def _transact(self, work: Callable[[sa.Connection], T], isolation: str, patience: float | None) -> T:
        options = {"writes": isolation == "READ COMMITTED"} if self._is_sqlite else {"isolation_level": isolation}

        def attempt() -> T:
            with self._engine.connect().execution_options(**options) as connection, connection.begin():
                return work(connection)

        try:
            return retry(attempt, self.name, self._is_lost, patience)
        except sa.exc.DBAPIError as error:
            reason = settings.without_password(" ".join(str(error.orig).split()))
            if _is_corruption(error.orig):
                raise Corrupt(f"{self.name}: corrupt ({reason}); {_MENDED}") from error
            number = find_sqlite_number(error.orig)
            line = format_error(OSError(number, ""), Path(self.name)) if number else f"{self.name}: {reason}"
            raise Inaccessible(line) from error
        except UnicodeDecodeError as error:  # SQLite quotes a schema that is no longer text
            raise Corrupt(f"{self.name}: corrupt ({error}); {_MENDED}") from error

    def _is_lost(self, error: Exception) -> bool:
        """Return whether the connection failed, not the statement."""
        if not isinstance(error, sa.exc.DBAPIError):
            return False
        if self._is_sqlite:
            return get_sqlite_code(error.orig) in _BUSY
        state = getattr(error.orig, "pgcode", None)
        if _is_refusal(error.orig) or (state is not None and not state.startswith(_LOST_STATES)):
            return False
        return isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError) or error.connection_invalidated

    def _create_tables(self, connection: sa.Connection) -> None:
        if not self._is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7237121)"))  # several processes start at once
            connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}"))
        metadata.create_all(connection)
        connection.execute(self.insert(SETTING).on_conflict_do_nothing(), {"name": "schema", "content": SCHEMA_VERSION})

    def get_setting(self, name: str) -> str | None:
        """Return a setting of the catalog itself."""
        statement = sa.select(SETTING.c.content).where(SETTING.c.name == name)
        return self.read(lambda connection: connection.execute(statement).scalar())

    def bind(self, identity: str) -> None:
        """Bind the catalog to a blob store, once; refuse another one from then on."""
        insert = self.insert(SETTING).values(name="blobs", content=identity).on_conflict_do_nothing()
        if self.get_setting("blobs") is None and not self.is_read_only:
            self.write(lambda connection: connection.execute(insert).close())
        if (bound := self.get_setting("blobs")) not in (identity, None):
            if not re.fullmatch("[0-9a-f]{32}", bound or ""):
                raise Corrupt(f"{self.name}: corrupt (blob store {bound!r}); {_MENDED}")
            raise Conflict(f"{self.name}: the catalog of another blob store ({bound}, not {identity})")

    # entries

    def get_revision(self, entry: Entry, patience: float | None = None) -> int:
        """Return the revision of the row under an entry's key; 0 if there is none."""
        table = ENTRY_TABLES[entry.table]
        is_last = table in (TASK, MODEL)  # the last entry of a name counts
        key = [table.c.name] if is_last else table.primary_key.columns
        statement = sa.select(sa.func.max(table.c.revision)).where(*(c == entry.row[c.name] for c in key))
        return self.read(lambda connection: connection.execute(statement).scalar(), patience) or 0

    def enter(
        self,
        blob: str,
        entry: Entry,
        put_again: Callable[[], object],
        is_allowed: Callable[[sa.Connection], bool] | None = None,
        patience: float | None = None,
    ) -> bool:
        """Enter an entry, unless the row under its key is newer; return whether that was allowed.

        `put_again` puts the entry's blobs, which `clean` may have deleted just before. `is_allowed` runs in the same
        transaction.
        """
        blobs = list_blobs({**entry.row, "blob": blob})
        unmark = sa.delete(MARK).where(MARK.c.blob.in_(blobs)).returning(MARK.c.blob)

        def enter(connection: sa.Connection) -> bool:
            if is_allowed is not None and not is_allowed(connection):
                return False
            if connection.execute(unmark).first() is not None:
                put_again()
            self._enter(connection, blob, entry)
            return True

        return self.write(enter, patience)

    def _upsert(self, table: sa.Table) -> Any:
        """Return the statement that enters a row unless a newer one is there."""
        insert = self.insert(table)
        new, old = insert.excluded, table.c
        is_newer = sa.or_(old.revision < new.revision, sa.and_(old.revision == new.revision, old.blob < new.blob))
        changed = {column.name: new[column.name] for column in table.c if not column.primary_key}
        insert = insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed, where=is_newer)
        return insert.returning(table.c.blob)

    def _enter(self, connection: sa.Connection, blob: str, entry: Entry) -> None:
        table = ENTRY_TABLES[entry.table]
        names: dict[str, list[str]] = {}  # of metrics, by level
        for score in entry.scores:
            names.setdefault(score["level"], []).append(score["metric"])
        levels = [[level, metrics] for level, metrics in names.items()]
        row = _encode(table, {**entry.row, "blob": blob, "measures": [_hash_measures(levels), levels]})
        if splits := entry.details.get("splits"):
            # also for an older entry: its data may have been removed, but not its cells
            rows = [_encode(SPLIT, {**split, "data_version": row["data_version"]}) for split in splits]
            connection.execute(self.insert(SPLIT).on_conflict_do_nothing(), rows)
        if connection.execute(self._upserts[entry.table], row).first() is None:
            return
        if table is CELL:
            connection.execute(sa.delete(SCORE).where(SCORE.c.cell_id == row["cell_id"]))
            if scores := [_encode(SCORE, {**score, "cell_id": row["cell_id"]}) for score in entry.scores]:
                connection.execute(sa.insert(SCORE), scores)

    def replace(self, entries: Callable[[], Iterable[tuple[str, Entry]]]) -> None:
        """Delete every row that is made of entries, and enter these: names of blobs, and what they hold."""

        def replace(connection: sa.Connection) -> None:
            for table in (*ENTRY_TABLES.values(), SPLIT, SCORE):
                connection.execute(sa.delete(table))
            for blob, entry in entries():
                self._enter(connection, blob, entry)

        self.write(replace)

    def drop_removed(self, connection: sa.Connection, before: datetime) -> None:
        """Delete the rows that were removed before a date; their entries are left to `clean`."""
        limit = before.isoformat(timespec="microseconds")
        for table in ENTRY_TABLES.values():
            connection.execute(sa.delete(table).where(table.c.is_removed == 1, table.c.created < limit))

    # rows

    def read_rows(self, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> list[Row]:
        """Return rows that were not removed, in the order of their keys, JSON decoded.

        Parameters
        ----------
        table : Table
            The table to read.
        *conditions : ColumnElement of bool
            Conditions that the rows meet.

        Returns
        -------
        list of dict
            The rows.

        Raises
        ------
        Corrupt
            If a row is not what was written.
        """
        statement = sa.select(table).where(*conditions).order_by(*table.primary_key)
        if "is_removed" in table.c:
            statement = statement.where(table.c.is_removed == 0)
        rows = self.read(lambda connection: list(self._decode(table, connection.execute(statement).all())))
        required = ROW_CLASSES[table.name].list_required() if table.name in ROW_CLASSES else []
        for row in rows:
            if missing := [name for name in required if row[name] is None]:
                key = " ".join(str(row[column.name]) for column in table.primary_key)
                raise Corrupt(f"{self.name}: {table.name} {key} has no {missing[0]}; {_MENDED}")
        return rows

    def read_scores(self, cell_ids: Iterable[str], metrics: Iterable[str] | None) -> Iterator[list[Row]]:
        """Yield rows of scores, by cell and as they were stored; `CHUNK` cells at a time.

        Parameters
        ----------
        cell_ids : iterable of str
            Ids of the cells.
        metrics : iterable of str, or None
            Names of the metrics; None for all.

        Yields
        ------
        list of dict
            The rows of some cells.

        Raises
        ------
        Corrupt
            If a row is absent or not what was written.
        """
        ids, wanted = sorted(set(cell_ids)), None if metrics is None else set(metrics)
        for start in range(0, len(ids), CHUNK):
            yield self.read(partial(self._read_scores, cell_ids=ids[start : start + CHUNK], metrics=wanted))

    def _read_scores(self, connection: sa.Connection, cell_ids: Sequence[str], metrics: set[str] | None) -> list[Row]:
        statement = sa.select(CELL.c.cell_id, CELL.c.measures).where(CELL.c.cell_id.in_(cell_ids))
        decoded: dict[str, list[tuple[str, str]]] = {}  # most cells have the same
        expected: list[tuple[str, str, str]] = []
        cells = connection.execute(statement.order_by(CELL.c.cell_id)).all()
        if absent := sorted({*cell_ids}.difference(cell_id for cell_id, _ in cells)):
            raise Corrupt(f"{self.name}: cell {absent[0]} is absent; {_MENDED}")
        for cell_id, text in cells:
            if text not in decoded:
                decoded[text] = self._decode_measures(cell_id, text, metrics)
            expected += [(cell_id, level, metric) for level, metric in decoded[text]]
        stored = self._read_score_rows(connection, cell_ids, metrics)
        others = set() if metrics is None else {row["same_as"] for row in stored.values() if row["same_as"]} - metrics
        originals = stored | (self._read_score_rows(connection, cell_ids, others) if others else {})
        rows = []
        for cell_id, level, metric in expected:
            row = stored.get((cell_id, level, metric))
            original = originals.get((cell_id, level, row["same_as"])) if row and row["same_as"] else row
            if original is None:
                raise Corrupt(f"{self.name}: cell {cell_id}: '{metric}' is absent; {_MENDED}")
            rows.append(original if original is row else {**original, "metric": metric})
        return rows

    def _decode_measures(self, cell_id: str, text: str, metrics: set[str] | None) -> list[tuple[str, str]]:
        """Return levels and metrics of a cell."""
        try:
            checksum, levels = json.loads(text)
        except (TypeError, ValueError):
            checksum, levels = None, []
        if checksum != _hash_measures(levels):
            raise Corrupt(f"{self.name}: checksum mismatch in cell {cell_id}; {_MENDED}")
        return [(level, name) for level, names in levels for name in names if metrics is None or name in metrics]

    def _read_score_rows(
        self, connection: sa.Connection, cell_ids: Sequence[str], metrics: set[str] | None
    ) -> dict[tuple[str, str, str], Row]:
        statement = sa.select(SCORE).where(SCORE.c.cell_id.in_(cell_ids))
        if metrics is not None:
            statement = statement.where(SCORE.c.metric.in_(sorted(metrics)))
        rows = self._decode(SCORE, connection.execute(statement).all())
        return {(row["cell_id"], row["level"], row["metric"]): row for row in rows}

    def _decode(self, table: sa.Table, result: Iterable[Any]) -> Iterator[Row]:
        names = [column.name for column in table.c]
        checksum = _make_checksum(table.name)
        json_names = [column.name for column in table.c if column.info["is_json"]]
        objects: dict[str, Any] = {}  # equal texts become one object
        for values in result:
            row = dict(zip(names, values, strict=True))
            if row["checksum"] != checksum(values):
                key = " ".join(str(row[column.name]) for column in table.primary_key)
                raise Corrupt(f"{self.name}: checksum mismatch in {table.name} {key}; {_MENDED}")
            for name in json_names:
                text = row[name]
                if text not in objects:
                    objects[text] = json.loads(text)
                row[name] = objects[text]
            _check_names(table.name, row)
            yield row

    def verify(self) -> None:
        """Read every row, including removed ones, and have SQLite check its indexes, which rows' checksums do not cover.

        Raises
        ------
        Corrupt
            If a row or an index is not what was written.
        """

        def check(connection: sa.Connection) -> str:
            self.list_references(connection)
            return connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one() if self._is_sqlite else "ok"

        if (verdict := self.read(check)) != "ok":
            raise Corrupt(f"{self.name}: corrupt ({verdict}); {_MENDED}")

    def list_references(self, connection: sa.Connection) -> set[str]:
        """Return the names of all blobs that the catalog refers to."""
        rows = (row for t in ENTRY_TABLES.values() for row in self._decode(t, connection.execute(sa.select(t))))
        return {name for row in rows for name in list_blobs(row)}


def _is_corruption(error: BaseException | None) -> bool:
    """Return whether a driver's error means that what is stored is damaged."""
    if isinstance(error, sqlite3.Error):
        # Python itself, which gives no code, raises an operational error for a text that is not UTF-8, and no other
        is_text = type(error) is sqlite3.OperationalError and get_sqlite_code(error) is None
        return is_text or get_sqlite_code(error) in _CORRUPT
    return getattr(error, "pgcode", None) in _CORRUPT_STATES


def _is_refusal(error: BaseException | None) -> bool:
    """Return whether Postgres refused a connection for good; psycopg2 gives no code for any error of connecting."""
    return any(words in str(error) for words in ("authentication failed", "does not exist"))


def list_blobs(row: Mapping[str, Any]) -> list[str]:
    """Return the names of the blobs that a row refers to, its entry's first."""
    return [row["blob"], *(row.get("files") or {}).values()]


def open_catalog(folder: Path, url: str = "", *, is_read_only: bool | None = None) -> Catalog:
    """Return the catalog in the database that `TRAUBE_DATABASE` names, by default SQLite in a data directory.

    By default it is read-only where the folder cannot be written to.
    """
    if url:
        public_url = settings.without_password(url)
        return Catalog(settings.schema_of(url, _SCHEMA), public_url, is_read_only=bool(is_read_only))
    file = folder / "catalog.db"
    if is_read_only is None:
        is_read_only = file.exists() and not (os.access(file, os.W_OK) and os.access(folder, os.W_OK))
    if is_read_only:
        journal = file.with_name(f"{file.name}-wal")
        if journal.exists() and journal.stat().st_size:
            raise Inaccessible(f"{journal}: holds results; open the folder once where it can be written to")
        query = {"mode": "ro", "immutable": "1", "uri": "true"}
        url_of_file = sa.URL.create("sqlite", database=f"file:{quote(str(file))}", query=query)
        return Catalog(url_of_file, str(file), is_read_only=True)
    if kind := _find_network(folder):
        raise Invalid(
            f"{folder}: lies on {kind}, where SQLite loses results: set TRAUBE_HOME to a folder of this machine, or "
            f"{settings.DATABASE} to a Postgres that all nodes share"
        )
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "catalog.lock"):  # SQLite refuses at once where two processes turn to WAL together
        return Catalog(sa.URL.create("sqlite", database=str(file)), str(file))


def _find_network(folder: Path) -> str | None:
    import psutil

    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    above = [mount for mount in mounts if folder.resolve().is_relative_to(mount)]
    kind = mounts[max(above, key=lambda mount: len(mount.parts))] if above else ""
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def _open_read_only(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where SQLAlchemy says so


def _open_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    for pragma in ("page_size=8192", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


def _encode(table: sa.Table, row: Mapping[str, Any]) -> Row:
    """Return a row as the database keeps it, with its checksum."""
    encoded: Row = {}
    for column in table.c:
        value = row.get(column.name, 0 if column.name == "is_removed" else None)
        if column.info["is_json"]:
            value = json.dumps(value, sort_keys=True, separators=(",", ":"))
        elif value is not None and isinstance(column.type, sa.Double):
            value = None if value != value else float(value)  # databases do not agree on nan
        encoded[column.name] = value
    return {**encoded, "checksum": _make_checksum(table.name)(tuple(encoded.values()))}


@lru_cache
def _make_checksum(table: str) -> Callable[[Any], int]:
    """Return the function that computes the checksum of a row's values in the order of columns."""
    columns = list(metadata.tables[table].c)
    binary = [i for i, column in enumerate(columns) if isinstance(column.type, sa.LargeBinary)]
    others = itemgetter(*(i for i, column in enumerate(columns) if i not in binary and column.name != "checksum"))

    def checksum(values: Any) -> int:
        text = json.dumps(others(values), default=repr)  # of a damaged row a value may be of another type
        crc = zlib.crc32(text.encode())
        for i in binary:
            crc = zlib.crc32(values[i] or b"", crc)
        return crc

    return checksum


def _hash_measures(levels: list[Any]) -> int:
    return zlib.crc32(json.dumps(levels).encode())
