"""Fixtures of the pipeline's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.made import cells_of, store_task
from traube._pipeline.cluster import CellResult, cluster_cells
from traube._pipeline.embed import embed_task
from traube._pipeline.executors import ProcessExecutor
from traube._pipeline.workbench import Workbench
from traube._storage import Storage
from traube.models import Vectors, load_model
from traube.tasks.task import Task


@pytest.fixture
def in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors have one process, and this process's use it however few the texts are."""
    monkeypatch.setenv("TRAUBE_WORKERS", "1")
    monkeypatch.setattr("traube._pipeline.executors.processes.LITTLE", 0)


@pytest.fixture
def bench(tmp_path: Path, tiny_task: Task) -> Workbench:
    """A workbench that has read the tiny task."""
    bench = Workbench.at(tmp_path)
    store_task(bench.storage, tiny_task)
    return bench


@pytest.fixture
def vectors(tiny_task: Task, tmp_path: Path) -> Vectors:
    return embed_task(tiny_task, load_model("bow"), Storage(tmp_path))[0]


@pytest.fixture
def results(tiny_task: Task, vectors: Vectors, storage: Storage) -> Callable[..., dict[str, CellResult]]:
    """Return the results of the cells of some methods, by method."""

    def run(*methods: str) -> dict[str, CellResult]:
        found = list(cluster_cells(tiny_task, vectors, cells_of(tiny_task, *methods), storage, ProcessExecutor()))
        assert len(found) == len(methods)
        return {result.cell.method.name: result for result in found}

    return run
