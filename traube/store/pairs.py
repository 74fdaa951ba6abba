"""Where pair tasks and their cells are kept, below the store's folder `pairs/`.

::

    tasks/<task>/{corpus,pairs}.parquet, manifest.json    the frozen pair task
    results/<task>/<cell>.parquet, .json                  a cell: a similarity for each pair; its scores
                                                          and where they come from
    choices/<task>/<model>.json                           what a language model chose in multiple choice

A cell's record is written last. What is damaged counts as absent, and is made again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from traube.foundation.errors import TraubeError
from traube.foundation.files import remove, write_parquet, write_sealed_json
from traube.foundation.hashing import digest
from traube.foundation.seals import is_sound, read_sealed_json
from traube.store.store import Store
from traube.tasks.scored_pairs import PAIR_COLUMNS, PairCard, PairTask
from traube.tasks.task import CORPUS_COLUMNS, read_table

# Raise when the same vectors and gold scores would be scored otherwise.
PAIRS_VERSION = "1"
CELL = (
    "cell_id", "task", "model", "fingerprint", "comparison", "history", "part", "data_version", "numerics", "code_version",
    "library_versions", "run_id", "created", "scores",
)  # fmt: skip
ALIKE = ("pair", "alike")
CHOICE = ("task", "model", "fingerprint", "data_version", "library_versions", "created", "rows")


@dataclass(frozen=True)
class PairCell:
    """A pair task under a model and a comparison: what the number depends on.

    Attributes
    ----------
    comparison : how vectors are compared
    history : whether it is joined to both texts
    numerics : what computes the similarities, with versions
    """

    task: str
    model: str
    fingerprint: str
    comparison: str
    history: bool
    part: str
    data_version: str
    numerics: tuple[tuple[str, str], ...]

    @property
    def cell_id(self) -> str:
        return digest([PAIRS_VERSION, vars(self)])


@dataclass(frozen=True)
class PairStore:
    """Pair tasks and their cells below `folder`."""

    folder: Path

    @classmethod
    def of(cls, store: Store) -> "PairStore":
        return cls(store.folder / "pairs")

    def _task(self, name: str) -> Path:
        return self.folder / "tasks" / name

    def _result(self, task: str, cell_id: str, suffix: str) -> Path:
        return self.folder / "results" / task / f"{cell_id}{suffix}"

    # tasks

    def save(self, task: PairTask, raw_version: str) -> None:
        """Store a pair task's tables. It still counts as absent: see `complete`."""
        remove(self._task(task.name) / "manifest.json")
        write_parquet(self._task(task.name) / "pairs.parquet", task.pairs)
        write_parquet(self._task(task.name) / "corpus.parquet", task.corpus)
        write_sealed_json(
            self._task(task.name) / "read.json", {"raw_version": raw_version, "card": task.card.model_dump(mode="json")}
        )

    def read(self, name: str) -> PairTask:
        """The tables of a pair task, whether its checks are done or not.

        Raises
        ------
        TraubeError
            If it has not been read yet, or a file of it is damaged.
        """
        entry = read_sealed_json(self._task(name) / "read.json", ("raw_version", "card"))
        if not entry:
            raise TraubeError(
                f"pair task '{name}' has not been read yet; run the job `datasets`, or `traube pairs -t {name}`"
            )
        pairs = read_table(self._task(name) / "pairs.parquet", PAIR_COLUMNS)
        corpus = read_table(self._task(name) / "corpus.parquet", CORPUS_COLUMNS)
        return PairTask(PairCard.model_validate(entry["card"]), corpus, pairs)

    def complete(self, name: str) -> None:
        """From now on the task is there: its tables are stored, and their checks are done."""
        entry = read_sealed_json(self._task(name) / "read.json", ("raw_version", "card"))
        write_sealed_json(self._task(name) / "manifest.json", {"raw_version": (entry or {}).get("raw_version", "")})

    def checks(self, name: str) -> Path:
        """Where it is kept what the checks of a pair task's tables found."""
        return self._task(name) / "checks.json"

    def raw_version(self, name: str) -> str | None:
        """Of the raw data of a stored pair task whose checks are done; None if there is none."""
        entry = read_sealed_json(self._task(name) / "manifest.json", ("raw_version",))
        return str(entry["raw_version"]) if entry else None

    def task(self, name: str) -> PairTask | None:
        """A stored pair task whose checks are done; None if there is none."""
        return None if self.raw_version(name) is None else self.read(name)

    # cells

    def save_cell(self, cell: PairCell, alike: pd.DataFrame, about: dict[str, Any]) -> None:
        """Store a cell: its similarities (pair, alike), then its record.

        Parameters
        ----------
        about : the rest of CELL
        """
        write_parquet(self._result(cell.task, cell.cell_id, ".parquet"), alike[list(ALIKE)])
        own = {**vars(cell), "numerics": dict(cell.numerics), "cell_id": cell.cell_id, "code_version": PAIRS_VERSION}
        record = {**own, **about}
        assert set(CELL) == set(record), set(CELL) ^ set(record)
        write_sealed_json(self._result(cell.task, cell.cell_id, ".json"), record)

    def cell(self, task: str, cell_id: str) -> dict[str, Any] | None:
        """A cell's record; None if a file of it is absent or damaged."""
        record = _whole(self._result(task, cell_id, ".json"), CELL)
        return record if record and is_sound(self._result(task, cell_id, ".parquet")) else None

    def alike(self, task: str, cell_id: str) -> pd.DataFrame:
        """A cell's similarities: pair, alike."""
        return read_table(self._result(task, cell_id, ".parquet"), ALIKE)

    def models(self, task: str) -> list[str]:
        """The models of which a task has cells, by name."""
        records = (_whole(path, CELL) for path in sorted((self.folder / "results" / task).glob("*.json")))
        return sorted({str(record["model"]) for record in records if record})

    def save_choices(self, task: PairTask, model: str, accuracies: pd.DataFrame, about: dict[str, Any]) -> None:
        """Store how often a language model chose right.

        Parameters
        ----------
        accuracies : what `choose` gives
        about : the rest of CHOICE
        """
        rows = accuracies.astype(object).where(accuracies.notna(), None).to_dict("records")
        record = {**about, "task": task.name, "model": model, "data_version": task.data_version, "rows": rows}
        assert set(CHOICE) == set(record), set(CHOICE) ^ set(record)
        write_sealed_json(self.folder / "choices" / task.name / f"{digest([model])}.json", record)

    def choices(self, task: PairTask) -> pd.DataFrame:
        """How often language models chose right on a task's present data: model, then what
        `choose` gives.
        """
        files = sorted((self.folder / "choices" / task.name).glob("*.json"))
        records = [record for path in files if (record := _whole(path, CHOICE))]
        current = [record for record in records if record["data_version"] == task.data_version]
        return pd.DataFrame([{"model": record["model"], **row} for record in current for row in record["rows"]])

    def scores(self, cells: Iterable[PairCell]) -> pd.DataFrame:
        """The scores of those of some cells that are stored: task, model, comparison, history,
        part, then what `score_pairs` gives.
        """
        named = ("task", "model", "comparison", "history", "part")
        rows = [
            {**{name: getattr(cell, name) for name in named}, **row}
            for cell in cells
            if (record := self.cell(cell.task, cell.cell_id))
            for row in record["scores"]
        ]
        return pd.DataFrame(rows)


def _whole(path: Path, columns: tuple[str, ...]) -> dict[str, Any] | None:
    """A record that has all its columns; None if it is absent or damaged."""
    record = read_sealed_json(path, columns)
    return record if record and set(columns) <= set(record) else None
