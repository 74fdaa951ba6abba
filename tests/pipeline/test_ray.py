"""Jobs on a Ray cluster: of two nodes with one core each, on this machine.

The tests share it, in their order: one of them kills a node.
"""

import os
import signal
import subprocess
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

from tests.errors import refused
from tests.made import cells_of
from tests.waiting import wait_for
from traube._core.errors import DoesNotFit, Incompatible, NotInstalled
from traube._core.progress import SILENT, Progress
from traube._pipeline.cluster import cluster_cells
from traube._pipeline.embed import embed
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.executors import Executor, Failure, Job, ProcessExecutor
from traube._pipeline.executors.ray import Holder, RayExecutor, SentOnce
from traube._pipeline.executors.ray_errors import shorten_message
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import library_versions
from traube._storage import Storage, open_storage
from traube.components import parse_method
from traube.models import Vectors, load_model
from traube.models.card import ModelCard
from traube.models.transformer import Transformer
from traube.models.vectors import pack_matrix
from traube.tasks.task import Task, make_task

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed: make setup-scale"),
]
METHODS = ["none/kmeans", "pca/kmeans", "pca/hdbscan", "none/agglomerative"]
MEMORY = 120 * 2**20  # of a node's object store
Tables = tuple[pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Any]]:
    """A cluster that does this module's work, and its second node."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # nothing is started that is not used
        for module in ("ray", "ray_training"):
            patch.setattr(f"traube._pipeline.executors.{module}.RETRIES", 1)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": MEMORY})
        second = cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
        patch.setenv("RAY_ADDRESS", cluster.address)
        yield [cluster, second]
        cluster.shutdown()


@pytest.fixture(scope="module")
def executor(nodes: list[Any]) -> Iterator[RayExecutor]:
    with RayExecutor() as executor:
        yield executor


def evaluated(task: Task, folder: Path, executor: Executor, progress: Progress = SILENT) -> Tables:
    tables = evaluate_cells(task, load_model("bow"), cells_of(task, *METHODS), folder, executor, progress)
    order = ["cell_id", "split", "level", "metric", "item"]
    return tuple(t.sort_values([c for c in order if c in t]).reset_index(drop=True) for t in tables)


@pytest.fixture(scope="module")
def here(tiny_task: Task, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Return the results of local processes for the cells."""
    with ProcessExecutor() as executor:
        return evaluated(tiny_task, tmp_path_factory.mktemp("local"), executor)


def assert_same(one: Tables, other: Tables) -> None:
    for first, second in zip(one, other, strict=True):
        pd.testing.assert_frame_equal(first, second, check_exact=True)


def sleeper(seconds: float) -> Callable[[int], float]:
    """A unit of work that takes its time. Functions of functions are sent whole: no worker has this file."""

    def unit(memory: int) -> float:
        time.sleep(seconds)
        return seconds

    return unit


def test_scores_are_those_of_local_processes(
    tiny_task: Task, here: Tables, tmp_path: Path, executor: RayExecutor
) -> None:
    assert_same(evaluated(tiny_task, tmp_path, executor), here)


def test_the_clusters_cores_are_the_workers_and_what_a_job_needs_is_set_aside_for_it(executor: RayExecutor) -> None:
    assert executor.n_workers == 2
    usual = executor.memory()
    assert 0 < usual < executor.memory(usual + 1) == usual + 1
    assert executor.memory(2**60) < 2**60  # what no node has is not given: the unit refuses, and says so


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_vectors_are_sent_once_for_all_jobs_that_need_them(
    kind: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: RayExecutor
) -> None:
    import ray

    path = tmp_path / "matrix"
    path.write_bytes(pack_matrix(kind(np.ones((500, 200), dtype=np.float32))))
    executor.start()
    one, other = (Vectors(path, np.arange(500), 200) for _ in range(2))
    sent = SentOnce(ray.put)
    given = sent(one)
    assert isinstance(given, ray.ObjectRef) and sent(one) is given
    units = [executor.submit(lambda vectors, memory: float(vectors.load().sum()), one, memory=0) for _ in range(2)]
    assert [unit.result() for unit in units] == [1e5, 1e5]
    size = one.load_into_memory().nbytes
    monkeypatch.setattr("traube._pipeline.executors.ray.KEPT", size)  # there is room for one
    assert sent(other) is sent(other)
    assert sent(one) is not given  # it had to go, and is there again


def test_no_node_is_idle_while_jobs_wait_for_another_one(tmp_path: Path, executor: RayExecutor) -> None:
    (path := tmp_path / "matrix").write_bytes(pack_matrix(np.ones((200, 200), dtype=np.float32)))
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
    found = Counter(node for _, node in executor.run(jobs))
    assert len(found) == 2
    assert min(found.values()) > 60  # 30 by Ray's default: the one that holds them is requested first


def test_a_job_that_fails_costs_only_itself(executor: RayExecutor) -> None:
    def refuse(memory: int) -> None:
        raise DoesNotFit("too large")

    def fail(memory: int) -> None:
        raise ValueError("a negative weight")

    def die(memory: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    deadly, large, wrong, *good = jobs = [
        *(Job(unit, ()) for unit in (die, refuse, fail)),
        *(Job(sleeper(0.0), ()) for _ in range(4)),
    ]
    outcomes = dict(executor.run(jobs))
    assert outcomes[large] == Failure("unavailable", "too large")
    assert outcomes[wrong] == Failure("failed", "a negative weight")
    assert isinstance(outcomes[deadly], Failure) and outcomes[deadly].status == "failed"
    assert [outcomes[job] for job in good] == [0.0] * 4


def test_texts_are_encoded_by_a_process_on_each_core_to_the_last_digit(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: RayExecutor
) -> None:
    monkeypatch.setattr("traube._pipeline.executors.ray.FEW", {"CPU": 20})
    model = Transformer(ModelCard(name="tiny", kind="transformer", model=str(tiny_bert), precision="bf16"), "cpu")
    texts = [f"the {'cat star ' * (i % 23)} soup {i}" for i in range(400)]
    assert len(model.shares(texts, 16, "cpu")) > 4
    vectors, encoded = embed(texts, model, Storage(tmp_path), "", executor=executor)
    assert encoded == 400
    np.testing.assert_array_equal(vectors.load(), model.encode(texts))

    batches = executor.encode_batches(model, texts)
    found = [next(batches)]
    processes("Holder")[0].kill()  # its share is encoded again
    while sum(len(positions) for positions, _ in found) < 400:
        found.append(next(batches))
    # they end with the last text: others need their cores, whatever the caller still does with its vectors
    wait_for(lambda: not processes("Holder"), "the end of the processes that encode")
    assert next(batches, None) is None
    assert sorted(np.concatenate([positions for positions, _ in found])) == list(range(400))


def test_a_node_with_other_libraries_encodes_nothing(base: Transformer) -> None:
    versions = library_versions()
    ((_, vectors),) = Holder(versions, base, base.network).encode(["the cat star"])
    np.testing.assert_array_equal(vectors, base.encode(["the cat star"]))
    with refused(Incompatible, "numpy", "not 0.0"):
        Holder({**versions, "numpy": "0.0"}, base, base.network).encode(["the cat star"])


def processes(name: str) -> list[psutil.Process]:
    """The processes that encode (`Holder`) or train (`train`) for a cluster of this machine."""
    return [p for p in psutil.process_iter(["cmdline"]) if f"ray::{name}" in "".join(p.info["cmdline"] or ())]


class Trained:
    """Return the results of trainings on a few texts."""

    def __init__(
        self,
        base: Transformer,
        folder: Path,
        executor: Executor,
        progress: Progress = SILENT,
        seeds: Sequence[int] = (1, 2),
        epochs: int = 24,
    ) -> None:
        texts = [f"{a} {word} {b}" for word in ("cat", "dog") for a in ("the", "a", "soup") for b in ("star", "bread")]
        task = make_task(texts, [text.split()[1] for text in texts], name="pets")
        method = parse_method(
            "none/aecl", {"aecl": {"epochs": epochs, "stage_1": 2, "stage_2": 2, "batch": 8, "augmentation": "eda"}}
        )
        requested = cells(
            task, base, Protocol(reducers=("none",), clusterers=("kmeans",)), methods=[method], seeds=seeds
        )
        vectors = embed(texts, base, Storage(folder), "")[0]
        storage, self.clusters, self.histories = open_storage(folder), dict[str, list[int]](), dict[str, Any]()
        with closing(cluster_cells(task, vectors, requested, storage, executor, progress, model=base)) as results:
            for result in results:
                assert result.assignments is not None, result.reason
                self.clusters[result.cell.cell_id] = result.assignments["cluster"].tolist()
                self.histories[result.cell.cell_id] = result.histories


@pytest.fixture(scope="module")
def trained_here(base: Transformer, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(base, tmp_path_factory.mktemp("trained"), ProcessExecutor())


def test_trainings_are_those_of_this_process_to_the_last_digit(
    base: Transformer, trained_here: Trained, tmp_path: Path, executor: RayExecutor
) -> None:
    assert executor.trains(base, 2)
    assert not executor.trains(base, 1)  # nothing would be gained
    there = Trained(base, tmp_path, executor)
    assert (there.clusters, there.histories) == (trained_here.clusters, trained_here.histories)
    assert not list(tmp_path.rglob("training.pt"))
    wait_for(lambda: not processes("train"), "the end of the trainings")


@pytest.fixture
def gpu(nodes: list[Any]) -> Iterator[None]:
    """A node that says that it has one."""
    node = nodes[0].add_node(num_cpus=1, num_gpus=1, object_store_memory=MEMORY)
    yield
    nodes[0].remove_node(node)


@pytest.mark.usefixtures("gpu")
def test_a_training_that_is_killed_goes_on_from_what_was_brought_here(
    base: Transformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: RayExecutor
) -> None:
    for seconds, name in ((0.0, "BROUGHT"), (0.1, "LISTENS")):
        monkeypatch.setattr(f"traube._pipeline.executors.ray_training.{name}", seconds)
    said: list[str] = []

    def kill(words: str) -> None:
        if said and "killed" not in said and list(tmp_path.rglob("training.pt")):
            for process in processes("train"):
                process.kill()
                said.append("killed")
        said.append(words)

    epochs = 48  # a second or more: news come ten times a second
    there = Trained(base, tmp_path / "there", executor, Progress(said=kill), seeds=[1], epochs=epochs)
    assert "killed" in said
    assert sum(words.startswith("epoch 1:") for words in said) == 1
    here = Trained(base, tmp_path / "here", ProcessExecutor(), seeds=[1], epochs=epochs)
    assert (there.clusters, there.histories) == (here.clusters, here.histories)


@pytest.mark.usefixtures("gpu")
def test_a_training_has_a_gpu_and_ends_with_who_waits(base: Transformer, tmp_path: Path, executor: RayExecutor) -> None:
    def stop(words: str) -> None:
        import ray

        assert ray.available_resources().get("GPU", 0) == 0
        raise KeyboardInterrupt

    assert (executor.device(base, 500), executor.device(base, 501)) == ("cpu", "cuda")  # where texts are encoded
    with pytest.raises(KeyboardInterrupt):
        Trained(
            base, tmp_path, executor, Progress(said=stop), seeds=[1], epochs=240
        )  # some seconds: news come each second
    wait_for(lambda: not processes("train"), "the end of the training")


def test_a_node_that_dies_in_the_middle_changes_nothing(
    nodes: list[Any], tiny_task: Task, here: Tables, tmp_path: Path, executor: RayExecutor
) -> None:
    cluster, second = nodes

    def kill(stage: str, amount: int) -> None:
        if stage == "clusterings" and second in cluster.worker_nodes:
            cluster.remove_node(second, allow_graceful=False)

    assert_same(evaluated(tiny_task, tmp_path, executor, Progress(done=kill)), here)
    assert second not in cluster.worker_nodes


def test_who_stops_listening_ends_what_is_under_way(executor: RayExecutor) -> None:
    outcomes = executor.run([Job(sleeper(0.0), ()), *(Job(sleeper(900.0), ()) for _ in range(4))])
    next(outcomes)
    began = time.monotonic()
    outcomes.close()
    assert list(executor.run([job := Job(sleeper(0.0), ())])) == [(job, 0.0)]  # on the only core
    assert time.monotonic() - began < 600


# what cannot be used is said in a line


def explain_refusal(code: str = "", **environment: str) -> str:
    """Ask for the workers in a process of its own, since Ray reads its settings once; what is said."""
    script = (
        f"{code}\n"
        "from traube._pipeline.executors.ray import RayExecutor\n"
        "from traube._core.errors import TraubeError\n"
        "try:\n    RayExecutor().start()\n"
        "except TraubeError as error:\n    print(error, end='')\n"
    )
    command = [sys.executable, "-c", script]
    of_shell = {name: value for name, value in os.environ.items() if name != "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"}
    said = subprocess.run(command, env={**of_shell, **environment}, capture_output=True, text=True, check=True).stdout
    assert "\n" not in said
    return said


@pytest.mark.usefixtures("nodes")
def test_a_wrong_token() -> None:
    assert "token is missing or incorrect" in explain_refusal(RAY_AUTH_TOKEN="raisin" * 8)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RuntimeError(
                "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\nThis process has:\n    Ray: 1.0.0\n"
            ),
            "Version mismatch: The cluster was started with: Ray: 2.60.0 This process has: Ray: 1.0.0",
        ),
        (
            RuntimeError("Traceback (most recent call last):\n  File 'x'\nOSError: [Errno 28] full\n"),
            "OSError: [Errno 28] full",
        ),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_what_ray_says_over_several_lines_is_one(error: Exception, line: str) -> None:
    assert shorten_message(error) == line


def test_a_cluster_that_is_not_there() -> None:
    said = explain_refusal(RAY_ADDRESS="127.0.0.1:9")
    assert "127.0.0.1:9" in said and "RAY_ADDRESS" in said


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused(NotInstalled, "traube[ray]", "make setup-scale"):
        RayExecutor().start()


@pytest.mark.usefixtures("nodes")
def test_a_ray_that_was_imported_before_is_not_started_open_to_all() -> None:
    said = explain_refusal("import ray", RAY_ADDRESS="")
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0" in said


def test_a_ray_that_is_started_here_listens_to_this_machine_alone_and_ends(tmp_path: Path) -> None:
    script = tmp_path / "here.py"
    script.write_text(
        "import signal, psutil\n"
        "from traube._pipeline.executors.ray import RayExecutor\n"
        "signal.signal(signal.SIGTERM, handler := lambda number, frame: None)\n"
        "with RayExecutor() as executor:\n"
        "    assert executor.n_workers == 1\n"
        "    assert signal.getsignal(signal.SIGTERM) is handler\n"
        "    started = psutil.Process().children(recursive=True)\n"
        "    listening = [c for p in started for c in p.net_connections('inet') if c.status == psutil.CONN_LISTEN]\n"
        "    print(*{c.laddr.ip.removeprefix('::ffff:') for c in listening})\n"
        "assert not psutil.wait_procs(started, timeout=600)[1]\n"
    )
    environment = {**os.environ, "RAY_ADDRESS": "", "TRAUBE_WORKERS": "1"}  # as "local", Ray's own name for it
    command = [sys.executable, str(script)]
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said == "127.0.0.1\n"
