"""Everything the rest of Traube stores and reads: tasks, models, cells, artifacts and embeddings.

A writer puts the blob first and enters it in one transaction then, so a crash leaves at most a blob
that nothing refers to. `rebuild` makes the catalog again from the blobs; `clean` deletes blobs that
nothing has referred to for a day. While the database or the blob store does not answer, entries
wait in `pending/` in the data directory.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa

from traube.foundation import settings
from traube.foundation.errors import TraubeError
from traube.storage import catalog as tables
from traube.storage.blobs import Blobs, Corrupt, FolderBlobs, Unreachable, hash_content, open_blobs
from traube.storage.catalog import Catalog, list_blobs, open_catalog
from traube.storage.entries import BEGIN, Entry, Score, make_score_rows, read_table, write_table
from traube.storage.leases import Lease, hold

DAY = 86_400.0  # seconds
HASTE = 2.0  # seconds that a finished cell waits for a server before it is kept here
_OF_CATALOG = ("measures", "is_removed", "revision", "blob", "checksum")
CELL_COLUMNS = tuple(c.name for c in tables.CELL.c if c.name not in _OF_CATALOG)
STATUSES = ("clustered", "done", "failed", "unsupported", "unavailable")
SCORE_COLUMNS = ("cell_id", "split", "level", "metric", "value")


class Storage:
    """Blobs and their catalog.

    Parameters
    ----------
    folder : Path
        The data directory.
    is_read_only : bool, optional
        By default whether the folder cannot be written to.

    Attributes
    ----------
    blobs : Blobs
        The truth.
    catalog : Catalog
        What is known of it.
    """

    def __init__(self, folder: Path, *, is_read_only: bool | None = None) -> None:
        self.folder = folder
        self._local = FolderBlobs(folder / "blobs")
        self._pending = FolderBlobs(folder / "pending")
        self.blobs: Blobs = open_blobs(settings.blobs(), folder / "blobs")
        self.catalog: Catalog = open_catalog(folder, is_read_only=is_read_only)
        is_new = self.catalog.get_setting("blobs") is None
        identity = self.blobs.get_identity(create=is_new and not self.catalog.is_read_only)
        if identity is None:
            raise TraubeError(f"{self.blobs.url}: not the blob store of {self.catalog.name}: is it mounted?")
        if self.catalog.is_read_only:
            return
        self.catalog.bind(identity)
        with suppress(Unreachable):
            self.flush(HASTE)
        if is_new and any(self.blobs.list()):
            sys.stderr.write(f"{self.catalog.name}: making the catalog again from {self.blobs.url}\n")
            self.rebuild()

    # writing

    def _enter(self, entry: Entry, files: Mapping[str, bytes] | None = None, lease: Lease | None = None) -> bool:
        """Put an entry and its files and enter it; return whether it counts.

        What has no files waits here while a server does not answer.
        """
        self.catalog.check_writable()
        row = {**entry.row, "created": datetime.now(UTC).isoformat(timespec="microseconds")}
        if files is not None:
            row["files"] = {name: hash_content(content) for name, content in files.items()}
            return self._enter_now(replace(entry, row=row), list(files.values()), lease)
        try:
            self.flush(HASTE)
            return self._enter_now(replace(entry, row=row), [], lease, HASTE)
        except Unreachable as error:
            if not any(self._pending.list()):
                sys.stderr.write(f"{error}; what is finished waits in {self._pending.url}\n")
            self._pending.put(replace(entry, row=row).pack())
            return True

    def _enter_now(
        self, entry: Entry, files: Sequence[bytes], lease: Lease | None = None, patience: float | None = None
    ) -> bool:
        entry = replace(entry, row={**entry.row, "revision": self.catalog.get_revision(entry, patience) + 1})
        content = entry.pack()

        def put() -> None:
            for blob in (*files, content):
                self.blobs.put(blob, patience)

        put()
        is_allowed = None if lease is None else lease.is_held
        return self.catalog.enter(hash_content(content), entry, put, is_allowed, patience)

    def flush(self, patience: float | None = None) -> int:
        """Enter what had to wait; return how many entries there were.

        Raises
        ------
        Unreachable
            If the database or the blob store does not answer in time.
        """
        names = [name for name, _ in sorted(self._pending.list(), key=itemgetter(1))]
        for name in names:
            try:
                entry = Entry.unpack(self._pending.get(name))
            except Corrupt as error:
                if self._pending.exists(name):  # otherwise another process has entered it meanwhile
                    sys.stderr.write(f"{error}\n")
            else:
                if not self._is_superseded(entry, patience):
                    self._enter_now(entry, [], None, patience)
            self._pending.delete(name)
        return len(names)

    def _is_superseded(self, entry: Entry, patience: float | None) -> bool:
        """Return whether somebody else has finished a cell since its lease expired."""
        same = [tables.CELL.c[name] == entry.row.get(name) for name in ("cell_id", "scoring_version")]
        done = sa.select(tables.CELL.c.blob).where(*same, tables.CELL.c.status == "done")
        is_done = self.catalog.read(lambda connection: connection.execute(done).first(), patience) is not None
        return entry.table == "cell" and is_done

    def hold(self, task: str, model: str, stage: str) -> AbstractContextManager[Lease]:
        """Hold the lease of a stage, once nobody else does."""
        return hold(self.catalog, task, model, stage)

    # tasks

    def save_task(
        self,
        name: str,
        kind: str,
        card: Mapping[str, Any],
        versions: Mapping[str, str],
        frames: Mapping[str, pd.DataFrame],
        state: str = "ingested",
    ) -> None:
        """Store what a task was ingested to.

        Parameters
        ----------
        name, kind : str
            The task and its type.
        card : dict
            What people must know of it.
        versions : dict
            `data_version` and what else identifies the tables.
        frames : dict of DataFrame
            Its tables: corpus, records, splits or pairs.
        state : {"ingested", "checked", "blocked"}
            How far it is.
        """
        splits = _make_split_rows(frames["splits"]) if "splits" in frames else []
        row: dict[str, Any] = {"name": name, "data_version": versions["data_version"], "type": kind, "state": state}
        row |= {"versions": dict(versions), "card": dict(card)}
        files = {table: write_table(frame) for table, frame in frames.items()}
        self._enter(Entry("task", row, {"splits": splits}), files)

    def set_task_state(self, name: str, state: str) -> None:
        """Note how far a task is: ingested, checked or blocked."""
        row = self.get_task(name)
        if row is None:
            raise TraubeError(f"task '{name}' is not ingested; `traube run --task {name}` ingests it")
        self._enter(self._make_entry("task", {**row, "state": state}))

    def get_task(self, name: str) -> dict[str, Any] | None:
        """Return the row of a task as it was ingested last; None if it never was."""
        return max(
            self.catalog.read_rows(tables.TASK, tables.TASK.c.name == name), key=itemgetter("revision"), default=None
        )

    def read_task_table(self, row: Mapping[str, Any], name: str) -> pd.DataFrame:
        """Return a table of a task's row.

        Raises
        ------
        Corrupt
            If it is absent or not what was written.
        """
        return read_table(self.blobs.get(row["files"][name]))

    def read_splits(self, data_version: str, split_set: str = "default") -> pd.DataFrame:
        """Return position, level, name, size and classes of the test splits of a task's data."""
        where = (tables.SPLIT.c.data_version == data_version, tables.SPLIT.c.split_set == split_set)
        return pd.DataFrame(
            self.catalog.read_rows(tables.SPLIT, *where), columns=["position", "level", "name", "size", "classes"]
        )

    # cells

    def save_cell(
        self,
        record: Mapping[str, Any],
        frames: Mapping[str, pd.DataFrame] | None = None,
        scores: Sequence[Score] = (),
        *,
        histories: Mapping[str, Any] | None = None,
        lease: Lease | None = None,
    ) -> bool:
        """Store what became of a cell; return whether it counts.

        Parameters
        ----------
        record : dict
            Values by `CELL_COLUMNS`, `created` excepted.
        frames : dict of DataFrame, optional
            `assignments` (split, level, item, cluster), or what the task type stores in their place.
        scores : sequence of Score
            Of a cell that is done.
        histories : dict, optional
            How the clusterer was trained.
        lease : Lease, optional
            What has to be held. By default nothing has to be.
        """
        absent = set(CELL_COLUMNS) - {"created"} - set(record)
        assert not absent and record["status"] in STATUSES, (absent, record.get("status"))
        row = {**record, "reason": _printable(record["reason"])}
        details = {"histories": dict(histories)} if histories else {}
        return self._enter(Entry("cell", row, details, frames or {}, make_score_rows(scores)), lease=lease)

    def get_cell(self, cell_id: str) -> dict[str, Any] | None:
        """Return a cell's record; None if there is none."""
        return next(iter(self.read_rows("cell", cell_id=cell_id)), None)

    def read_cells(self, *tasks: str, ids: Sequence[str] | None = None) -> pd.DataFrame:
        """Return cells by id, by default those of all tasks; one row each, with `CELL_COLUMNS`."""
        where = [tables.CELL.c.task.in_(tasks)] if tasks else []
        chunks = [sa.true()] if ids is None else [tables.CELL.c.cell_id.in_(chunk) for chunk in _cut(ids)]
        rows = [row for chunk in chunks for row in self.catalog.read_rows(tables.CELL, chunk, *where)]
        return pd.DataFrame(rows, columns=list(CELL_COLUMNS))

    def read_cell_table(self, cell_id: str, name: str = "assignments") -> pd.DataFrame:
        """Return a table of a cell.

        Raises
        ------
        Corrupt
            If the cell's blob is corrupt. The cell counts as absent from now on.
        """
        return self._cell_entry(cell_id).tables[name]

    def read_histories(self, cell_id: str) -> dict[str, Any]:
        """Return how a cell's clusterer was trained; empty of one that trains nothing."""
        return dict(self._cell_entry(cell_id).details.get("histories", {}))

    def _cell_entry(self, cell_id: str) -> Entry:
        row = self.get_cell(cell_id)
        if row is None:
            raise Corrupt(f"cell {cell_id}: absent; `traube run` makes it again")
        try:
            return Entry.unpack(self.blobs.get(row["blob"]))
        except Corrupt:
            if not self.catalog.is_read_only:
                self.remove("cell", [row])
            raise

    # scores

    def iterate_scores(
        self, cell_ids: Iterable[str], metrics: Iterable[str] | None = None
    ) -> Iterator[list[tuple[str, Score]]]:
        """Yield the scores of cells, each with its cell, by id, level and metric; some hundred cells at a time.

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
            What `cells` returns.
        metrics : iterable of str, optional
            By default all.
        replicates : bool, default=False
            Whether there is a column of them.

        Returns
        -------
        DataFrame
            With `SCORE_COLUMNS`; in the order of `cells`, of the splits' positions, and of the metrics as they were stored.
        """
        done = cells[cells["status"] == "done"]
        rank = {cell: i for i, cell in enumerate(done["cell_id"])}
        of_cell = dict(zip(done["cell_id"], zip(done["data_version"], done["split_set"], strict=True), strict=True))
        splits = {key: self.read_splits(*key) for key in set(of_cell.values())}
        if absent := [data_version for (data_version, _), table in splits.items() if table.empty]:
            raise Corrupt(f"{self.catalog.name}: no splits of data {absent[0]}; `traube run` makes them again")
        names = {key: table["name"].to_numpy() for key, table in splits.items()}
        at = {(key, level): rows["position"] for key, table in splits.items() for level, rows in table.groupby("level")}
        rows = []
        for chunk in self.iterate_scores(list(rank), metrics):
            for place, (cell, score) in enumerate(chunk):
                key = of_cell[cell]
                positions = at[key, score.level].to_numpy() if score.positions is None else score.positions
                without = [None] * len(positions) if score.replicates is None else list(score.replicates)
                each = (names[key][positions], positions, score.values, without if replicates else None)
                rows.append((rank[cell], place, cell, score.level, score.metric, *each))
        exploded = ["split", "position", "value", *(["replicates"] if replicates else [])]
        columns = ["rank", "place", "cell_id", "level", "metric", "split", "position", "value", "replicates"]
        table = pd.DataFrame(rows, columns=columns).explode(exploded).astype({"value": float})
        table = table.sort_values(["rank", "position", "place"], ignore_index=True)
        return table[[*SCORE_COLUMNS, *exploded[3:]]]

    # everything else

    def save(self, table: str, row: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> None:
        """Store a check, a model, an artifact, a block of embeddings or a document.

        Parameters
        ----------
        table : {"check", "model", "artifact", "embedding", "document"}
            What it is.
        row : dict
            Values by column of that table (`traube.storage.catalog`). The cells that a document names are never removed.
        files : dict of bytes, optional
            What is stored with it, by name.
        """
        self._enter(Entry(table, dict(row)), files)

    def read_rows(self, table: str, **equal: Any) -> list[dict[str, Any]]:
        """Return the rows of a table whose columns have these values, in the order of their keys."""
        stored = tables.ENTRY_TABLES[table]
        return self.catalog.read_rows(stored, *(stored.c[column] == value for column, value in equal.items()))

    def remove(self, table: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Remove rows, but no cells that a document names; return their number. `clean` deletes their blobs."""
        kept = {cell for row in self.read_rows("document") for cell in row["cells"] or ()}
        key = [column.name for column in tables.ENTRY_TABLES[table].primary_key]
        removed = [
            {**{name: row[name] for name in key}, "is_removed": 1} for row in rows if row.get("cell_id") not in kept
        ]
        for row in removed:
            self._enter(Entry(table, row))
        return len(removed)

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

    # operations

    def verify(self) -> list[str]:
        """Return what is corrupt, each in a line; what the catalog cannot mend counts as absent from now on.

        Raises
        ------
        Corrupt
            If the catalog is.
        """
        for _ in self.catalog.read_scores([row["cell_id"] for row in self.catalog.read_rows(tables.CELL)], None):
            pass
        self.catalog.read_rows(tables.SPLIT)
        lines: dict[str, str] = {}  # by blob
        for table in tables.ENTRY_TABLES.values():
            for row in self.catalog.read_rows(table):
                blobs = list_blobs(row)
                lines |= {blob: line for blob in blobs if blob not in lines and (line := self._find_fault(blob))}
                if self.catalog.is_read_only or lines.keys().isdisjoint(blobs):
                    continue
                if table is tables.CELL or not lines.keys().isdisjoint(blobs[1:]):
                    self.remove(table.name, [row])
                else:  # the catalog has all of the entry
                    self._enter(self._make_entry(table.name, row))
        return list(lines.values())

    def _make_entry(self, table: str, row: Mapping[str, Any]) -> Entry:
        """Return the entry of a row, made of the catalog."""
        own = {name: value for name, value in row.items() if name not in ("blob", "checksum")}
        if table != "task":
            return Entry(table, own)
        return Entry(
            table,
            own,
            {"splits": self.catalog.read_rows(tables.SPLIT, tables.SPLIT.c.data_version == row["data_version"])},
        )

    def _find_fault(self, blob: str) -> str:
        try:
            self.blobs.get(blob)
        except Corrupt as error:
            return str(error)
        return ""

    def rebuild(self) -> list[str]:
        """Make the catalog again from the blobs; return what was corrupt, each in a line."""
        lines: list[str] = []

        def entries() -> Iterator[tuple[str, Entry]]:
            lines.clear()
            for blob, _ in self.blobs.list():
                if self.blobs.first_bytes(blob, len(BEGIN)) != BEGIN:
                    continue
                try:
                    yield blob, Entry.unpack(self.blobs.get(blob), with_tables=False)
                except Corrupt as error:
                    lines.append(str(error))

        self.catalog.replace(entries)
        return lines

    def clean(self, *, seconds: float = DAY) -> tuple[int, int]:
        """Mark the blobs that nothing refers to, and delete those that were marked for so long.

        Returns
        -------
        marked, deleted : int
            Numbers of blobs.
        """
        found, mark = {blob for blob, _ in self.blobs.list()}, tables.MARK
        deleted: list[str] = []

        def clean(connection: sa.Connection) -> int:
            now = connection.execute(sa.select(self.catalog.now)).scalar_one()
            rows = connection.execute(sa.select(mark.c.blob, mark.c.since).with_for_update())
            marks = {row.blob: row.since for row in rows}
            orphans = found - self.catalog.list_references(connection)
            connection.execute(sa.delete(mark).where(mark.c.blob.in_(marks.keys() - orphans)))
            if new := [{"blob": blob, "since": now} for blob in sorted(orphans - marks.keys())]:
                connection.execute(self.catalog.insert(mark).on_conflict_do_nothing(), new)
            for blob in sorted(orphans & marks.keys()):
                if now - marks[blob] >= seconds:
                    self.blobs.delete(blob)  # in the transaction: a writer that refers to it waits, and puts it again
                    deleted.append(blob)
            return len(orphans)

        orphans = self.catalog.write(clean)
        for store in (self.blobs, self._local, self._pending):
            if isinstance(store, FolderBlobs):
                store.delete_temporary_files(time.time() - seconds)
        return orphans - len(deleted), len(deleted)


def rebuild(folder: Path) -> list[str]:
    """Make the catalog of a data directory again, also one that cannot be opened; return what was corrupt."""
    try:
        return Storage(folder).rebuild()
    except Corrupt:
        if settings.database():
            raise
    for file in folder.glob("catalog.db*"):
        file.rename(file.with_name(f"corrupt-{file.name}"))
    return Storage(folder).rebuild()


def _cut(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + tables.CHUNK] for start in range(0, len(ids), tables.CHUNK))


def _make_split_rows(splits: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows of the table `split`, in the order in which test splits first occur."""
    tested = splits[splits["part"] == "test"]
    rows: list[dict[str, Any]] = []
    positions: Counter[str] = Counter()
    for (split_set, name, level), labels in tested.groupby(["split_set", "split", "level"], sort=False)["label"]:
        row = {"split_set": split_set, "position": positions[split_set], "level": level, "name": name}
        rows.append({**row, "size": len(labels), "classes": int(labels.nunique())})
        positions[split_set] += 1
    return rows


def _make_score(row: Mapping[str, Any]) -> Score:
    values = np.frombuffer(row["values"], "<f8")
    replicates = None if row["replicates"] is None else np.frombuffer(row["replicates"], "<f4").reshape(len(values), -1)
    positions = None if row["positions"] is None else np.frombuffer(row["positions"], "<i4")
    return Score(row["level"], row["metric"], values, replicates, positions)


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
