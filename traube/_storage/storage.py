"""Everything the rest of Traube stores and reads: tasks, models, cells, artifacts and embeddings.

A writer puts the blob first and enters it in one transaction then, so a crash leaves at most a blob
that nothing refers to. `rebuild` makes the catalog again from the blobs; `clean` deletes blobs that
nothing has referred to for a day. While the database or the blob store does not answer, entries
wait in `pending/` in the data directory.
"""

import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import pandas as pd
import sqlalchemy as sa
from numpy.typing import NDArray

from traube._core import paths, settings
from traube._core.errors import Changed, Conflict, Corrupt, Incompatible, Missing, Unreachable, printable
from traube._storage import catalog as tables
from traube._storage.blobs import Blobs, FolderBlobs, hash_content, open_blobs
from traube._storage.catalog import Catalog, list_blobs, open_catalog
from traube._storage.documents import Document
from traube._storage.entries import FIRST, NAME_AT, Entry, Score, make_score_rows, read_table, write_table
from traube._storage.leases import Lease, hold
from traube._storage.rows import CatalogRow, CellRow, DocumentRow, TaskRow

D = TypeVar("D", bound=Document)
R = TypeVar("R", bound=CatalogRow)
DAY = 86_400.0  # seconds
WEEK = 7 * DAY
HASTE = 2.0  # seconds that a finished cell waits for a server before it is kept here
_OF_CATALOG = ("measures", "is_removed", "revision", "blob", "checksum")
CELL_COLUMNS = tuple(c.name for c in tables.CELL.c if c.name not in _OF_CATALOG)
STATUSES = ("clustered", "done", "failed", "unsupported", "unavailable")
File = bytes | Path  # contents, or a file that holds them
SCORE_COLUMNS = ("cell_id", "split", "level", "metric", "value")


class Storage:
    """Blobs and their catalog.

    Parameters
    ----------
    folder : Path
        The data directory.
    is_read_only : bool, optional
        By default whether the folder cannot be written to.
    servers : tuple of str, optional
        The blob store and the database, by default those that the settings name; empty for those in the folder.
    """

    def __init__(
        self, folder: Path, *, is_read_only: bool | None = None, servers: tuple[str, str] | None = None
    ) -> None:
        if any((folder / "store" / name).is_dir() for name in ("results", "tasks", "pairs")):
            raise Incompatible(
                f"{folder}: made by an earlier version of Traube, whose results this one does not read; "
                "set TRAUBE_HOME to another folder"
            )
        self.folder = folder
        self._local = FolderBlobs(folder / "blobs")
        self._pending = FolderBlobs(folder / "pending")
        blobs, url = servers or (settings.blobs(), settings.database())
        self.blobs: Blobs = open_blobs(blobs, folder / "blobs")  # the truth
        self.catalog: Catalog = open_catalog(folder, url, is_read_only=is_read_only)  # the index of the blobs
        self._inode = _get_inode(folder)
        is_new = self.catalog.get_setting("blobs") is None
        identity = self.blobs.get_identity(create=is_new and not self.catalog.is_read_only)
        if identity is None:
            raise Conflict(f"{self.blobs.url}: not the blob store of {self.catalog.name}: is it mounted?")
        if is_new and not self.catalog.is_read_only and any(self.blobs.list()):
            sys.stderr.write(f"{self.catalog.name}: making the catalog again from {self.blobs.url}\n")
            sys.stderr.writelines(f"{line}\n" for line in self.rebuild())
        self.catalog.bind(identity)  # last: a catalog that was not completed counts as new the next time
        if not self.catalog.is_read_only:
            with suppress(Unreachable):
                self.flush(HASTE)

    # writing

    def _enter(self, entry: Entry, files: Mapping[str, File] | None = None, lease: Lease | None = None) -> bool:
        """Enter an entry and its files; return whether the entry counts.

        An entry without files waits here while no server answers.
        """
        self.catalog.check_writable()
        row = {"created": datetime.now(UTC).isoformat(timespec="microseconds"), **entry.row}
        if files is not None:
            row["files"] = {name: hash_content(_read(file)) for name, file in files.items()}
            return self._enter_now(replace(entry, row=row), files, lease)
        try:
            self.flush(HASTE)
            return self._enter_now(replace(entry, row=row), {}, lease, HASTE)
        except Unreachable as error:
            if not any(self._pending.list()):
                sys.stderr.write(f"{error}; what is finished waits in {self._pending.url}\n")
            self._pending.put(replace(entry, row=row).pack())
            return True

    def _enter_now(
        self, entry: Entry, files: Mapping[str, File], lease: Lease | None = None, patience: float | None = None
    ) -> bool:
        entry = replace(entry, row={**entry.row, "revision": self.catalog.get_revision(entry, patience) + 1})
        content = entry.pack()

        def put() -> None:
            for name, file in files.items():  # in memory one after the other
                if self.blobs.put(_read(file), patience) != entry.row["files"][name]:
                    raise Changed(f"{file!s:.200}: was written to while it was stored; run the command again")
            self.blobs.put(content, patience)

        put()
        is_allowed = None if lease is None else lease.is_held
        return self.catalog.enter(hash_content(content), entry, put, is_allowed, patience)

    def flush(self, patience: float | None = None) -> int:
        """Enter the pending entries; return how many there were.

        Raises
        ------
        Unreachable
            If the database or the blob store does not answer in time.
        """
        names = [name for name, _ in sorted(self._pending.list(), key=itemgetter(1))]
        for name in names:
            try:
                entry = Entry.unpack(self._pending.get(name))
                tables.check_entry(entry)
            except Corrupt as error:
                if self._pending.exists(name):  # otherwise another process has entered it meanwhile
                    sys.stderr.write(f"{error}\n")
            else:
                if not self._is_superseded(entry, patience):
                    self._enter_now(entry, {}, None, patience)
            self._pending.delete(name)
        return len(names)

    def _is_superseded(self, entry: Entry, patience: float | None) -> bool:
        """Return whether another process has finished a cell since its lease expired."""
        same = [tables.CELL.c[name] == entry.row.get(name) for name in ("cell_id", "scoring_version")]
        done = sa.select(tables.CELL.c.blob).where(*same, tables.CELL.c.status == "done")
        is_done = self.catalog.read(lambda connection: connection.execute(done).first(), patience) is not None
        return entry.table == "cell" and is_done

    def hold(self, task: str, model: str, stage: str) -> AbstractContextManager[Lease]:
        """Hold the lease of a stage, once nobody else does. Whoever stores cells under it hands it to `save_cell`."""
        return hold(self.catalog, task, model, stage)

    @property
    def is_in_place(self) -> bool:
        """True while the data directory is still the one that was opened, and not deleted or replaced."""
        return _get_inode(self.folder) == self._inode

    # tasks

    def save_task(
        self,
        name: str,
        kind: str,
        card: Mapping[str, Any],
        versions: Mapping[str, str],
        frames: Mapping[str, pd.DataFrame],
        splits: pd.DataFrame,
        state: str = "ingested",
    ) -> None:
        """Store the result of ingesting a task.

        Parameters
        ----------
        name : str
            Name of the task.
        kind : str
            Kind of the task.
        card : dict
            Its card.
        versions : dict
            `data_version` and what else identifies the tables.
        frames : dict of DataFrame
            Its tables: corpus, records, splits or pairs.
        splits : DataFrame
            What its scores are of: split_set, split, level, part, label.
        state : {"ingested", "checked", "blocked"}, default="ingested"
            How far it is.
        """
        version = versions["data_version"]
        row = TaskRow(name=name, data_version=version, type=kind, state=state, versions=dict(versions), card=dict(card))
        files = {table: write_table(frame) for table, frame in frames.items()}
        tested = splits[splits["part"] == "test"].rename(columns={"split": "name"})
        labels = tested.groupby(["split_set", "name", "level"], sort=False)["label"]
        scored_splits = labels.agg(size="size", classes="nunique").reset_index()
        scored_splits = scored_splits.assign(
            position=scored_splits.groupby("split_set").cumcount()
        )  # in the order of first occurrence
        self._enter(Entry("task", row.to_columns(), {"splits": scored_splits.to_dict("records")}), files)

    def save_splits_of(self, data_version: str, splits: pd.DataFrame) -> None:
        """Store the splits of a task that is not stored itself, unless they are stored already."""
        if self.read_splits(data_version, str(splits["split_set"].iloc[0])).empty:
            self.save_task(f"splits of {data_version}", "splits", {}, {"data_version": data_version}, {}, splits)

    def set_task_state(self, name: str, state: str, card: Mapping[str, Any] | None = None) -> None:
        """Set the state of a task (ingested, checked or blocked), and its card if the card has changed."""
        if (row := self.get_task(name)) is None:
            raise Missing(f"task '{name}' is not ingested; `traube run --task {name}` ingests it")
        row = replace(row, state=state, card=card or row.card)
        self._enter(self._make_entry("task", row.to_columns()))

    def get_task(self, name: str) -> TaskRow | None:
        """Return the row of a task's last ingestion; None if the task was never ingested."""
        return max(self.read_rows(TaskRow, name=name), key=attrgetter("revision"), default=None)

    def list_tasks(self) -> list[str]:
        """Return the names of the tasks that were ingested."""
        return sorted({row.name for row in self.read_rows(TaskRow)})

    def read_table(self, blob: str) -> pd.DataFrame:
        """Return the table that a blob holds; raises what `get_path` does."""
        return read_table(self.get_path(blob).read_bytes())

    def read_splits(self, data_version: str, split_set: str = "default") -> pd.DataFrame:
        """Return position, level, name, size and classes of the test splits of a task's data."""
        split = tables.SPLIT.c
        rows = self.catalog.read_rows(tables.SPLIT, split.data_version == data_version, split.split_set == split_set)
        return pd.DataFrame(rows, columns=["position", "level", "name", "size", "classes"])

    # cells

    def save_cell(
        self,
        cell: CellRow,
        assignments: pd.DataFrame | None = None,
        scores: Sequence[Score] = (),
        *,
        histories: Mapping[str, Any] | None = None,
        lease: Lease | None = None,
    ) -> bool:
        """Store the outcome of a cell; return whether it counts: not if the lease under which it was made is lost.

        Parameters
        ----------
        cell : CellRow
            Its record.
        assignments : DataFrame, optional
            Its clusters (split, level, item, cluster), if it clusters.
        scores : sequence of Score, optional
            Scores of the cell.
        histories : dict, optional
            How the clusterer was trained.
        lease : Lease, optional
            The lease under which it was made (`hold`); None where nobody else can compute the cell.

        Returns
        -------
        bool
            Whether the cell counts.
        """
        assert cell.status in STATUSES, cell.status
        row = replace(cell, reason=printable(cell.reason)).to_columns()
        details = {"histories": dict(histories)} if histories else {}
        return self._enter(Entry("cell", row, details, assignments, make_score_rows(scores)), lease=lease)

    def get_cell(self, cell_id: str) -> CellRow | None:
        """Return a cell's record; None if there is none."""
        return next(iter(self.read_rows(CellRow, cell_id=cell_id)), None)

    def read_cells(self, *tasks: str, ids: Sequence[str] | None = None) -> pd.DataFrame:
        """Return finished cells with `CELL_COLUMNS`: of some tasks or all, by task and id, or these ids in their order."""
        where = [tables.CELL.c.status != "clustered", *([tables.CELL.c.task.in_(tasks)] if tasks else [])]
        starts = range(0, len(ids or ()), tables.CHUNK)
        chunks = [sa.true()] if ids is None else [tables.CELL.c.cell_id.in_(ids[i : i + tables.CHUNK]) for i in starts]
        rows = [row for chunk in chunks for row in self.catalog.read_rows(tables.CELL, chunk, *where)]
        if ids is None:
            rows.sort(key=itemgetter("task", "cell_id"))
        else:
            by_id = {row["cell_id"]: row for row in rows}
            rows = [by_id[cell_id] for cell_id in ids if cell_id in by_id]
        return pd.DataFrame(rows, columns=list(CELL_COLUMNS))

    def find_finished(self, task: str, scoring_version: str) -> set[str]:
        """Return the ids of the cells of a task that need no work: scored by these metrics, or unsupported."""
        cell = tables.CELL.c
        is_scored = sa.and_(cell.scoring_version == scoring_version, cell.status == "done")
        return self._find(cell.cell_id, cell.task == task, sa.or_(is_scored, cell.status == "unsupported"))

    def find_clustered(self, task: str, besides: Collection[str] = ()) -> set[str]:
        """Return the ids of the cells of a task whose assignments can be read, besides those given.

        Those whose blobs are corrupt count as absent from now on.
        """
        cell = tables.CELL.c
        ids = self._find(cell.cell_id, cell.task == task, cell.status.in_(("clustered", "done", "failed")))
        readable = set()
        for cell_id in ids.difference(besides):
            with suppress(Corrupt):  # a cell that failed earlier has no assignments
                self.read_assignments(cell_id)
                readable.add(cell_id)
        return readable

    def list_scored_tasks(self) -> list[str]:
        """Return the names of the tasks that have cells."""
        return sorted(self._find(tables.CELL.c.task, tables.CELL.c.status != "clustered"))

    def list_tasks_of(self, clusterers: Collection[str]) -> set[str]:
        """Return the tasks that have cells of some clusterers."""
        return self._find(tables.CELL.c.task, tables.CELL.c.clusterer.in_(list(clusterers)))

    def _find(self, column: sa.Column[str], *where: sa.ColumnElement[bool]) -> set[str]:
        """Return a column of the cells that were not removed and that meet all conditions."""
        statement = sa.select(column).distinct().where(tables.CELL.c.is_removed == 0, *where)
        return self.catalog.read(lambda connection: set(connection.execute(statement).scalars()))

    def get_state(self) -> str:
        """Return a value that changes with each cell and each task."""
        read = [
            sa.select(sa.func.count(), sa.func.sum(table.c.revision), sa.func.sum(table.c.checksum))
            for table in (tables.CELL, tables.TASK)
        ]
        totals = self.catalog.read(lambda connection: [tuple(connection.execute(one).one()) for one in read])
        return " ".join(str(int(number or 0)) for numbers in totals for number in numbers)

    def read_assignments(self, cell_id: str) -> pd.DataFrame:
        """Return the clusters of a cell (split, level, item, cluster).

        Raises
        ------
        Corrupt
            If the cell has none, or its blob is corrupt. Then it counts as absent from now on.
        """
        if (assignments := self._cell_entry(cell_id).assignments) is None:
            raise Corrupt(f"cell {cell_id}: has no assignments")
        return assignments

    def read_histories(self, cell_id: str) -> dict[str, Any]:
        """Return the training history of a cell's clusterer; empty for a clusterer that trains nothing."""
        return dict(self._cell_entry(cell_id).details.get("histories", {}))

    def _cell_entry(self, cell_id: str) -> Entry:
        if not self.catalog.is_read_only:
            self.flush()  # it may wait here
        if (row := self.get_cell(cell_id)) is None:
            raise Corrupt(f"cell {cell_id}: absent; `traube run` makes it again")
        try:
            return Entry.unpack(self.blobs.get(row.blob))
        except Corrupt:
            if not self.catalog.is_read_only:
                self._mark_removed("cell", vars(row))
            raise

    # scores

    def iterate_scores(
        self, cell_ids: Iterable[str], metrics: Iterable[str] | None = None
    ) -> Iterator[list[tuple[str, Score]]]:
        """Yield the scores of cells, each with its cell, by id, level and metric; some hundred cells at a time.

        Parameters
        ----------
        cell_ids : iterable of str
            Ids of the cells.
        metrics : iterable of str, optional
            By default all.

        Yields
        ------
        list of (str, Score)
            Ids of cells with scores.

        Raises
        ------
        Corrupt
            If a row is absent or not what was written.
        """
        for rows in self.catalog.read_scores(cell_ids, metrics):
            yield [(row["cell_id"], _make_score(row)) for row in rows]

    def read_scores(
        self, cells: pd.DataFrame, metrics: Iterable[str] | None = None, *, replicates: bool = False
    ) -> pd.DataFrame:
        """Return scores of the cells that are done, a row for each split.

        Parameters
        ----------
        cells : DataFrame
            What `read_cells` returns.
        metrics : iterable of str, optional
            By default all.
        replicates : bool, default=False
            Whether there is a column of them.

        Returns
        -------
        DataFrame
            With `SCORE_COLUMNS`; by task, in the order of `cells`, of the splits' positions, and of the metrics as they were stored.
        """
        done = cells[cells["status"] == "done"]
        done = done.iloc[np.argsort(pd.factorize(done["task"])[0], kind="stable")]
        rank = {cell: i for i, cell in enumerate(done["cell_id"])}
        of_cell = dict(zip(done["cell_id"], zip(done["data_version"], done["split_set"], strict=True), strict=True))
        splits = {key: self.read_splits(*key) for key in set(of_cell.values())}
        if absent := [data_version for (data_version, _), table in splits.items() if table.empty]:
            raise Corrupt(f"{self.catalog.name}: no splits of data {absent[0]}; `traube run` makes them again")
        names = {key: table["name"].to_numpy(dtype=object) for key, table in splits.items()}
        of_level = {
            (key, level): rows["position"].to_numpy()
            for key, table in splits.items()
            for level, rows in table.groupby("level")
        }
        scores = list(chain.from_iterable(self.iterate_scores(list(rank), metrics)))
        positions = [
            of_level[of_cell[cell], score.level] if score.positions is None else score.positions
            for cell, score in scores
        ]
        position = _join(positions, np.int64)
        of_row = np.repeat(np.arange(len(scores)), np.array([len(indices) for indices in positions], dtype=np.int64))
        ranks = np.array([rank[cell] for cell, _ in scores], dtype=np.int64)
        order = np.lexsort((position, ranks[of_row]))  # stable: metrics stay as they were stored
        heads = [(cell, score.level, score.metric) for cell, score in scores]
        table = pd.DataFrame(heads, columns=["cell_id", "level", "metric"]).take(of_row[order]).reset_index(drop=True)
        names_of = [names[of_cell[cell]][indices] for (cell, _), indices in zip(scores, positions, strict=True)]
        table["split"] = _join(names_of, object)[order]
        table["value"] = _join([score.values for _, score in scores], np.float64)[order]
        if replicates:
            each = [[None] * len(s.values) if s.replicates is None else s.replicates for _, s in scores]
            flat = list(chain.from_iterable(each))
            table["replicates"] = pd.Series([flat[i] for i in order.tolist()], dtype=object)
        return table[[*SCORE_COLUMNS, *(["replicates"] if replicates else [])]]

    # everything else

    def save(self, row: CatalogRow, files: Mapping[str, File] | None = None) -> None:
        """Store a check, a checkpoint, an artifact or a block of embeddings, with files by name."""
        self._enter(Entry(row.table, row.to_columns()), files)

    def read_rows(self, row_class: type[R], /, **equal: Any) -> list[R]:
        """Return the rows of a table whose columns have these values, in the order of their keys."""
        stored = tables.ENTRY_TABLES[row_class.table]
        rows = self.catalog.read_rows(stored, *(stored.c[column] == value for column, value in equal.items()))
        return [row_class.from_columns(row) for row in rows]

    def save_document(
        self, document: Document, files: Mapping[str, File] | None = None, lease: Lease | None = None
    ) -> bool:
        """Store a document in place of the one under its key, with files by name.

        Returns whether it counts: not if the lease under which it was made is lost.
        """
        return self._enter(Entry("document", document.to_row().to_columns()), files, lease)

    def read_documents(self, kind: type[D], key: str | None = None) -> list[D]:
        """Return the documents of a kind, in the order of their keys, or the one under a key, if there is one.

        Raises
        ------
        Corrupt
            If a document is not what Traube writes.
        """
        of_key = {} if key is None else {"key": key}
        return [kind.from_row(row) for row in self.read_rows(DocumentRow, kind=kind.kind, **of_key)]

    def get_document(self, kind: type[D], key: str) -> D | None:
        """Return the document of a kind under a key; None if there is none. Raises what `read_documents` does."""
        return next(iter(self.read_documents(kind, key)), None)

    def remove_document(self, document: Document) -> None:
        """Remove a document."""
        self._mark_removed("document", vars(document.to_row()))

    def remove(self, rows: Collection[CatalogRow]) -> int:
        """Remove rows, but no cells that a document names; return the number of removed rows.

        `clean` deletes their blobs.
        """
        kept = self.list_kept_cells() if any(isinstance(row, CellRow) for row in rows) else set()
        removed = [row for row in rows if not (isinstance(row, CellRow) and row.cell_id in kept)]
        for row in removed:
            self._mark_removed(row.table, vars(row))
        return len(removed)

    def list_kept_cells(self) -> set[str]:
        """Return the ids of the cells that a document names, such as a night or a champion's pin."""
        return {cell for row in self.read_rows(DocumentRow) for cell in row.cells}

    def _mark_removed(self, table: str, row: Mapping[str, Any]) -> None:
        """Remove a row, even a cell that a document names: it counts as absent until a run makes it again."""
        key = {column.name: row[column.name] for column in tables.ENTRY_TABLES[table].primary_key}
        self._enter(Entry(table, {**key, "is_removed": 1}))

    def get_path(self, blob: str) -> Path:
        """Return a file of this machine with a blob's bytes.

        Raises
        ------
        Corrupt
            If the blob is absent or corrupt.
        """
        store = self.blobs if isinstance(self.blobs, FolderBlobs) else self._local
        try:
            store.get(blob)
        except Corrupt:
            if store is self.blobs:
                raise
            store.put(self.blobs.get(blob))
        return store.get_path(blob)

    def get_table_path(self, name: str) -> Path:
        """Return the path of a table that is derived from the storage."""
        return self.folder / "tables" / name

    # operations

    def verify(self) -> list[str]:
        """Return what is corrupt, one line each. What the catalog cannot mend counts as absent from now on.

        Raises
        ------
        Corrupt
            If the catalog is.
        """
        self.catalog.verify()
        for _ in self.catalog.read_scores([row["cell_id"] for row in self.catalog.read_rows(tables.CELL)], None):
            pass
        self.catalog.read_rows(tables.SPLIT)
        lines: dict[str, str] = {}  # by blob
        for table in tables.ENTRY_TABLES.values():
            for row in self.catalog.read_rows(table):
                blobs = list_blobs(row)
                for blob in blobs:
                    try:
                        self.blobs.get(blob)
                    except Corrupt as error:
                        lines[blob] = str(error)
                if self.catalog.is_read_only or lines.keys().isdisjoint(blobs):
                    continue
                if table is tables.CELL or not lines.keys().isdisjoint(blobs[1:]):
                    self._mark_removed(table.name, row)
                else:  # the catalog has all of the entry
                    self._enter(self._make_entry(table.name, row))
        return list(lines.values())

    def _make_entry(self, table: str, row: Mapping[str, Any]) -> Entry:
        """Return the entry of a row, made from the catalog."""
        values, details = {name: value for name, value in row.items() if name not in ("blob", "checksum")}, {}
        if table == "task":
            is_of_task = tables.SPLIT.c.data_version == row["data_version"]
            details = {"splits": self.catalog.read_rows(tables.SPLIT, is_of_task)}
        return Entry(table, values, details)

    def rebuild(self) -> list[str]:
        """Rebuild the catalog from the blobs; return what was corrupt, one line each."""
        lines: list[str] = []

        def entries() -> Iterator[tuple[str, Entry]]:
            lines.clear()
            for blob, _ in self.blobs.list():
                try:
                    if self.blobs.first_bytes(blob, NAME_AT + len(FIRST))[NAME_AT:].startswith(FIRST.encode()):
                        entry = Entry.unpack(self.blobs.get(blob), with_assignments=False)
                        tables.check_entry(entry)
                        yield blob, entry
                except Corrupt as error:
                    lines.append(f"{blob}: {error}")

        self.catalog.replace(entries)
        return lines

    def clean(self, *, seconds: float = DAY) -> tuple[int, int]:
        """Mark the blobs that nothing refers to, and delete those marked long enough ago; return the number of each.

        What was removed over a week ago is no longer noted as removed: a copy or backup of before brings it back.
        """
        blobs, mark = {blob for blob, _ in self.blobs.list()}, tables.MARK
        deleted: list[str] = []

        def clean(connection: sa.Connection) -> int:
            now = connection.execute(sa.select(self.catalog.now)).scalar_one()
            rows = connection.execute(sa.select(mark.c.blob, mark.c.since).with_for_update())
            marks = {row.blob: row.since for row in rows}
            orphans = blobs - self.catalog.list_references(connection)
            connection.execute(sa.delete(mark).where(mark.c.blob.in_(marks.keys() - orphans)))
            if new := [{"blob": blob, "since": now} for blob in sorted(orphans - marks.keys())]:
                connection.execute(self.catalog.insert(mark).on_conflict_do_nothing(), new)
            # the oldest first: what was removed goes before the entry that says so
            for blob in sorted(orphans & marks.keys(), key=lambda blob: marks[blob]):
                if now - marks[blob] >= seconds:
                    self.blobs.delete(blob)  # in the transaction: a writer that refers to it waits, and puts it again
                    deleted.append(blob)
            self.catalog.drop_removed(connection, datetime.fromtimestamp(now - WEEK, UTC))
            return len(orphans)

        orphans = self.catalog.write(clean)
        for store in (self.blobs, self._local, self._pending):
            if isinstance(store, FolderBlobs):
                store.delete_temporary_files(time.time() - seconds)
        return orphans - len(deleted), len(deleted)


def open_storage(folder: Path) -> Storage:
    """Return the storage of a data directory, which a process opens once.

    Nodes share the storage of `TRAUBE_HOME`; any other storage is scratch and private.
    """
    folder = folder.resolve()
    is_shared = folder == paths.home().resolve()
    key = folder, (settings.blobs(), settings.database()) if is_shared else ("", ""), os.getpid()
    if not _open(*key).is_in_place:
        _open.cache_clear()
    return _open(*key)


@lru_cache(maxsize=16)
def _open(folder: Path, servers: tuple[str, str], _process: int) -> Storage:
    return Storage(folder, servers=servers)


def _get_inode(folder: Path) -> tuple[int, int] | None:
    try:
        status = (folder / "catalog.db").stat()
    except FileNotFoundError:  # there is none where the catalog is on a server
        return None
    return status.st_dev, status.st_ino


def rebuild(folder: Path) -> list[str]:
    """Rebuild the catalog of a data directory, even one that cannot be opened; return what was corrupt.

    A blob store whose marker is corrupt gets the one that the catalog knows, or a new one.
    """
    blobs, known = open_blobs(settings.blobs(), folder / "blobs"), None
    try:
        blobs.get_identity(create=False)
    except Corrupt:
        with suppress(Corrupt):
            known = open_catalog(folder, settings.database()).get_setting("blobs")
        blobs.restore_identity(known or uuid4().hex)
    try:
        storage = Storage(folder)
        lines = storage.rebuild()
        storage.catalog.verify()  # what holds no row is not written, and may be damaged
        return lines
    except Corrupt:
        if settings.database():
            raise
    for file in folder.glob("catalog.db*"):
        file.rename(file.with_name(f"corrupt-{file.name}"))
    return Storage(folder).rebuild()


def _read(file: File) -> bytes:
    return file if isinstance(file, bytes) else file.read_bytes()


def _make_score(row: Mapping[str, Any]) -> Score:
    values = np.frombuffer(row["values"], "<f8")
    replicates = None if row["replicates"] is None else np.frombuffer(row["replicates"], "<f4").reshape(len(values), -1)
    positions = None if row["positions"] is None else np.frombuffer(row["positions"], "<i4")
    return Score(row["level"], row["metric"], values, replicates, positions)


def _join(parts: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *parts])
