"""Events of a run. What an event reports is stored before it is yielded."""

from dataclasses import dataclass
from typing import ClassVar, NoReturn, Self

import pandas as pd

from traube._core import errors
from traube._pipeline.cell import Cell
from traube._pipeline.stages import VECTOR_CHECKS, VectorCheck


@dataclass(frozen=True)
class Encoded:
    """A task's texts have vectors under a model."""

    task: str
    model: str
    texts: int  # number of scored texts
    dimensions: int  # length of their vectors
    encoded: int | None  # number of texts that had to be encoded; None of a pair task, where they are not counted
    device: str
    fingerprint: str  # of the model on the task's corpus
    checks: list[VectorCheck]
    long_texts: str = ""  # how many are longer than the model reads, in one line; empty if none is

    @property
    def blocking(self) -> list[VectorCheck]:
        """Failed checks that stop the task under this model."""
        return [check for check in self.checks if check.blocking and not check.passed]

    def require(self) -> None:
        """Raise an error if a check that stops the task failed."""
        if self.blocking:
            name = self.blocking[0].name
            raise errors.Failed(
                f"{self.task} x {self.model}: its vectors fail the check '{name}': {VECTOR_CHECKS[name]}"
            )


@dataclass(frozen=True)
class Clustered:
    """A cell's clusters are stored."""

    cell: Cell
    assignments: pd.DataFrame  # split, level, item, cluster
    reason: str = ""  # a warning about them, in one line; mostly empty
    status: ClassVar[str] = "done"

    def result(self) -> Self:
        """Return the event itself; that of a failed cell raises its reason."""
        return self


@dataclass(frozen=True)
class Scored:
    """A cell's scores and its record are stored."""

    cell: Cell
    scores: pd.DataFrame  # split, level, metric, value; of a clustering with cell_id and replicates
    reason: ClassVar[str] = ""
    status: ClassVar[str] = "done"

    def result(self) -> Self:
        """Return the event itself; that of a failed cell raises its reason."""
        return self


@dataclass(frozen=True)
class Failed:
    """A cell has no scores, as its record says: it is failed, unsupported or unavailable (does not fit the memory)."""

    cell: Cell
    status: str
    reason: str  # in one line

    def result(self) -> NoReturn:
        """Raise the reason as a TraubeError."""
        raise errors.Failed(f"{self.cell.title}: {self.status}: {self.reason}")
