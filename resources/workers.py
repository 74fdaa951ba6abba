"""Who does the work of a run, and ends with it."""

from collections.abc import Iterator

import dagster as dg

from traube.pipeline.executors import Executor, make_executor


@dg.resource(description="Worker processes, or a Ray cluster: started when they are needed, ended with the run.")
def workers(context: dg.InitResourceContext) -> Iterator[Executor]:
    """The executor that is set by `TRAUBE_ENGINE` or params.yaml."""
    with make_executor() as executor:
        yield executor
