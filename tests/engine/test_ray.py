"""Units of work on a Ray cluster: of two nodes with one core each, on this machine.

The tests share it, in their order: one of them kills a node.
"""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
from scipy import sparse

from tests.made import cells_of
from tests.waiting import wait_for
from traube.benchmark.params import Protocol
from traube.benchmark.plan import cells
from traube.engine import workers
from traube.engine.cluster import cluster
from traube.engine.embed import embed
from traube.engine.evaluate import evaluate_cells
from traube.engine.progress import SILENT, Progress
from traube.engine.schedule import Failure, Job, run
from traube.foundation.errors import DoesNotFit, TraubeError
from traube.methods import parse_method
from traube.models import EmbeddingCache, Vectors, load_model
from traube.models.card import ModelCard
from traube.models.transformer import Transformer
from traube.models.vectors import save_matrix
from traube.store import Store
from traube.tasks.task import Task, make_task

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: make setup-scale"),
]
METHODS = ["none/kmeans", "pca/kmeans", "pca/hdbscan", "none/agglomerative"]
MEMORY = 120 * 2**20  # of a node's object store
Tables = tuple[pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="module", autouse=True)
def token() -> Iterator[None]:
    """That is asked for, and given, by all of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "grapes" * 8)
        from ray._private.authentication_test_utils import reset_auth_token_state

        reset_auth_token_state()  # Ray reads it when it is imported: other tests may have done so
        yield


@pytest.fixture(scope="module")
def nodes(token: None) -> Iterator[list[Any]]:
    """A cluster that does this module's work, and its second node."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # nothing is started that is not used
        patch.setattr("traube.engine.ray_cluster.RETRIES", 1)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": MEMORY})
        second = cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
        patch.setenv("TRAUBE_ENGINE", "ray")
        patch.setenv("RAY_ADDRESS", cluster.address)
        yield [cluster, second]
        workers.stop()
        cluster.shutdown()


def evaluated(task: Task, folder: Path, progress: Progress = SILENT) -> Tables:
    tables = evaluate_cells(task, load_model("bow"), cells_of(task, *METHODS), folder, progress)
    order = ["cell_id", "split", "level", "metric", "item"]
    return tuple(t.sort_values([c for c in order if c in t]).reset_index(drop=True) for t in tables)


@pytest.fixture(scope="module")
def here(tiny_task: Task, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """What local processes make of the cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAUBE_ENGINE", "local")
        patch.setenv("TRAUBE_WORKERS", "1")
        return evaluated(tiny_task, tmp_path_factory.mktemp("local"))


def assert_same(one: Tables, other: Tables) -> None:
    for first, second in zip(one, other, strict=True):
        pd.testing.assert_frame_equal(first, second, check_exact=True)


def sleeper(seconds: float) -> Callable[[int], float]:
    """A unit of work that takes its time. Functions of functions are sent whole: no worker has this file."""

    def unit(memory: int) -> float:
        time.sleep(seconds)
        return seconds

    return unit


@pytest.mark.usefixtures("nodes")
def test_scores_are_those_of_local_processes_to_the_last_digit(tiny_task: Task, here: Tables, tmp_path: Path) -> None:
    assert_same(evaluated(tiny_task, tmp_path), here)


@pytest.mark.usefixtures("nodes")
def test_the_clusters_cores_are_the_workers_and_what_a_unit_needs_is_set_aside_for_it() -> None:
    assert workers.count() == 2
    usual = workers.memory()
    assert 0 < usual < workers.memory(usual + 1) == usual + 1
    assert workers.memory(2**60) < 2**60  # what no node has is not given: the unit refuses, and says so


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize(("kind", "suffix"), [(np.asarray, "npy"), (sparse.csr_matrix, "npz")])
def test_vectors_are_sent_once_for_all_units_that_need_them(
    kind: Callable[[Any], Any], suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray import ObjectRef

    path = tmp_path / f"matrix.{suffix}"
    save_matrix(path, kind(np.ones((500, 200), dtype=np.float32)))
    pool: Any = workers.pool()
    one, other = (Vectors(path, np.arange(500), 200) for _ in range(2))
    sent = pool._sent_as(one)
    assert isinstance(sent, ObjectRef) and pool._sent_as(one) is sent
    units = [pool.submit(lambda vectors, memory: float(vectors.load().sum()), one, memory=0) for _ in range(2)]
    assert [unit.result() for unit in units] == [1e5, 1e5]
    monkeypatch.setattr("traube.engine.ray_cluster.KEPT", 500_000)  # there is room for one
    pool._sent_as(other)
    assert pool._sent_as(one) is not sent  # it had to go, and is there again


@pytest.mark.usefixtures("nodes")
def test_no_node_is_idle_while_units_wait_for_the_one_that_holds_their_vectors(tmp_path: Path) -> None:
    save_matrix(path := tmp_path / "matrix.npy", np.ones((200, 200), dtype=np.float32))
    (started := tmp_path / "started").mkdir()

    def where(vectors: Vectors, memory: int) -> str:
        from ray import get_runtime_context

        node = str(get_runtime_context().get_node_id())
        (started / node).touch()
        for _ in range(30_000):  # until both have begun, which takes one of them seconds
            time.sleep(0.02)
            if len(list(started.iterdir())) == 2:
                break
        return node

    jobs = [Job(where, (Vectors(path, np.arange(200), 200),)) for _ in range(150)]
    found = Counter(node for _, node in run(jobs))
    assert len(found) == 2
    assert min(found.values()) > 60  # 30 by Ray's default: the one that holds them is asked first


@pytest.mark.usefixtures("nodes")
def test_a_unit_that_fails_costs_only_itself() -> None:
    def refuse(memory: int) -> None:
        raise DoesNotFit("too large")

    def die(memory: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    deadly, large, *good = jobs = [Job(die, ()), Job(refuse, ()), *(Job(sleeper(0.0), ()) for _ in range(4))]
    outcomes = dict(run(jobs))
    assert outcomes[large] == Failure("unavailable", "too large")
    assert isinstance(outcomes[deadly], Failure) and outcomes[deadly].status == "failed"
    assert outcomes[deadly].reason.startswith("lost on the Ray cluster (")
    assert [outcomes[job] for job in good] == [0.0] * 4


@pytest.mark.usefixtures("nodes")
def test_texts_are_encoded_by_a_process_on_each_core_to_the_last_digit(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traube.engine.ray_cluster.FEW", {"CPU": 20})
    model = Transformer(ModelCard(name="tiny", kind="transformer", model=str(tiny_bert), precision="bf16"), "cpu")
    texts = [f"the {'cat star ' * (i % 23)} soup {i}" for i in range(400)]
    assert len(model.shares(texts, 16, "cpu")) > 4
    vectors, encoded = embed(texts, model, EmbeddingCache(tmp_path), tmp_path / "matrix")
    assert encoded == 400
    np.testing.assert_array_equal(vectors.load(), model.encode(texts))


@pytest.fixture(scope="module")
def base(tiny_bert: Path) -> Transformer:
    return Transformer(ModelCard(name="tiny", kind="transformer", model=str(tiny_bert)), "cpu")


class Trained:
    """What trainings on a few texts make of them."""

    def __init__(
        self, base: Transformer, folder: Path, progress: Progress = SILENT, seeds: Sequence[int] = (1, 2)
    ) -> None:
        texts = [f"{a} {word} {b}" for word in ("cat", "dog") for a in ("the", "a", "soup") for b in ("star", "bread")]
        task = make_task(texts, [text.split()[1] for text in texts], name="pets")
        method = parse_method(
            "none/aecl", {"aecl": {"epochs": 24, "stage_1": 2, "stage_2": 2, "batch": 8, "augmentation": "eda"}}
        )
        asked = cells(task, base, Protocol(reducers=("none",), clusterers=("kmeans",)), methods=[method], seeds=seeds)
        vectors = embed(texts, base, EmbeddingCache(folder / "cache"), folder / "matrix")[0]
        store, self.clusters = Store(folder / "store"), dict[str, list[int]]()
        with closing(cluster(task, vectors, asked, store, progress, model=base)) as results:
            for result in results:
                assert result.assignments is not None, result.reason
                self.clusters[result.cell.cell_id] = result.assignments["cluster"].tolist()
        self.histories = {name: store.histories("pets", name) for name in self.clusters}


@pytest.fixture(scope="module")
def trained_here(base: Transformer, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAUBE_ENGINE", "local")
        return Trained(base, tmp_path_factory.mktemp("trained"))


def trainers() -> list[psutil.Process]:
    """The processes that train for a cluster of this machine."""
    return [p for p in psutil.process_iter(["cmdline"]) if "ray::Trainer" in "".join(p.info["cmdline"] or ())]


@pytest.mark.usefixtures("nodes")
def test_trainings_are_those_of_this_process_to_the_last_digit(
    base: Transformer, trained_here: Trained, tmp_path: Path
) -> None:
    assert workers.trainers(base, 2)
    assert not workers.trainers(base, 1)  # nothing would be gained
    there = Trained(base, tmp_path)
    assert (there.clusters, there.histories) == (trained_here.clusters, trained_here.histories)
    assert not list(tmp_path.rglob("training.pt"))
    wait_for(lambda: not trainers(), "the end of the trainings")


@pytest.fixture
def gpu(nodes: list[Any]) -> Iterator[None]:
    """A node that says that it has one."""
    node = nodes[0].add_node(num_cpus=1, num_gpus=1, object_store_memory=MEMORY)
    yield
    nodes[0].remove_node(node)


@pytest.mark.usefixtures("gpu")
def test_a_training_that_is_killed_goes_on_from_what_was_brought_here(
    base: Transformer, trained_here: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traube.engine.ray_actors.BROUGHT", 0.0)
    said: list[str] = []

    def kill(words: str) -> None:
        if said and "killed" not in said and list(tmp_path.rglob("training.pt")):
            [process] = trainers()
            process.kill()
            said.append("killed")
        said.append(words)

    there = Trained(base, tmp_path, Progress(said=kill), seeds=[1])
    assert "killed" in said
    assert sum(words.startswith("epoch 1:") for words in said) == 1
    for cell_id, clusters in there.clusters.items():
        assert clusters == trained_here.clusters[cell_id]
        assert there.histories[cell_id] == trained_here.histories[cell_id]


@pytest.mark.usefixtures("gpu")
def test_a_training_has_a_gpu_to_itself_and_ends_with_whoever_waits_for_it(base: Transformer, tmp_path: Path) -> None:
    def stop(words: str) -> None:
        import ray

        assert ray.available_resources().get("GPU", 0) == 0
        raise KeyboardInterrupt

    assert (workers.device(base, 500), workers.device(base, 501)) == ("cpu", "cuda")  # where texts are encoded
    with pytest.raises(KeyboardInterrupt):
        Trained(base, tmp_path, Progress(said=stop), seeds=[1])
    wait_for(lambda: not trainers(), "the end of the training")


def test_a_node_that_dies_in_the_middle_changes_nothing(
    nodes: list[Any], tiny_task: Task, here: Tables, tmp_path: Path
) -> None:
    cluster, second = nodes

    def kill(stage: str, amount: int) -> None:
        if stage == "clusterings" and second in cluster.worker_nodes:
            cluster.remove_node(second, allow_graceful=False)

    assert_same(evaluated(tiny_task, tmp_path, Progress(done=kill)), here)
    assert second not in cluster.worker_nodes


@pytest.mark.usefixtures("nodes")
def test_who_stops_listening_ends_what_is_under_way() -> None:
    outcomes = run([Job(sleeper(0.0), ()), *(Job(sleeper(900.0), ()) for _ in range(4))])
    next(outcomes)
    began = time.monotonic()
    outcomes.close()
    assert list(run([job := Job(sleeper(0.0), ())])) == [(job, 0.0)]  # on the only core
    assert time.monotonic() - began < 600


# what cannot be used is said in a line


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Ask for the workers, who cannot be had; what is said."""
    workers.stop()
    monkeypatch.setenv("TRAUBE_ENGINE", "ray")

    def ask() -> str:
        with pytest.raises(TraubeError) as raised:
            workers.pool()
        assert "\n" not in str(raised.value)
        return str(raised.value)

    yield ask
    workers.stop()


def test_a_wrong_token(refused: Callable[[], str], nodes: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private.authentication_test_utils import reset_auth_token_state

    with monkeypatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", "raisin" * 8)
        reset_auth_token_state()
        assert "token is missing or incorrect" in refused()
    reset_auth_token_state()


@pytest.mark.parametrize(("of", "version"), [("Ray", "1.0.0"), ("Python", "3.10.1")])
def test_another_version(
    refused: Callable[[], str], nodes: list[Any], monkeypatch: pytest.MonkeyPatch, of: str, version: str
) -> None:
    from ray._private import utils

    of_ray, of_python = utils.compute_version_info()
    here = {"Ray": of_ray, "Python": of_python} | {of: version}
    monkeypatch.setattr(utils, "compute_version_info", lambda: (here["Ray"], here["Python"]))
    assert "Version mismatch" in (said := refused()) and f"{of}: {version}" in said


def test_a_cluster_that_is_not_there(refused: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    assert refused().startswith("the engine is ray, and the cluster at 127.0.0.1:9 (RAY_ADDRESS) cannot be used: ")


def test_ray_that_is_not_installed(refused: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert refused() == (
        "the engine is ray, which is not installed: pip install 'traube[ray]', in a checkout make setup-scale"
    )


def test_an_engine_that_does_not_exist(refused: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAUBE_ENGINE", "dask")
    assert refused() == "unknown engine 'dask': there are: local, ray"


@pytest.mark.parametrize("address", [None, "local"])
def test_a_ray_that_is_started_here_listens_to_this_machine_alone(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(psutil.Process().children(recursive=True))
    workers.stop()
    monkeypatch.setenv("TRAUBE_ENGINE", "ray")
    monkeypatch.setenv("TRAUBE_WORKERS", "1")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    assert workers.count() == 1
    started = set(psutil.Process().children(recursive=True)) - before
    listening = [c for p in started for c in p.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert listening and {c.laddr.ip.removeprefix("::ffff:") for c in listening} == {"127.0.0.1"}
    workers.stop()
