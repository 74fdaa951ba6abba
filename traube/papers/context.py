"""What a paper's tables and figures are measured from: everything stored, trained and asked for, in
one object.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from traube.benchmark.current import current_cells
from traube.benchmark.params import Protocol
from traube.benchmark.plan import Request, unavailable
from traube.engine.progress import SILENT, Progress
from traube.engine.workbench import Workbench
from traube.foundation.disk import read_json
from traube.models import Model, Precision, Vectors
from traube.store import Store
from traube.tasks.task import Task


@dataclass(frozen=True)
class Context:
    """What a paper's tables and figures are measured from.

    Attributes
    ----------
    workbench : what was evaluated, and the vectors of it
    protocols : of params.yaml, by name
    protocol : name of the one that is asked for
    checkpoints, studies : folders of what was trained and searched
    model : name and precision to model; raises TraubeError where there is none
    warn : told what had to be left out
    progress : told of texts that are encoded
    """

    workbench: Workbench
    protocols: Mapping[str, Protocol]
    protocol: str
    checkpoints: Path
    studies: Path
    model: Callable[[str, Precision | None], Model]
    warn: Callable[[str], None] = lambda message: None
    progress: Progress = SILENT

    @property
    def store(self) -> Store:
        """What was evaluated."""
        return self.workbench.store

    def task(self, name: str) -> Task | None:
        """A task as it is stored; None where it has not been read."""
        card = self.store.card(name)
        return self.store.task(card) if card is not None and self.store.manifest(name) is not None else None

    def cells(self, tasks: Collection[str], *names: str) -> pd.DataFrame:
        """The finished cells of some tasks under some protocols' own methods and seeds; with a column
        `method`.
        """
        cells = current_cells(self.store, self.protocols, tasks)
        cells = cells[cells["protocol"].isin(names) & (cells["status"] == "done")]
        return cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])

    def vectors(self, task: Task, model: Model) -> Vectors:
        """A stored task's vectors under a model, from the cache where they are in it.

        Raises
        ------
        TraubeError
            If the model cannot encode the texts.
        """
        return self.workbench.vectors(task, model, self.progress)

    def trainings(self, *trainers: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The finished trainings by some trainers: name of the last step's checkpoint, and its
        record.
        """
        for path in sorted(self.checkpoints.glob("*-last/checkpoint.json")):
            record = read_json(path)
            if record.get("trainer") in trainers and "curve" in record:
                yield path.parent.name, record

    def unavailable(self, tasks: Sequence[str], models: Sequence[str]) -> dict[str, str]:
        """Why a task or a model cannot be had here, by name."""
        request = Request(tasks, models, self.protocol, self.protocols[self.protocol])
        return unavailable(request, self.store)
