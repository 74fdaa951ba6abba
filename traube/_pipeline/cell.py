"""Cells: task x model x method x seed x protocol."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from traube._core.hashing import digest
from traube.components import Method
from traube.metrics import SCORING_VERSION
from traube.tasks._task import Stage

# Raise when the same vectors would be clustered otherwise: all cells are new.
CLUSTERING_VERSION = "2"


@dataclass(frozen=True)
class Cell:
    """One number of the benchmark before it is split up by split and metric."""

    task: str
    family: str
    model: str
    fingerprint: str  # of the model on this task
    method: Method
    seed: int | None  # None where no part of the method is random: then all seeds are one cell
    protocol: str
    split_set: str
    data_version: str
    model_numerics: tuple[tuple[str, str], ...] = ()  # what computes the model's vectors, with versions
    precision: str = ""  # in which they are computed; empty for a model without a network
    clusters: int | None = None  # the card's number, for texts without labels
    code_version: ClassVar[str] = CLUSTERING_VERSION
    scoring_version: ClassVar[str] = SCORING_VERSION

    @property
    def stage(self) -> Stage:
        """Stage of the graph at which the cell is computed."""
        return Stage.DEEP_CLUSTERINGS if self.method.trains else Stage.CLUSTERINGS

    @property
    def title(self) -> str:
        """Task, model, method and seed, for messages."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.task} x {self.model} x {self.method.name}{seed}"

    @property
    def numerics(self) -> dict[str, dict[str, str]]:
        """Code and libraries, with versions, that compute the cell, by stage."""
        return {"model": dict(self.model_numerics), **self.method.numerics}

    @cached_property
    def cell_id(self) -> str:
        """Content hash of everything that the scores depend on."""
        return digest(
            [
                self.task,  # two tasks may hold the same data
                self.data_version,
                self.split_set,
                self.model,  # two names of the same weights are two rows of the leaderboard
                self.fingerprint,
                self.method.params(),
                self.seed,
                self.protocol,
                CLUSTERING_VERSION,
                self.numerics,
                self.clusters,
            ]
        )
