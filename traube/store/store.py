"""Where results are kept: parquet tables below one folder, written whole, so that a crash leaves nothing half done.

::

    tasks/<task>/{corpus,records,splits}.parquet, manifest.json    the frozen task
    results/<task>/<cell>.{assignments,scores}.parquet, .json      a cell: predictions, metrics with replicates, provenance
    reductions/<id>.npy                                            reduced vectors of a split
    matrices/<task>/<fingerprint>.{npy,npz}                        vectors of corpus-bound models
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
from traube.tasks.task import CORPUS_COLUMNS, SPLIT_COLUMNS, Task, TaskCard, data_version, read_table

CELL_COLUMNS = (
    "cell_id", "task", "family", "model", "fingerprint", "reducer", "clusterer", "params", "seed", "protocol", "data_version",
    "clusters", "code_version", "scoring_version", "numerics", "library_versions", "device", "run_id", "seconds", "status",
    "reason", "created",
)  # fmt: skip
# what cells of before do not say: they are kept, and do not count any more
SINCE: dict[str, Any] = {"clusters": None, "numerics": {}}
SCORE_COLUMNS = ("cell_id", "split", "level", "metric", "value")
SCORES = pa.schema(
    {
        **dict.fromkeys(("cell_id", "split", "level", "metric"), pa.string()),
        "value": pa.float64(),
        "replicates": pa.list_(pa.float32()),  # the value without each group of texts (`traube.metrics.significance`)
    }
)
CHECKED = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
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
        """Store a task's texts and the records that splits are drawn from; return the content hash of the corpus."""
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
        """Whether a cell's assignments are there and can be read; damaged ones are removed, to be made again."""
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
        path = self._result(task, cell_id, ".json")
        try:
            record = json.loads(path.read_text())
        except (FileNotFoundError, ValueError):
            return None  # absent or damaged: the cell counts as missing
        if not isinstance(record, dict):
            return None
        record = {**SINCE, **record}
        return record if set(CELL_COLUMNS) <= set(record) else None

    def cells(self, task: str = "*") -> pd.DataFrame:
        """All cells, or those of one task; one row each."""
        return self._table((path.parent.name, path.stem) for path in sorted(self.folder.glob(f"results/{task}/*.json")))

    def cells_by_id(self, task: str, cell_ids: Iterable[str]) -> pd.DataFrame:
        """Those of the given cells that are stored."""
        return self._table((task, cell_id) for cell_id in cell_ids)

    def _table(self, names: Iterable[tuple[str, str]]) -> pd.DataFrame:
        found = [self.cell(task, cell_id) for task, cell_id in names]
        return pd.DataFrame([record for record in found if record], columns=list(CELL_COLUMNS))

    def scores(
        self, cells: pd.DataFrame, metrics: Iterable[str] | None = None, replicates: bool = False
    ) -> pd.DataFrame:
        """Scores of the given cells that are done: cell_id, split, level, metric, value; and replicates if they are asked for.

        Raises
        ------
        TraubeError
            If a file of them is absent or damaged.
        """
        columns = [*SCORE_COLUMNS, "replicates"] if replicates else list(SCORE_COLUMNS)
        done = cells[cells["status"] == "done"]
        files = [str(self._result(t, c, ".scores.parquet")) for t, c in zip(done["task"], done["cell_id"], strict=True)]
        if not files:
            return pd.DataFrame(columns=columns)
        wanted = None if metrics is None else ds.field("metric").isin(list(metrics))
        try:
            dataset = ds.dataset(files, SCORES, format=CHECKED)
            return dataset.to_table(columns=columns, filter=wanted).to_pandas()
        except Exception:  # whatever a damaged file raises; read one by one, it is named
            for file in map(Path, files):
                try:
                    read_table(file, SCORE_COLUMNS)
                except TraubeError as error:
                    cell = file.with_name(file.name.replace(".scores.parquet", ".json"))
                    raise TraubeError(f"{error}; delete {cell} and run again") from None
            raise

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
