"""Multiple choice by a model's cosine: one cell for each model, accuracy over dialogues."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
from choices.readers import CHOICES

from traube._core.progress import Progress
from traube._pipeline.cell import Cell
from traube._pipeline.events import Encoded, Scored
from traube._pipeline.kinds.kind import Kind, Summary, Work
from traube._pipeline.lookup import Lookup
from traube._pipeline.pair_scores import TEST, compare_pairs, embed_pairs
from traube._pipeline.request import Request
from traube._pipeline.workbench import Workbench
from traube._storage import Storage
from traube.models import Model, fingerprint_on
from traube.tasks.scored_pairs import ALL, PAIR_COLUMNS, select_pairs
from traube.tasks.stored import Manifest
from traube.tasks.task import Stage, Task

VERSION = "1"


@dataclass(frozen=True)
class Choice:
    reducer: ClassVar[str] = "none"
    clusterer: ClassVar[str] = "cosine"
    name: ClassVar[str] = "choice"
    numerics: ClassVar[dict[str, dict[str, str]]] = {}

    def params(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class ChoiceCell(Cell[Choice]):
    code_version: ClassVar[str] = VERSION
    scoring_version: ClassVar[str] = VERSION
    stage: ClassVar[Stage] = Stage.SCORES

    @property
    def identity(self) -> list[Any]:
        return [VERSION, self.task, self.data_version, self.model, self.fingerprint, self.numerics]


class ChoicesKind(Kind[Choice]):
    type = CHOICES
    scoring_version = VERSION
    mark = "choices"
    replaced_by = ("task", "model")
    encodes = "texts of dialogues and candidates"
    columns = PAIR_COLUMNS
    table_holds = "the candidates of each dialogue"
    scores_say = "How often the most similar candidate is the best one."

    def cells(self, manifest: Manifest, model: Model, request: Request) -> list[ChoiceCell]:
        numerics, version = tuple(sorted(model.numerics.items())), manifest.data_version
        named = manifest.card.name, manifest.card.family, model.name, fingerprint_on(model, manifest.corpus_version)
        return [ChoiceCell(*named, Choice(), None, self.mark, TEST, version, numerics, model.precision)]

    def list_texts(self, task: Task) -> list[str]:
        return task.texts

    def encode(self, task: Task, model: Model, workbench: Workbench, progress: Progress) -> Encoded:
        vectors, _ = embed_pairs(task, model, workbench, progress)
        return Encoded(task.name, model.name, len(vectors), vectors.dimensions, None, "cpu", model.fingerprint, [])

    def score(self, work: Work[Choice]) -> Iterator[Scored]:
        task = select_pairs(work.task, TEST)
        for cell in work.cells:
            similarity = compare_pairs(task, work.model, work.workbench, "cosine", work.progress)
            rows = task.rows.assign(similarity=similarity).groupby("dialogue")
            right = [group.loc[group["similarity"].idxmax(), "score"] == group["score"].max() for _, group in rows]
            scores = pd.DataFrame([(ALL, "", "accuracy", sum(right) / len(right))])
            scores = scores.set_axis(["level", "split", "metric", "value"], axis="columns")
            work.recorder(work.model.device).save_pair_scores(cell, scores)
            yield Scored(cell, scores)

    def is_current(self, cell: Mapping[str, Any]) -> bool:
        return bool(cell["code_version"] == VERSION)

    def describe_rows(self, rows: pd.DataFrame) -> dict[str, Any]:
        return {"dialogues": rows["dialogue"].nunique()}

    def name_methods(self, cells: pd.DataFrame) -> "pd.Series[str]":
        return pd.Series(Choice.name, cells.index)

    def leaderboard_rows(self, storage: Storage, cells: pd.DataFrame, lookup: Lookup) -> pd.DataFrame:
        scores = storage.read_scores(cells)[["cell_id", "level", "metric", "value"]]
        return cells.assign(splits=1, seeds=1, missing=0).merge(scores.rename(columns={"value": "mean"}))

    def summarize(self, storage: Storage, cell_ids: Sequence[str]) -> Summary:
        table = storage.read_scores(storage.read_cells(ids=cell_ids))
        metrics = dict(zip(table["metric"], table["value"], strict=True))
        return Summary(table, metrics, metrics)


KIND = ChoicesKind()
