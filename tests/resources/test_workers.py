"""The resource `workers`: a run's own, which ends with it, or those of whoever starts several runs."""

import os

import dagster as dg
import pytest

from resources.benchmark import workers
from traube._pipeline.executors import Executor, ProcessExecutor

closed: list[Executor] = []


class Counted(ProcessExecutor):
    """Notes when it is closed."""

    def close(self, kill: bool = False) -> None:
        closed.append(self)
        super().close(kill)


@dg.asset
def process(workers: dg.ResourceParam[Executor]) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"id": workers.call_apart(os.getpid).result()})


def run(resource: object) -> int:
    """Execute a run; the process that it called."""
    closed.clear()
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([process], instance=instance, resources={"workers": resource})
        return int(result.asset_materializations_for_node("process")[0].metadata["id"].value)


def test_a_run_ends_its_own_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.benchmark.make_executor", Counted)
    assert run(workers) != os.getpid()
    assert len(closed) == 1


def test_runs_leave_the_workers_of_whoever_starts_them() -> None:
    with Counted() as executor:
        assert run(executor) == run(executor)
        assert not closed
