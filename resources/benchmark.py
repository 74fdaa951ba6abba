"""What is asked for: params.yaml, and what a run says instead."""

import dagster as dg
from pydantic import Field

from traube.pipeline.params import Protocol, load_params
from traube.pipeline.plan import Request, request_of


class BenchmarkResource(dg.ConfigurableResource):
    """The benchmark of params.yaml, narrowed or widened by a run's configuration.

    Attributes
    ----------
    protocol : name of a protocol in params.yaml; by default the one chosen there
    methods : like `umap/hdbscan`; by default the protocol's
    seeds : by default the protocol's
    """

    protocol: str = ""
    methods: list[str] = Field(default_factory=list)
    seeds: list[int] = Field(default_factory=list)

    def protocols(self) -> dict[str, Protocol]:
        return load_params().protocols

    def request(self) -> Request:
        return request_of(load_params(), self.protocol, self.methods, self.seeds)
