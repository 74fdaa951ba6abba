"""Units of work on a Ray cluster: of two nodes with one core each, on this machine."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.made import cells_of
from traube.engine import workers
from traube.engine.embed import embed
from traube.engine.evaluate import evaluate_cells
from traube.engine.schedule import Failure, Job, run
from traube.foundation.errors import DoesNotFit, TraubeError
from traube.models import EmbeddingCache, load_model
from traube.models.base import ModelCard
from traube.models.transformer import Transformer
from traube.tasks.task import Task

pytestmark = pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: make setup-scale")
METHODS = ["none/kmeans", "pca/kmeans", "pca/hdbscan", "none/agglomerative"]
MEMORY = 120 * 2**20  # of a node's object store


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Whoever asks it for work needs a token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "grapes" * 8)
        from ray.cluster_utils import Cluster  # only now: Ray reads these settings when it is imported

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": MEMORY})
        made.add_node(num_cpus=1, object_store_memory=MEMORY)
        yield made
        made.shutdown()


@pytest.fixture
def on_ray(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """This test's work is done by the cluster."""
    workers.stop()
    monkeypatch.setenv("TRAUBE_ENGINE", "ray")
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    yield cluster
    workers.stop()


def sleeper(seconds: float) -> Callable[[int], str]:
    """A unit of work: takes its time, and says at which node."""

    def unit(memory: int) -> str:  # a function of a function's: what workers cannot import is sent to them
        import ray

        time.sleep(seconds)
        return str(ray.get_runtime_context().get_node_id())

    return unit


def evaluated(task: Task, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return evaluate_cells(task, load_model("bow"), cells_of(task, *METHODS), folder)


def test_scores_are_those_of_local_processes_to_the_last_digit(
    tiny_task: Task, tmp_path: Path, on_ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = evaluated(tiny_task, tmp_path / "ray")
    workers.stop()
    monkeypatch.setenv("TRAUBE_ENGINE", "local")
    here = evaluated(tiny_task, tmp_path / "local")
    order = ["cell_id", "split", "level"]
    for one, other in zip(there, here, strict=True):
        columns = [*order, *(name for name in ("metric", "item") if name in one)]
        first, second = (table.sort_values(columns).reset_index(drop=True) for table in (one, other))
        pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_the_clusters_cores_are_the_workers_and_what_is_needed_is_set_aside(on_ray: Any) -> None:
    assert workers.count() == 2
    usual = workers.memory()
    assert 0 < usual < workers.memory(usual + 1) == usual + 1
    assert workers.memory(2**60) < 2**60  # no node has that: the unit is told what it may take, and says that it is too little


def test_a_unit_that_fails_costs_only_itself(on_ray: Any) -> None:
    def refuse(memory: int) -> None:
        raise DoesNotFit("too large")

    def die(memory: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    deadly, large, *good = jobs = [Job(die, ()), Job(refuse, ()), *(Job(sleeper(0.0), ()) for _ in range(4))]
    outcomes = dict(run(jobs))
    assert outcomes[large] == Failure("unavailable", "too large")
    assert isinstance(outcomes[deadly], Failure) and outcomes[deadly].status == "failed"
    assert "lost on the Ray cluster" in outcomes[deadly].reason
    assert all(isinstance(outcomes[job], str) for job in good)


def test_a_node_that_dies_costs_nothing(on_ray: Any) -> None:
    doomed = on_ray.add_node(num_cpus=1, object_store_memory=MEMORY)
    on_ray.wait_for_nodes()
    jobs = [Job(sleeper(0.5), ()) for _ in range(9)]
    outcomes: dict[Job, Any] = {}
    for job, outcome in run(jobs):
        if not outcomes:
            on_ray.remove_node(doomed, allow_graceful=False)
        outcomes[job] = outcome
    assert len(outcomes) == len(jobs) and all(isinstance(outcome, str) for outcome in outcomes.values())


def test_who_stops_listening_ends_what_is_under_way(on_ray: Any) -> None:
    outcomes = run([Job(sleeper(0.0), ()), *(Job(sleeper(60.0), ()) for _ in range(4))])
    next(outcomes)
    began = time.monotonic()
    outcomes.close()
    list(run([Job(sleeper(0.0), ())]))
    assert time.monotonic() - began < 40


def test_texts_are_encoded_by_a_process_on_each_core_to_the_last_digit(
    on_ray: Any, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traube.engine.ray_cluster.FEW", 20)
    monkeypatch.setattr("traube.models.transformer.TOKENS_A_BATCH", {"cpu": 50})
    model = Transformer(ModelCard(name="tiny", kind="transformer", model=str(tiny_bert)), "cpu")
    texts = [f"the {'cat star ' * (i % 7)} soup {i}" for i in range(50)]
    vectors, encoded = embed(texts, model, EmbeddingCache(tmp_path), tmp_path / "matrix")
    assert encoded == 50
    np.testing.assert_array_equal(vectors.load(), model.encode(texts))


@pytest.mark.parametrize(
    ("engine", "address", "said"),
    [
        ("ray", "127.0.0.1:9", "the engine is ray, and the cluster at 127.0.0.1:9 (RAY_ADDRESS) cannot be used"),
        ("dask", "", "unknown engine 'dask': there are: local, ray"),
    ],
)
def test_what_cannot_be_reached_is_one_line(
    monkeypatch: pytest.MonkeyPatch, engine: str, address: str, said: str
) -> None:
    workers.stop()
    monkeypatch.setenv("TRAUBE_ENGINE", engine)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(TraubeError) as raised:
        workers.pool()
    print(raised.value)
    assert str(raised.value).startswith(said) and "\n" not in str(raised.value)
    workers.stop()
