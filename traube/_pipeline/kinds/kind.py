"""The interface of a kind of task."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

import pandas as pd
from typing_extensions import TypeVar

from traube._core.progress import SILENT, Progress
from traube._pipeline.cell import Cell, Procedure
from traube._pipeline.events import Clustered, Encoded, Failed, Scored
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Protocol
from traube._pipeline.present import keep_present_models
from traube._pipeline.record import Recorder
from traube._pipeline.request import Request
from traube._pipeline.workbench import Workbench
from traube._storage import Storage
from traube.models import Model
from traube.tasks.stored import Manifest
from traube.tasks.task import Task, TaskType

P = TypeVar("P", bound=Procedure, default=Procedure)


@dataclass(frozen=True)
class Work(Generic[P]):
    """Cells of one task and a model that are to be computed, and what computes them."""

    task: Task
    model: Model
    cells: Sequence[Cell[P]]
    workbench: Workbench
    progress: Progress = SILENT
    run_id: str = ""  # of the run that requested the cells; empty where nobody keeps runs

    def recorder(self, device: str) -> Recorder:
        """Return what writes the cells, whose vectors a device computes."""
        return Recorder(self.workbench.storage, device, self.run_id, self.workbench.lease)


class Kind(ABC, Generic[P]):
    """A kind of task: its cells, how they are computed, which of them count, and what is shown of them."""

    type: ClassVar[TaskType]
    scoring_version: ClassVar[str]  # of the metrics: cells that others scored are scored again
    # what stored cells have in place of a protocol; None for the cells of the protocols of params.yaml
    mark: ClassVar[str | None] = None
    # columns of stored cells: one that equals an outdated one in all of them has taken its place
    replaced_by: ClassVar[tuple[str, ...]]
    signed_metrics: ClassVar[Collection[str]] = ()  # those that reach from -1 to 1; others begin at 0
    # True if scores have replicates by split, by which `traube.comparison` ranks models: such tasks have standings;
    # else `leaderboard_rows` and `summarize` say what tables and MLflow show
    is_ranked: ClassVar[bool] = False
    encodes: ClassVar[str]  # the texts that models encode, in words
    checks_vectors: ClassVar[bool] = False  # whether vectors are checked before they are used
    columns: ClassVar[Mapping[str, str]]  # of the task's table, and what each means
    table_holds: ClassVar[str]  # the table's content, in words
    scores_say: ClassVar[str]  # what scores tell, in a sentence

    # cells

    def explain_refusal(self, model: Model) -> str | None:
        """Return why a model cannot do such tasks, in one line; None if it can."""
        return None

    @abstractmethod
    def cells(self, manifest: Manifest, model: Model, request: Request) -> Sequence[Cell[P]]:
        """Return all cells that a request asks of a stored task and a model, whether stored or not."""

    @abstractmethod
    def list_texts(self, task: Task) -> list[str]:
        """Return the texts of a task that models encode."""

    # computation

    @abstractmethod
    def encode(self, task: Task, model: Model, workbench: Workbench, progress: Progress) -> Encoded:
        """Encode the texts of a task that are not encoded yet."""

    def cluster(self, work: Work[P]) -> Iterator[Clustered | Failed]:
        """Cluster cells; a kind that clusters nothing is given none."""
        return iter(())

    @abstractmethod
    def score(self, work: Work[P]) -> Iterator[Scored | Failed]:
        """Score cells, those that have to be clustered once they are."""

    # what counts

    @abstractmethod
    def is_current(self, cell: Mapping[str, Any]) -> bool:
        """Return whether a stored cell was computed by the code and libraries that are installed now."""

    def list_choices(self, cells: pd.DataFrame, protocols: Mapping[str, Protocol]) -> Sequence[bool | None]:
        """Return whether each stored cell is somebody's own choice beside its protocol; None if it does not count."""
        return [False if self.is_current(cell) else None for cell in cells.to_dict("records")]

    def keep_weights(
        self, cells: pd.DataFrame, storage: Storage, protocols: Mapping[str, Protocol], lookup: Lookup
    ) -> pd.DataFrame:
        """Return the cells of each model as it is now."""
        return keep_present_models(cells, storage, protocols, lookup)

    # what is shown

    @abstractmethod
    def describe_rows(self, rows: pd.DataFrame) -> dict[str, Any]:
        """Return numbers and tables that describe a task's table."""

    def name_methods(self, cells: pd.DataFrame) -> "pd.Series[str]":
        """Return the name of each stored cell's method, as people know it."""
        return cells["clusterer"]

    def leaderboard_rows(self, storage: Storage, cells: pd.DataFrame, lookup: Lookup) -> pd.DataFrame:
        """Return the rows of current cells in the leaderboard, where the kind is not ranked.

        To the columns of the cells, which have method, are added level, metric, mean, splits, seeds and missing; and
        others of `traube._reports.tables.COLUMNS` where they are known, such as low and high.
        """
        raise NotImplementedError

    def summarize(self, storage: Storage, cell_ids: Sequence[str]) -> "Summary":
        """Return what is shown of a model's cells on a task, where the kind is not ranked."""
        raise NotImplementedError


@dataclass(frozen=True)
class Summary:
    """The scores of a model's cells on a task, as MLflow and Dagster show them."""

    table: pd.DataFrame
    metrics: dict[str, float]  # of MLflow's run
    main: dict[str, float]  # those that Dagster plots across models
