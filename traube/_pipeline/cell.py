"""Cells: task x model x procedure x seed x protocol. Each kind of task has its own, in `traube._pipeline.kinds`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol

from typing_extensions import TypeVar

from traube._core.hashing import digest
from traube.tasks.task import Split, Stage


class Procedure(Protocol):
    """The way from a model's vectors to scores, such as a method; `reducer`, `clusterer` and `params` are stored."""

    @property
    def reducer(self) -> str:
        """Name of the reducer."""

    @property
    def clusterer(self) -> str:
        """Name of the clusterer, or of what stands in its place."""

    @property
    def name(self) -> str:
        """Name, as people know it."""

    @property
    def numerics(self) -> dict[str, dict[str, str]]:
        """Code and libraries, with versions, by what they compute."""

    def params(self) -> dict[str, Any]:
        """Return everything that identifies it; JSON can write it."""


P = TypeVar("P", bound=Procedure, covariant=True, default=Procedure)


@dataclass(frozen=True)
class Cell(ABC, Generic[P]):
    """One number of the benchmark before it is split up by split and metric."""

    task: str
    family: str
    model: str
    fingerprint: str  # of the model on this task
    method: P
    seed: int | None  # None where no part of the method is random: then all seeds are one cell
    protocol: str
    split_set: str
    data_version: str
    model_numerics: tuple[tuple[str, str], ...] = ()  # what computes the model's vectors, with versions
    precision: str = ""  # in which they are computed; empty for a model without a network
    clusters: int | None = None  # the card's number, for texts without labels
    code_version: ClassVar[str]
    scoring_version: ClassVar[str]

    @property
    @abstractmethod
    def stage(self) -> Stage:
        """Stage of the graph at which the cell is computed."""

    @property
    @abstractmethod
    def identity(self) -> list[Any]:
        """Everything that the scores depend on."""

    @cached_property
    def cell_id(self) -> str:
        """Content hash of everything that the scores depend on."""
        return digest(self.identity)

    def count_clusters(self, split: Split) -> int | None:
        """Return the number of clusters of a split, by its labels or the card; None where neither says it."""
        return split.classes or self.clusters

    @property
    def title(self) -> str:
        """Task, model, method and seed, for messages."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.task} x {self.model} x {self.method.name}{seed}"

    @property
    def numerics(self) -> dict[str, dict[str, str]]:
        """Code and libraries, with versions, that compute the cell, by stage."""
        return {"model": dict(self.model_numerics), **self.method.numerics}
