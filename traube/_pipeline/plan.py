"""The missing cells: nothing else is ever computed.

A cell's id hashes everything its number depends on, so that a change adds exactly its own cells.
`traube._pipeline.survey` finds out which data and weights there are on this machine.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from traube._pipeline.cell import Cell
from traube._pipeline.kinds.pairs import asks_for_query, make_pair_cells
from traube._pipeline.params import Params, Protocol
from traube.components import Method
from traube.models import Model, fingerprint_on
from traube.models import _checkpoints as checkpoints
from traube.tasks._scored_pairs import PAIRS
from traube.tasks._stored import Manifest
from traube.tasks._task import Stage, Task


def cells(
    task: Task,
    model: Model,
    protocol: Protocol,
    *,
    protocol_name: str = "own",
    methods: Sequence[Method] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Cell]:
    """Return all cells of a task and a model under a protocol, or under other methods and seeds, whether stored or not."""
    return cells_of(Manifest.of(task), model, Request([], [], protocol_name, protocol, methods, seeds))


def cells_of(manifest: Manifest, model: Model, request: "Request") -> list[Cell]:
    """Return all cells that a request asks of a stored task and a model."""
    if manifest.card.type is PAIRS:
        return [] if asks_for_query(model) else list(make_pair_cells(manifest, model))
    card, protocol = manifest.card, request.protocol.for_task(manifest.card.name)
    fingerprint = fingerprint_on(model, manifest.corpus_version)
    numerics = tuple(sorted(model.numerics.items()))
    methods, named = request.methods or protocol.methods(), request.protocol.method
    if request.methods:  # the protocol's own have the parameters that they have for the task
        methods = [protocol.method(m.name) if m == named(m.name) else m for m in request.methods]
    made = [
        Cell(
            task=card.name,
            family=card.family,
            model=model.name,
            fingerprint=fingerprint,
            method=method,
            seed=seed,
            protocol=request.protocol_name,
            split_set=protocol.split_set,
            data_version=manifest.data_version,
            model_numerics=numerics,
            precision=model.precision,
            clusters=card.clusters,
        )
        for method in methods
        for seed in ((request.seeds or protocol.seeds) if method.seeded else (None,))
    ]
    return list(dict.fromkeys(made))  # a seed or method may be named twice


def list_wanted_models(params: Params) -> tuple[str, ...]:
    """Return the models of the benchmark: those of params.yaml, then the checkpoints."""
    return tuple(dict.fromkeys([*params.models, *checkpoints.cards()]))


@dataclass(frozen=True)
class Request:
    """A request: which tasks and models, under which protocol."""

    tasks: Sequence[str]
    models: Sequence[str]
    protocol_name: str
    protocol: Protocol
    methods: Sequence[Method] | None = None
    seeds: Sequence[int] | None = None


def make_request(params: Params, protocol: str = "", methods: Sequence[str] = (), seeds: Sequence[int] = ()) -> Request:
    """Return what params.yaml asks for, under another protocol, methods or seeds where they are given."""
    name = protocol or params.protocol
    chosen = params.chosen(name)
    return Request(
        tasks=(*params.tasks, *params.pair_tasks),
        models=list_wanted_models(params),
        protocol_name=name,
        protocol=chosen,
        methods=[chosen.method(method) for method in methods] or None,
        seeds=list(seeds) or None,
    )


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
        found: Cells = {}
        for model, by_task in self.requested.items():
            for task, cells in by_task.items():
                if absent := [cell for cell in cells if cell.cell_id not in self.at_hand.finished]:
                    found.setdefault(model, {})[task] = absent
        return found

    @property
    def total(self) -> int:
        """Number of cells that are requested of what is available."""
        return len(_flatten(self.requested))

    @property
    def missing_cells(self) -> list[Cell]:
        """The cells to compute."""
        return _flatten(self.missing)

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
        """All cells that are requested; of a plan of one stage that clusters, those that are clustered by it."""
        requested = _flatten(self.requested)
        return requested if Stage.SCORES in self.stages else [c for c in requested if c.stage in self.stages]

    def work(self) -> Iterator[tuple[str, str]]:
        """Yield each model and task that there is work for."""
        # missing vectors are found during encoding: a plan of embeddings alone includes all
        cells = self.requested if set(self.stages) == {Stage.EMBEDDINGS} else self.missing
        yield from ((model, task) for model, by_task in cells.items() for task in by_task)

    def in_turn(self, first: str | None) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield models with tasks and their numbers of missing cells: the first task by every model, then the others."""
        counts = {
            model: {task: len(cells) for task, cells in by_task.items()} for model, by_task in self.missing.items()
        }
        if first:
            yield from ((model, {first: by_task.pop(first)}) for model, by_task in counts.items())
        yield from ((model, by_task) for model, by_task in counts.items() if by_task)

    def to_compute(self, model: str, task: str) -> list[Cell]:
        """Return the missing cells of a model and a task that this plan clusters or compares."""
        return [
            cell
            for cell in self.missing.get(model, {}).get(task, ())
            if cell.cell_id not in self.at_hand.clustered and cell.stage in self.stages
        ]


def _flatten(cells: Cells) -> list[Cell]:
    return [cell for by_task in cells.values() for of_task in by_task.values() for cell in of_task]
