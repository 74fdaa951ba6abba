"""Requests: which tasks, models, methods and seeds, under which protocol."""

from collections.abc import Sequence
from dataclasses import dataclass

from traube._core import paths
from traube._pipeline.forgotten import read_forgotten
from traube._pipeline.params import Params, Protocol
from traube._storage import open_storage
from traube.components import Method
from traube.models import checkpoints


def list_wanted_models(params: Params) -> tuple[str, ...]:
    """Return the models of the benchmark: those of params.yaml, then the checkpoints that are not forgotten."""
    if not (trained := checkpoints.cards()):
        return params.models
    forgotten = read_forgotten(open_storage(paths.home()))
    return tuple(dict.fromkeys([*params.models, *(name for name in trained if name not in forgotten)]))


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
