"""What the tests of the engine share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.made import cells_of
from traube.engine.cluster import CellResult, cluster
from traube.engine.embed import embed
from traube.engine.executors import ProcessExecutor
from traube.models import EmbeddingCache, Vectors, load_model
from traube.store import Store
from traube.tasks.task import Task


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def vectors(tiny_task: Task, tmp_path: Path) -> Vectors:
    return embed(tiny_task.texts, load_model("bow"), EmbeddingCache(tmp_path / "cache"), tmp_path / "bow")[0]


@pytest.fixture
def results(tiny_task: Task, vectors: Vectors, store: Store) -> Callable[..., dict[str, CellResult]]:
    """What becomes of the cells of some methods, by method."""

    def run(*methods: str) -> dict[str, CellResult]:
        found = list(cluster(tiny_task, vectors, cells_of(tiny_task, *methods), store, ProcessExecutor()))
        assert len(found) == len(methods)
        return {result.cell.method.name: result for result in found}

    return run
