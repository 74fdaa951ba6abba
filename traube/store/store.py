"""Where results are kept: parquet tables below one folder, written whole, so that a crash
leaves nothing half done.

::

    tasks/<task>/{corpus,records,splits}.parquet, manifest.json    the frozen task
    results/<task>/<cell>.{assignments,scores}.parquet, .json      a cell: predictions, metrics with
                                                                   replicates, provenance
    reductions/<id>.npy                                            reduced vectors of a split
    matrices/<task>/<fingerprint>.{npy,npz}                        vectors of corpus-bound models
    index/{cells,scores}/<task>/*.parquet                          what was read of results/, kept
                                                                   together; may be deleted
    tables/                                                        the leaderboard, rebuilt whole
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from traube.foundation.errors import TraubeError
from traube.foundation.files import frame_digest, write_json, write_parquet
from traube.store.cells import CELL_COLUMNS, read_cell, read_cells, table_of
from traube.store.index import Index
from traube.store.scores import SCORE_COLUMNS, SCORES, read_scores
from traube.tasks.task import CORPUS_COLUMNS, SPLIT_COLUMNS, Task, TaskCard, data_version, read_table

ASSIGNMENT_COLUMNS = ("cell_id", "split", "level", "item", "cluster")


@dataclass(frozen=True)
class Manifest:
    """What a stored task was read from, and what it holds."""

    raw_version: str
    corpus_version: str
    splits_version: str

    @property
    def data_version(self) -> str:
        return data_version(self.corpus_version, self.splits_version)


@dataclass(frozen=True)
class Store:
    """Tables below `folder`."""

    folder: Path

    # tasks

    def _task(self, name: str) -> Path:
        return self.folder / "tasks" / name

    def save_corpus(self, name: str, corpus: pd.DataFrame, records: pd.DataFrame, raw_version: str) -> str:
        """Store a task's texts and the records that splits are drawn from; return the
        content hash of the corpus.
        """
        # the task counts as absent until its splits are there too
        (self._task(name) / "manifest.json").unlink(missing_ok=True)
        write_parquet(self._task(name) / "records.parquet", records)
        write_parquet(self._task(name) / "corpus.parquet", corpus)
        write_json(self._task(name) / "read.json", {"raw_version": raw_version})
        return frame_digest(corpus)

    def save_splits(self, card: TaskCard, splits: pd.DataFrame) -> Manifest:
        """Store a task's splits. The task still counts as absent: see `complete`."""
        raw_version = json.loads((self._task(card.name) / "read.json").read_text())["raw_version"]
        write_parquet(self._task(card.name) / "splits.parquet", splits)
        return Manifest(raw_version, frame_digest(self.corpus(card.name)), frame_digest(splits))

    def complete(self, card: TaskCard, manifest: Manifest) -> None:
        """From now on the task is there: its tables are stored, and their checks are done."""
        write_json(self._task(card.name) / "manifest.json", {**vars(manifest), "card": card.model_dump()})

    def corpus(self, name: str) -> pd.DataFrame:
        return read_table(self._task(name) / "corpus.parquet", CORPUS_COLUMNS)

    def records(self, name: str) -> pd.DataFrame:
        return read_table(self._task(name) / "records.parquet", ("text_id",))

    def manifest(self, name: str) -> Manifest | None:
        """What is stored of a task; None if it has not been read yet."""
        path = self._task(name) / "manifest.json"
        try:
            entry = json.loads(path.read_text())
            return Manifest(entry["raw_version"], entry["corpus_version"], entry["splits_version"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # absent or damaged: the task is read again

    def card(self, name: str) -> TaskCard | None:
        """The card that a stored task was read with."""
        try:
            return TaskCard.model_validate(json.loads((self._task(name) / "manifest.json").read_text())["card"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def task(self, card: TaskCard) -> Task:
        """A stored task.

        Raises
        ------
        TraubeError
            If it has not been read yet or a file of it is damaged.
        """
        if self.manifest(card.name) is None:
            raise TraubeError(
                f"task '{card.name}' has not been read yet: materialise {card.name}/corpus and {card.name}/splits"
            )
        splits = read_table(self._task(card.name) / "splits.parquet", SPLIT_COLUMNS)
        return Task(card, self.corpus(card.name), splits)

    # results

    def _result(self, task: str, cell_id: str, kind: str) -> Path:
        return self.folder / "results" / task / f"{cell_id}{kind}"

    def has_assignments(self, task: str, cell_id: str) -> bool:
        return self._result(task, cell_id, ".assignments.parquet").exists()

    def sound_assignments(self, task: str, cell_id: str) -> bool:
        """Whether a cell's assignments are there and can be read; damaged ones are
        removed, to be made again.
        """
        try:
            self.assignments(task, cell_id)
        except TraubeError:
            self._result(task, cell_id, ".assignments.parquet").unlink(missing_ok=True)
            return False
        return True

    def save_assignments(self, task: str, cell_id: str, assignments: pd.DataFrame, seconds: float) -> None:
        frame = assignments.assign(cell_id=cell_id)[list(ASSIGNMENT_COLUMNS)]
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata({"seconds": str(seconds)})
        write_parquet_table(self._result(task, cell_id, ".assignments.parquet"), table)

    def assignments(self, task: str, cell_id: str) -> tuple[pd.DataFrame, float]:
        """A cell's assignments, and the seconds its clustering took."""
        path = self._result(task, cell_id, ".assignments.parquet")
        frame = read_table(path, ASSIGNMENT_COLUMNS)
        metadata = ds.dataset(path).schema.metadata or {}
        return frame, float(metadata.get(b"seconds", b"nan"))

    def save_scores(self, task: str, cell_id: str, scores: pd.DataFrame) -> None:
        """Store a cell's scores: split, level, metric, value, replicates."""
        frame = scores.assign(cell_id=cell_id)[[*SCORE_COLUMNS, "replicates"]]
        table = pa.Table.from_pandas(frame, schema=SCORES, preserve_index=False)
        write_parquet_table(self._result(task, cell_id, ".scores.parquet"), table)

    def save_cell(self, record: dict[str, Any]) -> None:
        """Store a cell's provenance. Written last: a cell without it does not count."""
        absent = set(CELL_COLUMNS) - set(record)
        assert not absent, absent
        write_json(self._result(record["task"], record["cell_id"], ".json"), record)

    def cell(self, task: str, cell_id: str) -> dict[str, Any] | None:
        """A cell's record; None if it is absent or damaged: the cell counts as missing."""
        return read_cell(self._result(task, cell_id, ".json"))

    def scored_tasks(self) -> list[str]:
        """The tasks that have cells, by name."""
        return sorted(path.name for path in self.folder.glob("results/*") if path.is_dir())

    def cells(self, *tasks: str) -> pd.DataFrame:
        """The cells of some tasks, by default of all; one row each, with CELL_COLUMNS."""
        names = sorted(set(tasks)) if tasks else self.scored_tasks()
        return read_cells(self.folder / "results", self._index("cells"), names)

    def cells_by_id(self, task: str, cell_ids: Iterable[str]) -> pd.DataFrame:
        """Those of the given cells that are stored."""
        return table_of(self.cell(task, cell_id) for cell_id in cell_ids)

    def scores(
        self, cells: pd.DataFrame, metrics: Iterable[str] | None = None, replicates: bool = False
    ) -> pd.DataFrame:
        """Scores of the given cells that are done: cell_id, split, level, metric, value; and
        replicates if they are asked for.

        Raises
        ------
        TraubeError
            If a file of them is absent or damaged.
        """
        columns = [*SCORE_COLUMNS, "replicates"] if replicates else list(SCORE_COLUMNS)
        metrics = None if metrics is None else list(metrics)
        tables = []
        for task, rows in cells[cells["status"] == "done"].groupby("task", sort=False):
            folder, index = self.folder / "results" / str(task), Index(self._index("scores") / str(task))
            tables.append(read_scores(folder, index, rows["cell_id"].tolist(), metrics, columns))
        return pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame(columns=columns)

    def _index(self, kind: str) -> Path:
        return self.folder / "index" / kind

    # intermediate results and tables

    def reduction(self, reduction_id: str) -> Path:
        return self.folder / "reductions" / f"{reduction_id}.npy"

    def matrix(self, task: str, fingerprint: str) -> Path:
        """Path, without its suffix, of a corpus-bound model's vectors."""
        return self.folder / "matrices" / task / fingerprint

    def table(self, name: str) -> Path:
        return self.folder / "tables" / name


def write_parquet_table(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    from traube.foundation.files import atomic

    with atomic(path) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)
