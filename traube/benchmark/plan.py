"""What is missing: nothing else is ever computed.

A cell is task x model x method x seed x protocol. Its id hashes everything its number depends on,
so that a new seed, method, model, fingerprint or data version adds exactly its own cells, and what
is stored is never computed twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from traube.benchmark.lookup import Lookup
from traube.benchmark.params import Params, Protocol
from traube.foundation.errors import TraubeError, Unknown
from traube.foundation.hashing import digest, frame_digest
from traube.methods import Method
from traube.metrics import SCORING_VERSION
from traube.models import Model, checkpoints, fingerprint_on
from traube.store import Manifest, Store
from traube.tasks import get_source
from traube.tasks.task import Task, TaskCard, data_version

# Raise when the same vectors would be clustered otherwise: all cells are new.
CLUSTERING_VERSION = "2"


@dataclass(frozen=True)
class Cell:
    """One number of the benchmark before it is split up by split and metric.

    Attributes
    ----------
    seed : int, or None where no part of the method is random: then all seeds are one cell
    fingerprint : of the model on this task
    model_numerics : what computes the model's vectors, with versions
    precision : in which they are computed; empty for a model without a network
    clusters : the card's number of clusters, for texts without labels
    """

    task: str
    family: str
    model: str
    fingerprint: str
    method: Method
    seed: int | None
    protocol: str
    split_set: str
    data_version: str
    model_numerics: tuple[tuple[str, str], ...] = ()
    precision: str = ""
    clusters: int | None = None

    @property
    def title(self) -> str:
        """The cell in words."""
        seed = "" if self.seed is None else f", seed {self.seed}"
        return f"{self.task} x {self.model} x {self.method.name}{seed}"

    @property
    def numerics(self) -> dict[str, dict[str, str]]:
        """What computes the cell, by stage: its own code and the libraries, with versions."""
        return {"model": dict(self.model_numerics), **self.method.numerics}

    @cached_property
    def cell_id(self) -> str:
        return digest(
            [
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


def cells(
    task: Task,
    model: Model,
    protocol: Protocol,
    *,
    protocol_name: str = "own",
    methods: Sequence[Method] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Cell]:
    """All cells of a task and a model under a protocol, whether stored or not.

    Parameters
    ----------
    methods, seeds : instead of the protocol's
    """
    manifest = Manifest("", task.corpus_version, frame_digest(task.splits))
    return _cells(task.card, manifest, model, protocol_name, protocol, methods, seeds)


def _cells(
    card: TaskCard,
    manifest: Manifest,
    model: Model,
    protocol_name: str,
    protocol: Protocol,
    methods: Sequence[Method] | None,
    seeds: Sequence[int] | None,
) -> list[Cell]:
    fingerprint = fingerprint_on(model, manifest.corpus_version)
    version = data_version(manifest.corpus_version, manifest.splits_version)
    numerics = tuple(sorted(model.numerics.items()))
    made = [
        Cell(
            task=card.name,
            family=card.family,
            model=model.name,
            fingerprint=fingerprint,
            method=method,
            seed=seed,
            protocol=protocol_name,
            split_set=protocol.split_set,
            data_version=version,
            model_numerics=numerics,
            precision=model.precision,
            clusters=card.clusters,
        )
        for method in (methods or protocol.methods())
        for seed in ((seeds or protocol.seeds) if method.seeded else (None,))
    ]
    return list(dict.fromkeys(made))  # a seed or method may be named twice


def wanted_models(params: Params) -> tuple[str, ...]:
    """The models of the benchmark: those of params.yaml, then the checkpoints."""
    return tuple(dict.fromkeys([*params.models, *checkpoints.cards()]))


@dataclass(frozen=True)
class Request:
    """What somebody wants to know: which tasks and models, under which protocol."""

    tasks: Sequence[str]
    models: Sequence[str]
    protocol_name: str
    protocol: Protocol
    methods: Sequence[Method] | None = None
    seeds: Sequence[int] | None = None
    pair_tasks: Sequence[str] = ()


def request_of(params: Params, protocol: str = "", methods: Sequence[str] = (), seeds: Sequence[int] = ()) -> Request:
    """Return what params.yaml asks for, under another protocol, methods or seeds where they are given.

    Raises
    ------
    TraubeError
        If there is no such protocol or method.
    """
    name = protocol or params.protocol
    chosen = params.chosen(name)
    return Request(
        tasks=params.tasks,
        models=wanted_models(params),
        protocol_name=name,
        protocol=chosen,
        methods=[chosen.method(method) for method in methods] or None,
        seeds=list(seeds) or None,
        pair_tasks=params.pair_tasks,
    )


@dataclass(frozen=True)
class Plan:
    """What has to be done for a request.

    Attributes
    ----------
    missing : cells to compute, by model and task; a model without missing cells is not in it
    total : number of cells asked for, stored or not, of what is available
    unread : tasks whose raw data is new or has changed; their cells are known once they are read
    unavailable : reason by name of a task or model that cannot be had here
    """

    missing: dict[str, dict[str, list[Cell]]] = field(default_factory=dict)
    total: int = 0
    unread: list[str] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of missing cells."""
        return sum(len(c) for by_task in self.missing.values() for c in by_task.values())


def unread(tasks: Iterable[str], store: Store) -> tuple[list[str], dict[str, str]]:
    """Tasks whose stored tables are absent, damaged or older than the raw data; and those that are
    unavailable, with the reason.
    """
    new, unavailable = [], {}
    for name in tasks:
        source = get_source(name)
        reason = source.missing()
        if reason:
            unavailable[name] = reason
            continue
        manifest = store.manifest(name)
        if manifest is None or manifest.raw_version != source.raw_version() or not store.is_sound(name):
            new.append(name)
    return new, unavailable


def plan(request: Request, store: Store) -> Plan:
    """Compare what is asked for with what is stored.

    Raises
    ------
    TraubeError
        If a task or model does not exist.
    """
    tasks = list(dict.fromkeys(request.tasks))  # a name may be given twice
    new, unavailable = unread(tasks, store)
    models = usable_models(request, unavailable)
    missing: dict[str, dict[str, list[Cell]]] = {name: {} for name in models}
    total = 0
    for task in tasks:
        manifest = store.manifest(task)
        if task in unavailable or task in new or manifest is None:
            continue
        card, done = get_source(task).card, _need_no_work(store.cells(task))
        for name, model in models.items():
            asked = _asked(card, manifest, model, request)
            total += len(asked)
            absent = [cell for cell in asked if cell.cell_id not in done]
            if absent:
                missing[name][task] = absent
    return Plan({name: by_task for name, by_task in missing.items() if by_task}, total, new, unavailable)


def unavailable(request: Request, store: Store, lookup: Lookup | None = None) -> dict[str, str]:
    """Reason by name of a task or model that is asked for and cannot be had here; what a plan
    says, without its cells.
    """
    reasons = unread(dict.fromkeys(request.tasks), store)[1]
    usable_models(request, reasons, lookup)
    return reasons


def usable_models(request: Request, unavailable: dict[str, str], lookup: Lookup | None = None) -> dict[str, Model]:
    """The models whose weights are here and sound; of others the reason is noted: one bad model
    does not stop the others.

    Parameters
    ----------
    unavailable : where the reasons are noted, by name

    Raises
    ------
    Unknown
        If there is no model of a name: a misspelt one is no bad one.
    """
    models, lookup = {}, lookup or Lookup()
    for name in dict.fromkeys(request.models):
        try:
            models[name] = lookup.usable(name, request.protocol.precision)
        except Unknown:
            raise
        except TraubeError as error:
            unavailable[name] = str(error)
    return models


def cells_of(task: str, manifest: Manifest, model: Model, request: Request) -> list[Cell]:
    """All cells that a request asks of a stored task and a model."""
    return _asked(get_source(task).card, manifest, model, request)


def _asked(card: TaskCard, manifest: Manifest, model: Model, request: Request) -> list[Cell]:
    return _cells(card, manifest, model, request.protocol_name, request.protocol, request.methods, request.seeds)


def stored(cell: Cell, store: Store) -> bool:
    """Whether a cell needs no work."""
    return cell.cell_id in _need_no_work(store.cells_by_id(cell.task, [cell.cell_id]))


def _need_no_work(cells: pd.DataFrame) -> set[str]:
    """The ids of the cells that are scored by today's metrics, or were found to make no sense.

    Those that failed are tried again, and so are those that did not fit the memory there
    was (`unavailable`).
    """
    done = (cells["scoring_version"] == SCORING_VERSION) & ~cells["status"].isin(("failed", "unavailable"))
    return set(cells.loc[done | (cells["status"] == "unsupported"), "cell_id"])


def missing_cells(task: str, model: Model, request: Request, store: Store) -> list[Cell]:
    """The cells of one task and model that have to be computed."""
    manifest = store.manifest(task)
    if manifest is None:
        raise not_read(task)
    asked = cells_of(task, manifest, model, request)
    done = _need_no_work(store.cells_by_id(task, [cell.cell_id for cell in asked]))
    return [cell for cell in asked if cell.cell_id not in done]


def not_read(task: str) -> TraubeError:
    """The error for a task whose tables are not stored."""
    return TraubeError(f"task '{task}' has not been read yet; `traube run --task {task}` reads it")
