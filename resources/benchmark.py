"""Resources from the library: the requested benchmark, storage, models and workers."""

from collections.abc import Iterator
from functools import lru_cache

import dagster as dg
from pydantic import Field

from traube._core import paths
from traube._pipeline.executors import Executor, make_executor
from traube._pipeline.params import Protocol, load_params
from traube._pipeline.request import Request, make_request
from traube._pipeline.workbench import Workbench
from traube._storage import Storage, open_storage
from traube.models import Model, load_model
from traube.models.card import Precision
from traube.models.endpoint import limit_unattended, refuse_unnamed


class BenchmarkResource(dg.ConfigurableResource):
    """The benchmark of params.yaml, narrowed or widened by a run's configuration."""

    protocol: str = Field(default="", description="name of a protocol in params.yaml; by default the one chosen there")
    methods: list[str] = Field(default_factory=list, description="like umap/hdbscan; by default the protocol's")
    seeds: list[int] = Field(default_factory=list, description="by default the protocol's")

    def protocols(self) -> dict[str, Protocol]:
        """Return the protocols of params.yaml by name."""
        return load_params().protocols

    def request(self) -> Request:
        """Return what a run is to compute."""
        return make_request(load_params(), self.protocol, self.methods, self.seeds)


class StorageResource(dg.ConfigurableResource):
    """The storage of everything that is computed, in the data directory."""

    def open(self) -> Storage:
        """Return the storage of the data directory."""
        return open_storage(paths.home())

    def workbench(self, executor: Executor | None = None) -> Workbench:
        """Return the stored tasks and their vectors under any model; an executor does the work."""
        return Workbench(self.open(), executor) if executor else Workbench(self.open())


class EncoderResource(dg.ConfigurableResource):
    """Turns the name of a model (a partition key) into the model."""

    device: str = Field(default="", description="cuda, mps or cpu; by default the best one there is")

    def model(self, name: str, precision: Precision | None) -> Model:
        """Return a model, loaded once a process however many tasks a run evaluates.

        An endpoint that params.yaml does not name is refused to runs that no command of a person has started. Others
        keep to the budget that stands there.
        """
        model, params = _load_model(name, self.device or None, precision), load_params()
        refuse_unnamed(model, params.models)
        limit_unattended(model, params.nightly.budget)
        return model


_load_model = lru_cache(maxsize=1)(load_model)  # the next model's weights replace this one's


@dg.resource(description="Worker processes, or a Ray cluster: started when they are needed, ended with the run.")
def workers(context: dg.InitResourceContext) -> Iterator[Executor]:
    """Yield the executor of a run's work, as set by `TRAUBE_ENGINE` or params.yaml."""
    with make_executor() as executor:
        yield executor
