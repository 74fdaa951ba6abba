"""The missing cells: nothing else is ever computed.

A cell's id hashes everything its number depends on, so that a change adds exactly its own cells.
`traube._pipeline.survey` finds out which data and weights there are on this machine.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from traube._pipeline.cell import Cell
from traube._pipeline.kinds import kind_of
from traube._pipeline.kinds.clustering import CLUSTERINGS
from traube._pipeline.params import Protocol
from traube._pipeline.request import Request
from traube.components import Method
from traube.models import Model
from traube.tasks.stored import Manifest
from traube.tasks.task import CLUSTERING_STAGES, Stage, Task


def cells(
    task: Task,
    model: Model,
    protocol: Protocol,
    *,
    protocol_name: str = "own",
    methods: Sequence[Method] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Cell[Method]]:
    """Return all cells of a task and a model under a protocol, or under other methods and seeds, whether stored or not."""
    return CLUSTERINGS.cells(Manifest.of(task), model, Request([], [], protocol_name, protocol, methods, seeds))


def cells_of(manifest: Manifest, model: Model, request: Request) -> list[Cell]:
    """Return all cells that a request asks of a stored task and a model."""
    kind = kind_of(manifest.card)
    return [] if kind.explain_refusal(model) else list(kind.cells(manifest, model, request))


@dataclass(frozen=True)
class AtHand:
    """The data and weights to compute from, and the cells that are computed."""

    tasks: Mapping[str, Manifest] = field(default_factory=dict)  # those that are stored as they are to be used
    models: Mapping[str, Model] = field(default_factory=dict)  # those whose weights are here
    finished: Collection[str] = frozenset()  # ids of cells that need no work
    clustered: Collection[str] = frozenset()  # ids of cells that are clustered and not scored
    # tasks whose raw data is new or has changed; their cells are known once they are read
    unread: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)  # reason by name of a task or model


Cells = dict[str, dict[str, list[Cell]]]  # by model and task


@dataclass(frozen=True)
class Plan:
    """The missing ones of the requested cells, and from which stage on."""

    requested: Cells = field(default_factory=dict)  # all cells of what is available, stored or not
    at_hand: AtHand = field(default_factory=AtHand)
    stages: Collection[Stage] = tuple(Stage)  # those that are to be done

    @classmethod
    def of(cls, request: Request, at_hand: AtHand) -> Self:
        """Compare what is requested with what there is."""
        requested: Cells = {name: {} for name in at_hand.models}
        for name, model in at_hand.models.items():
            for task in request.tasks:  # one may be named twice
                if task in at_hand.tasks and (cells := cells_of(at_hand.tasks[task], model, request)):
                    requested[name][task] = cells
        return cls(requested, at_hand)

    @classmethod
    def of_cells(cls, model: Model, cells: Sequence[Cell], finished: Collection[str] = ()) -> Self:
        """Plan given cells of one task and a model, but for those whose ids are finished."""
        return cls({model.name: {cells[0].task: list(cells)}}, AtHand(models={model.name: model}, finished=finished))

    def only(self, *stages: Stage) -> Self:
        """Narrow the plan to some stages."""
        return replace(self, stages=stages)

    @cached_property
    def missing(self) -> Cells:
        """The cells to compute, by model and task; a model without missing cells is not in it."""
        return _select(self.requested, lambda cell: cell.cell_id not in self.at_hand.finished)

    @property
    def total(self) -> int:
        """Number of cells that are requested of what is available."""
        return len(self.cells)

    @property
    def missing_cells(self) -> list[Cell]:
        """The cells to compute."""
        return _flatten(self.missing)

    @property
    def trains(self) -> bool:
        """True if the clusterer of a missing cell trains."""
        return any(cell.stage is Stage.DEEP_CLUSTERINGS for cell in self.missing_cells)

    @property
    def count(self) -> int:
        """Number of missing cells."""
        return len(self.missing_cells)

    @property
    def unread(self) -> list[str]:
        """The requested tasks that are not ingested."""
        return self.at_hand.unread

    @property
    def unavailable(self) -> dict[str, str]:
        """The reasons why tasks and models cannot be used here, by name."""
        return self.at_hand.unavailable

    @property
    def cell_ids(self) -> list[str]:
        """The ids of `cells`, in their order."""
        return [cell.cell_id for cell in self.cells]

    @property
    def cells(self) -> list[Cell]:
        """All cells that are requested."""
        return _flatten(self.requested)

    def in_turn(self, first: str | None) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield models with tasks and their numbers of missing cells: the first task by every model, then the others."""
        counts = {
            model: {task: len(cells) for task, cells in by_task.items()} for model, by_task in self.missing.items()
        }
        if first:
            yield from ((model, {first: by_task.pop(first)}) for model, by_task in counts.items())
        yield from ((model, by_task) for model, by_task in counts.items() if by_task)

    @property
    def to_cluster(self) -> Cells:
        """The missing cells that are to be clustered, by model and task."""
        clustered = self.at_hand.clustered
        return _select(
            self.missing,
            lambda cell: (
                cell.stage in CLUSTERING_STAGES and cell.stage in self.stages and cell.cell_id not in clustered
            ),
        )

    @property
    def to_score(self) -> Cells:
        """The missing cells that are to be scored: those that are clustered, or need not be; by model and task."""
        clustered = self.at_hand.clustered if Stage.SCORES in self.stages else ()
        return _select(
            self.missing,
            lambda cell: cell.cell_id in clustered if cell.stage in CLUSTERING_STAGES else cell.stage in self.stages,
        )

    def after(self, clustered: Iterable[Cell]) -> Self:
        """Return the plan once some of its cells are clustered."""
        ids = {*self.at_hand.clustered, *(cell.cell_id for cell in clustered)}
        return replace(self, at_hand=replace(self.at_hand, clustered=ids))


def _select(cells: Cells, is_selected: Callable[[Cell], bool]) -> Cells:
    """Return the selected cells by model and task, without models and tasks that have none."""
    selected_cells: Cells = {}
    for model, by_task in cells.items():
        for task, of_task in by_task.items():
            if selected := [cell for cell in of_task if is_selected(cell)]:
                selected_cells.setdefault(model, {})[task] = selected
    return selected_cells


def _flatten(cells: Cells) -> list[Cell]:
    return [cell for by_task in cells.values() for of_task in by_task.values() for cell in of_task]
