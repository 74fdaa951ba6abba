"""The context from which a paper's tables and figures are measured: storage, checkpoints and protocols in one object."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from traube._core import paths
from traube._core.disk import read_json
from traube._core.hashing import digest
from traube._core.progress import SILENT, Progress
from traube._pipeline.current import current_cells
from traube._pipeline.params import Protocol
from traube._pipeline.request import Request
from traube._pipeline.survey import unavailable
from traube._pipeline.workbench import Workbench
from traube._storage import Storage
from traube.components.method import name_methods
from traube.models import Model, Precision, Vectors
from traube.tasks.stored import get_manifest, read_task
from traube.tasks.task import Task


@dataclass(frozen=True)
class Context:
    """The data from which a paper's tables and figures are measured."""

    workbench: Workbench  # the evaluations, and their vectors
    protocols: Mapping[str, Protocol]  # of params.yaml, by name
    protocol: str  # name of the requested protocol
    model: Callable[[str, Precision | None], Model]  # raises TraubeError where there is none of this name
    warn: Callable[[str], None] = lambda message: None  # called with what had to be left out
    progress: Progress = SILENT  # of the texts that are encoded

    @property
    def storage(self) -> Storage:
        """Storage of the evaluations."""
        return self.workbench.storage

    def task(self, name: str) -> Task | None:
        """Return a task as it is stored; None where it has not been read."""
        return None if get_manifest(self.storage, name) is None else read_task(self.storage, name)

    def explain_unread(self, names: Iterable[str]) -> dict[str, str]:
        """Return why tasks are not stored, by name: where their raw data is to be had, or that they were not read yet."""
        unread = [name for name in names if get_manifest(self.storage, name) is None]
        reasons = self.unavailable(unread, ())
        return {name: reasons.get(name, f"{name} has not been read yet: traube run -t {name}") for name in unread}

    def list_unread(self, printed: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of printed numbers whose tasks are not stored, with a note that says why."""
        reasons = self.explain_unread(printed["task"].unique())
        unread = printed[printed["task"].isin(reasons)]
        return unread.assign(note=unread["task"].map(reasons))

    def tasks(self, names: Iterable[str]) -> Iterator[Task]:
        """Yield those of some tasks that have been read."""
        return (task for name in names if (task := self.task(name)) is not None)

    def cells(self, tasks: Collection[str], *names: str) -> pd.DataFrame:
        """Return the finished cells of some tasks under some protocols' own methods and seeds; with a column `method`."""
        cells = current_cells(self.storage, self.protocols, tasks)
        cells = cells[cells["protocol"].isin(names) & (cells["status"] == "done")]
        return cells.assign(method=name_methods(cells))

    def vectors(self, task: Task, model: Model) -> Vectors:
        """Return a stored task's vectors under a model, from the cache if they are in it.

        A TraubeError is raised if the model cannot encode the texts.
        """
        return self.workbench.vectors(task, model, self.progress)

    def trainings(self, *trainers: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the finished trainings by some trainers: name of the last step's checkpoint, and its record."""
        for path in sorted(paths.checkpoints().glob("*-last/checkpoint.json")):
            record = read_json(path)
            if record.get("trainer") in trainers and "curve" in record:
                yield path.parent.name, record

    def read_recipes(self, *trainers: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the values of recipes, by trainer and the digest in their checkpoints' names, empty for the default."""
        trainings = self.trainings(*trainers)
        return {(record["trainer"], name.partition(".x")[2][:6]): record["config"] for name, record in trainings}

    def describe_recipes(self, *trainers: str) -> dict[tuple[str, str], str]:
        """Return what recipes have that are not defaults, by trainer and the digest in their checkpoints' names."""
        recipes = {}
        for name, record in self.trainings(*trainers):
            _, mark, rest = name.partition(".x")
            if mark:
                key = record["trainer"], rest[:6]
                recipes[key] = f"recipe {key[1]} of {key[0]}: {describe_recipe(name, record)}"
        return recipes

    def unavailable(self, tasks: Sequence[str], models: Sequence[str]) -> dict[str, str]:
        """Return why a task or a model cannot be had here, by name."""
        request = Request(tasks, models, self.protocol, self.protocols[self.protocol])
        return unavailable(request, self.storage)


def describe_recipe(checkpoint: str, record: Mapping[str, Any]) -> str:
    """Return what a training's recipe has that is not its trainer's default, such as `epochs=3.0 layers=0`."""
    from traube.training import TRAINERS

    changes = TRAINERS[record["trainer"]].find_changes(record["config"])
    said = [f"{key}={value}" for key, value in changes.items()]
    _, mark, rest = checkpoint.partition(".x")
    if mark and not rest.startswith(digest([changes, False])[:6]):  # as the name says
        said.append("and more texts than the task's")
    return " ".join(said)
