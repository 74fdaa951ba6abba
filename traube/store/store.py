"""Where results are kept: parquet tables below one folder, written whole, so that a crash
leaves nothing half done.

::

    tasks/<task>/{corpus,records,splits}.parquet, manifest.json    the frozen task
    results/<task>/<cell>.{assignments,scores}.parquet, .json      a cell: predictions, metrics with
                                                                   replicates, provenance
    reductions/<id>.npy                                            reduced vectors of a split
    trainings/<cell>/                                              what the training of a cell goes on
                                                                   from, until it is stored
    histories/<task>/<cell>.json                                   how such a training went
    representations/<task>/<cell>[.tsne].npy                       what some texts became in it, and
                                                                   where a figure shows them
    matrices/<task>/<fingerprint>.{npy,npz}                        vectors of corpus-bound models
    index/{cells,scores,tables}/<task>/*.parquet                   what was read of results/ and
                                                                   found sound; may be deleted
    costs/<task>/{<cell>,<fingerprint>}.json, costs/_reductions/   seconds and memory, as measured
    tables/                                                        the leaderboard, rebuilt whole
    claims/<task>/<model>.lock                                     held by who computes their cells

Each file holds a checksum of itself (`traube.foundation.seals`). What is damaged counts as absent, and is made again.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from traube.foundation import share
from traube.foundation.errors import TraubeError
from traube.foundation.files import remove, sealed, write_parquet, write_sealed_json
from traube.foundation.hashing import frame_digest
from traube.foundation.seals import is_sound, read_sealed_json
from traube.store.cells import CELL_COLUMNS, Cells, read_cell, read_cells, table_of
from traube.store.index import Index
from traube.store.scores import SCORE_COLUMNS, SCORES, read_scores
from traube.tasks.task import CORPUS_COLUMNS, SPLIT_COLUMNS, Task, TaskCard, data_version, read_table

VERSIONS = ("raw_version", "corpus_version", "splits_version")
PLACES = ".tsne.npy"  # of representations in a figure
REDUCTIONS = "_reductions"  # no task's name
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
class Cost:
    """What it took to encode or to cluster some texts.

    Attributes
    ----------
    memory : megabytes at the highest point; nan where it cannot be measured
    """

    texts: int
    seconds: float
    memory: float


@dataclass(frozen=True)
class Store:
    """Tables below `folder`. Where it is shared, opening it brings in what others have written."""

    folder: Path

    def __post_init__(self) -> None:
        share.refresh(self.folder)

    def claim(self, task: str, model: str) -> Path:
        """What is locked by whoever computes a task's cells of a model, so that nobody computes them
        twice.
        """
        return self.folder / "claims" / task / quote(model, safe="")

    # tasks

    def _task(self, name: str) -> Path:
        return self.folder / "tasks" / name

    def save_corpus(self, name: str, corpus: pd.DataFrame, records: pd.DataFrame, raw_version: str) -> str:
        """Store a task's texts and the records that splits are drawn from; return the
        content hash of the corpus. A task that is stored with these already stays as it is: somebody
        else may have read it at the same time, and work with it.
        """
        manifest = self.manifest(name)
        if manifest and manifest.raw_version == raw_version and self.is_sound(name):
            stored = frame_digest(self.corpus(name)), frame_digest(self.records(name))
            if stored == (frame_digest(corpus), frame_digest(records)):
                return stored[0]
        # the task counts as absent until its splits are there too
        remove(self._task(name) / "manifest.json")
        write_parquet(self._task(name) / "records.parquet", records)
        write_parquet(self._task(name) / "corpus.parquet", corpus)
        write_sealed_json(self._task(name) / "read.json", {"raw_version": raw_version})
        return frame_digest(corpus)

    def save_splits(self, card: TaskCard, splits: pd.DataFrame) -> Manifest:
        """Store a task's splits. The task still counts as absent: see `complete`."""
        read = read_sealed_json(self._task(card.name) / "read.json", ("raw_version",))
        if not read:
            raise TraubeError(
                f"task '{card.name}': its corpus was not read whole; `traube run --task {card.name}` reads it again"
            )
        write_parquet(self._task(card.name) / "splits.parquet", splits)
        return Manifest(read["raw_version"], frame_digest(self.corpus(card.name)), frame_digest(splits))

    def complete(self, card: TaskCard, manifest: Manifest) -> None:
        """From now on the task is there: its tables are stored, and their checks are done."""
        write_sealed_json(self._task(card.name) / "manifest.json", {**vars(manifest), "card": card.model_dump()})

    def checks(self, name: str) -> Path:
        """Where it is kept what the checks of a task's tables found."""
        return self._task(name) / "checks.json"

    def corpus(self, name: str) -> pd.DataFrame:
        return read_table(self._task(name) / "corpus.parquet", CORPUS_COLUMNS)

    def records(self, name: str) -> pd.DataFrame:
        return read_table(self._task(name) / "records.parquet", ("text_id",))

    def manifest(self, name: str) -> Manifest | None:
        """What is stored of a task; None if it has not been read yet, or this is damaged: then it is read again."""
        entry = self._about(name)
        return Manifest(**{version: entry[version] for version in VERSIONS}) if entry else None

    def card(self, name: str) -> TaskCard | None:
        """The card that a stored task was read with."""
        try:
            return TaskCard.model_validate(entry["card"]) if (entry := self._about(name)) else None
        except ValueError:
            return None

    def _about(self, name: str) -> dict[str, Any] | None:
        """A task's versions and card; None if they are absent or damaged."""
        entry = read_sealed_json(self._task(name) / "manifest.json", (*VERSIONS, "card"))
        return entry if entry and {*VERSIONS, "card"} <= set(entry) else None

    def is_sound(self, name: str) -> bool:
        """Whether a task is stored, and its tables are what was written."""
        tables = [self._task(name) / f"{table}.parquet" for table in ("corpus", "records", "splits")]
        return self._about(name) is not None and all(map(is_sound, tables))

    def task(self, card: TaskCard) -> Task:
        """A stored task.

        Raises
        ------
        TraubeError
            If it has not been read yet or a file of it is damaged.
        """
        if self.manifest(card.name) is None:
            raise TraubeError(f"task '{card.name}' has not been read yet; `traube run --task {card.name}` reads it")
        splits = read_table(self._task(card.name) / "splits.parquet", SPLIT_COLUMNS)
        return Task(card, self.corpus(card.name), splits)

    # results

    def _result(self, task: str, cell_id: str, kind: str) -> Path:
        return self.folder / "results" / task / f"{cell_id}{kind}"

    def has_assignments(self, task: str, cell_id: str) -> bool:
        return self._result(task, cell_id, ".assignments.parquet").exists()

    def sound_assignments(self, task: str, cell_id: str) -> bool:
        """Whether a cell's assignments are there and are what was written; damaged ones are
        removed, to be made again.
        """
        path = self._result(task, cell_id, ".assignments.parquet")
        if is_sound(path):
            return True
        path.unlink(missing_ok=True)
        return False

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

    def has_scores(self, task: str, cell_id: str) -> bool:
        """Whether a cell's scores are there and are what was written."""
        return is_sound(self._result(task, cell_id, ".scores.parquet"))

    def save_cell(self, record: dict[str, Any]) -> None:
        """Store a cell's provenance. Written last: a cell without it does not count."""
        absent = set(CELL_COLUMNS) - set(record)
        assert not absent, absent
        write_sealed_json(self._result(record["task"], record["cell_id"], ".json"), record)

    def cell(self, task: str, cell_id: str) -> dict[str, Any] | None:
        """A cell's record; None if a file of the cell is absent or damaged: it counts as missing."""
        return read_cell(self.folder / "results" / task, cell_id)

    def scored_tasks(self) -> list[str]:
        """The tasks that have cells, by name."""
        return sorted(path.name for path in self.folder.glob("results/*") if path.is_dir())

    def cells(self, *tasks: str) -> pd.DataFrame:
        """The cells of some tasks, by default of all; one row each, with CELL_COLUMNS."""
        return self.read(*tasks).table

    def damaged(self, *tasks: str) -> dict[str, list[Path]]:
        """The files of cells that are not what was written, by task; by default of all tasks."""
        return self.read(*tasks).damaged

    def read(self, *tasks: str) -> Cells:
        """The cells of some tasks, by default of all, and the files of them that are damaged."""
        return read_cells(self.folder / "results", self.folder / "index", sorted(set(tasks)) or self.scored_tasks())

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
            folder, index = self.folder / "results" / str(task), Index(self.folder / "index" / "scores" / str(task))
            tables.append(read_scores(folder, index, rows["cell_id"].tolist(), metrics, columns))
        return pa.concat_tables(tables).to_pandas() if tables else pd.DataFrame(columns=columns)

    # intermediate results and tables

    def reduction(self, reduction_id: str) -> Path:
        return self.folder / "reductions" / f"{reduction_id}.npy"

    def training(self, cell_id: str) -> Path:
        """Folder of what the training of a cell goes on from."""
        return self.folder / "trainings" / cell_id

    def _history(self, task: str, cell_id: str) -> Path:
        return self.folder / "histories" / task / f"{cell_id}.json"

    def save_histories(self, task: str, cell_id: str, histories: Mapping[str, Any]) -> None:
        """Keep how a cell's clusterer was trained: by split and level, an entry for each epoch."""
        write_sealed_json(self._history(task, cell_id), {"histories": dict(histories)})

    def histories(self, task: str, cell_id: str) -> dict[str, Any]:
        """How a cell's clusterer was trained; empty of one that trains nothing."""
        kept = read_sealed_json(self._history(task, cell_id), ("histories",))
        return kept["histories"] if kept else {}

    def representations(self, task: str, cell_id: str) -> Path:
        """Path of what a training made of some texts of the cell's largest split."""
        return self.folder / "representations" / task / f"{cell_id}.npy"

    def files(self, task: str, cell_id: str) -> list[Path]:
        """All files of a cell that there may be, the record first: without it, it is none."""
        results = [self._result(task, cell_id, kind) for kind in (".json", ".scores.parquet", ".assignments.parquet")]
        kept = self.representations(task, cell_id)
        return [*results, self._history(task, cell_id), kept, kept.with_suffix(PLACES)]

    def matrix(self, task: str, fingerprint: str) -> Path:
        """Path, without its suffix, of a corpus-bound model's vectors."""
        return self.folder / "matrices" / task / fingerprint

    def save_cost(self, place: str, key: str, cost: Cost) -> None:
        """Keep what something took, unless it was measured on more texts before.

        Parameters
        ----------
        place, key : a task's name, and a cell's id or the fingerprint of the model that encoded its
            texts; or REDUCTIONS and a reduction's id
        """
        before = self.cost(place, key)
        if before is None or before.texts <= cost.texts:
            memory = None if math.isnan(cost.memory) else cost.memory
            write_sealed_json(self._cost(place, key), {**vars(cost), "memory": memory})

    def cost(self, place: str, key: str) -> Cost | None:
        """What something took; None where that was not measured."""
        kept = read_sealed_json(self._cost(place, key), ("texts", "seconds", "memory"))
        if kept is None:
            return None
        return Cost(kept["texts"], kept["seconds"], float("nan") if kept["memory"] is None else kept["memory"])

    def _cost(self, place: str, key: str) -> Path:
        return self.folder / "costs" / place / f"{key}.json"

    def table(self, name: str) -> Path:
        return self.folder / "tables" / name


def write_parquet_table(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    with sealed(path) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)
