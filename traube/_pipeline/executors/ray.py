"""The workers as cores of a Ray cluster (`TRAUBE_ENGINE=ray`), which Ray's own settings name (RAY_ADDRESS, TLS)."""

import logging
import os
import signal
import socket
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from traube._core.errors import NotInstalled, Unreachable, Unsafe, install_hint
from traube._core.progress import Progress
from traube._pipeline.executors.base import Executor
from traube._pipeline.executors.loky import ONE_THREAD
from traube._pipeline.executors.processes import cores
from traube._pipeline.executors.ray_errors import RETRIES, check, explain_error, shorten_message
from traube._pipeline.executors.ray_training import ToTrain, Trainings, train
from traube._pipeline.record import library_versions
from traube._pipeline.units import Trained, Training
from traube.models import Encoder, Model, Transformer, Vectors
from traube.models._vectors import Dense

PACKAGE = Path(__file__).parents[2]  # traube
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0: a Ray that is started here listens to 127.0.0.1 alone
SECONDS = 5  # time within which a cluster must answer
USUAL = 2**30  # bytes that a job may take on a node that has not started yet
INLINE = 100_000  # bytes; what is larger is put into the cluster's memory once, for all jobs
KEPT = 2**30  # bytes kept in the cluster's memory at once, besides what running jobs still use
FEW = {"GPU": 500, "CPU": 20_000}  # texts that are encoded here: processes elsewhere take seconds to begin
TRAINING = 6  # memory of a training over that of the weights: gradients, Adam's two moments, initial weights
SHARES = 8  # shares of the texts per encoding process, so that none waits long for the last
Batches = list[tuple[NDArray[np.int64], Dense]]


class RayExecutor(Executor):
    """A Ray cluster. Each job takes one of its cores."""

    def __init__(self) -> None:
        super().__init__()
        self._connection: Any = None
        self._call: Any = None
        self._sent: SentOnce | None = None
        # Traube itself is sent along
        self._versions = {name: version for name, version in library_versions().items() if name != "traube"}

    @property
    def _ray(self) -> Any:
        self.start()
        return self._connection

    def start(self) -> None:
        """Connect to the cluster."""
        if self._connection is None:
            ray = self._connection = _connect()
            self._sent = SentOnce(ray.put)
            # by default jobs wait for the node that holds what they are sent, this one, while others are idle
            self._call = ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD")(_call)

    def close(self, kill: bool = False) -> None:
        """Let go of the cluster, which ends what is under way there for this process."""
        ray, self._connection, self._sent = self._connection, None, None
        if ray is not None:
            ray.shutdown()
        super().close(kill)

    @property
    def n_workers(self) -> int:
        """Number of the cluster's cores as they are now: it may grow."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def memory(self, needs: int = 0) -> int:
        """Return half a core's share of the node that has least, or what is needed, if any node has that much."""
        nodes = [node for node in self._list_nodes() if node.get("CPU")]
        if not nodes:  # a node is started on request
            return max(needs, USUAL)
        share = min(node.get("memory", 0) / (2 * node["CPU"]) for node in nodes)
        return self._limit_memory(max(int(share), needs))

    def submit(self, function: Callable[..., Any], *args: Any, memory: int) -> Future[Any]:
        """Send a job. Its memory is set aside for it, where it runs."""
        if self._sent is None:
            raise RuntimeError("the workers are not started")
        call = self._call.options(num_cpus=1, memory=memory)
        called: Future[Any] = call.remote(self._versions, function, memory, *map(self._sent, args)).future()
        return called

    @override
    def explain(self, error: BaseException) -> BaseException:
        return explain_error(error)

    def encode_batches(self, encoder: Encoder, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Dense]]:
        """Yield positions and vectors of texts, by the cluster's GPUs or its cores; by this process, if nearer."""
        if not self._is_spread(encoder, len(texts)):
            yield from encoder.encode_batches(texts)
            return
        # the weights are held twice: as they are sent, and as they are used
        resources = self._choose_resources(2 * encoder.load())
        number = self._count_room(resources)
        shares = encoder.shares(texts, SHARES * number, "cuda" if resources["num_gpus"] else "cpu")
        holder = self._ray.remote(max_restarts=RETRIES, max_task_retries=RETRIES, **resources)(Holder)
        network = self._ray.put(encoder.network)
        holders = [holder.remote(self._versions, encoder, network) for _ in range(min(number, len(shares)))]
        for share, batches in _encode_shares(self._ray, holders, [[texts[i] for i in share] for share in shares]):
            yield from ((shares[share][positions], block) for positions, block in batches)

    @override
    def device(self, model: Model, n_texts: int) -> str:
        return {"GPU": "cuda", "CPU": "cpu"}[self._find_kind()] if self._is_spread(model, n_texts) else model.device

    def trains(self, model: Model, n_trainings: int) -> bool:
        """Return whether the cluster does so many trainings: on its GPUs, or on CPUs, where these do several at once."""
        if not self._is_sent(model):
            return False
        if self._find_kind() == "GPU":
            return True
        return n_trainings > 1 and self._count_room(self._choose_training_resources(model)) > 1

    def train(
        self, trainings: Iterator[tuple[Any, Training, Path]], model: Model, progress: Progress
    ) -> Generator[tuple[Any, Trained | BaseException], None, None]:
        """Yield what becomes of each training: each has a GPU, or without one, as many cores as torch has here."""
        import torch

        assert isinstance(model, Transformer)  # `trains` has returned False for any other
        resources = self._choose_training_resources(model)
        task = self._ray.remote(num_returns="streaming", max_retries=0, **resources)(train)
        sent = ToTrain(self._versions, model, model.fingerprint, torch.get_num_threads())
        work = Trainings(self._ray, task, sent, self._ray.put(model.network), progress)
        yield from work.outcomes(trainings, lambda: self._count_room(resources))

    def _choose_training_resources(self, model: Transformer) -> dict[str, float]:
        import torch

        most = max((node.get("CPU", 0) for node in self._list_nodes()), default=1)
        return self._choose_resources(TRAINING * model.load(), max(1, min(torch.get_num_threads(), int(most))))

    def _choose_resources(self, needs: int, n_cores: int = 1) -> dict[str, float]:
        """Return the resources set aside for a process with a model: a core and a GPU, or where the cluster has none, cores."""
        has_gpu = self._find_kind() == "GPU"
        return {"num_cpus": 1 if has_gpu else n_cores, "num_gpus": int(has_gpu), "memory": self._limit_memory(needs)}

    def _list_nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _limit_memory(self, needs: int) -> int:
        """Return the needed memory, but no more than any node has: nobody would ever be given that."""
        return int(min(needs, max((node.get("memory", 0) for node in self._list_nodes()), default=needs)))

    def _count_room(self, resources: Mapping[str, float]) -> int:
        """Return how many processes with such requests the cluster has room for, as it is now; at least 1."""
        names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
        nodes, amounts = self._list_nodes(), {names[name]: amount for name, amount in resources.items() if amount}
        room = [min(node.get(name, 0) // amount for name, amount in amounts.items()) for node in nodes]
        return max(1, int(sum(room)))

    def _find_kind(self) -> str:
        return "GPU" if self._ray.cluster_resources().get("GPU") else "CPU"

    def _is_sent(self, encoder: Model) -> TypeGuard[Transformer]:
        """Return whether an encoder may compute on the cluster: not on its CPUs where there is a GPU here."""
        return isinstance(encoder, Transformer) and (self._find_kind() == "GPU" or encoder.device == "cpu")

    def _is_spread(self, encoder: Model, n_texts: int) -> TypeGuard[Transformer]:
        return self._is_sent(encoder) and n_texts > FEW[self._find_kind()]


class Holder:
    """Holds a model where it computes."""

    def __init__(self, versions: dict[str, str], encoder: Transformer, network: Any) -> None:
        self._versions = versions
        self._encoder = encoder.with_network_of_elsewhere(network)

    def encode(self, texts: Sequence[str]) -> Batches:
        """Encode texts, after a check of the libraries' versions."""
        check(self._versions)
        return list(self._encoder.encode_batches(texts)) if texts else []


def _encode_shares(ray: Any, holders: Sequence[Any], shares: Sequence[Sequence[str]]) -> Iterator[tuple[int, Batches]]:
    """Yield the number and batches of each share of the texts as they are ready; Ray starts a dead holder again."""
    waiting, unfinished = deque(range(len(shares))), len(shares)
    # a holder has no share until it has begun: one that finds no room would keep it for good
    running: dict[Any, tuple[Any, int | None]] = {holder.encode.remote(()): (holder, None) for holder in holders}
    try:
        while unfinished:
            [ready], _ = ray.wait(list(running), num_returns=1)
            holder, share = running.pop(ready)
            try:
                batches = ray.get(ready)
            except Exception as error:
                raise explain_error(error) from None
            if waiting:
                following = waiting.popleft()
                running[holder.encode.remote(shares[following])] = holder, following
            else:
                ray.kill(holder)  # other processes may need its resources
            if share is not None:
                unfinished -= 1
                yield share, batches
    finally:
        for holder, _ in running.values():
            ray.kill(holder)


class SentOnce:
    """Replacements for the arguments of jobs: what is large is put into the cluster's memory once, by `put`."""

    def __init__(self, put: Callable[[Any], Any]) -> None:
        self._put, self._bytes = put, 0
        # holds the value: no other object gets its id
        self._kept: OrderedDict[int, tuple[Any, Any, int]] = OrderedDict()

    def __call__(self, value: Any) -> Any:
        """Return the replacement for an argument. Vectors hold what they view: no other machine needs their file."""
        if id(value) in self._kept:
            self._kept.move_to_end(id(value))
            return self._kept[id(value)][1]
        held = value.load_into_memory() if isinstance(value, Vectors) else value
        size = sum(map(len, held)) if isinstance(held, list) else int(getattr(held, "nbytes", 0))
        if size < INLINE and held is value:
            return value
        given = held if size < INLINE else self._put(held)
        self._kept[id(value)] = value, given, size
        self._bytes += size
        while self._bytes > KEPT:
            self._bytes -= self._kept.popitem(last=False)[1][2]
        return given


def _call(versions: dict[str, str], function: Callable[..., Any], memory: int, *args: Any) -> Any:
    check(versions)
    # in the cluster's memory an array is read by all: here, as in a process of one's own, it may be written
    writable_args = (
        value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value for value in args
    )
    return function(*writable_args, memory=memory)


def _connect() -> Any:
    """Return Ray, connected to the cluster that RAY_ADDRESS names, or to one that is started here."""
    address = os.environ.get("RAY_ADDRESS") or "local"  # Ray's name for a cluster that is started here
    is_here = address == "local"
    # Ray reads these when it is imported
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # by default Ray retries forever
    if is_here:
        os.environ[LOOPBACK] = "0"  # it would listen on all addresses
    else:
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")  # by default Ray retries for eight minutes
    try:
        import ray
    except ImportError:
        raise NotInstalled(f"the engine is ray, which is not installed: {install_hint('ray')}") from None
    if is_here and not ip_address(ray.util.get_node_ip_address()).is_loopback:
        raise Unsafe(
            "the engine is ray, and a Ray on this machine would listen on all its addresses, because ray was imported "
            f"before: set {LOOPBACK}=0 first"
        )
    logging.getLogger("ray").setLevel(logging.ERROR)
    own_handler = signal.getsignal(signal.SIGTERM)  # Ray replaces the handler
    here = {"num_cpus": cores(), "include_dashboard": False} if is_here else {}
    try:
        host, _, port = address.rpartition("://")[2].rpartition(":")
        if port.isdigit():  # if nothing answers there, Ray would wait for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
        ray.init(
            address=address,
            configure_logging=False,
            log_to_driver=False,
            # the code is the driver's, wherever it runs
            runtime_env={"env_vars": ONE_THREAD, "py_modules": [str(PACKAGE)]},
            **here,
        )
    except Exception as error:  # the type depends on the fault
        ray.shutdown()  # close what has been started
        where = "a Ray on this machine" if is_here else f"the cluster at {address} (RAY_ADDRESS)"
        raise Unreachable(
            f"the engine is ray, and {where} cannot be used: {shorten_message(error.__cause__ or error)}"
        ) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, own_handler)
    return ray
