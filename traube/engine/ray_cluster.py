"""Units of work on a Ray cluster, in place of processes of this machine (`TRAUBE_ENGINE=ray`).

To whoever asks, it is an executor like any other. What the units do is told by
`traube.engine.workers`; here is what they are sent, what they may take of the cluster, and what
becomes of them when a part of it is lost. Where the cluster is, and how one is let in, are Ray's own
settings (RAY_ADDRESS, its token and TLS).
"""

import logging
import os
import signal
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traube.benchmark.record import library_versions
from traube.engine.progress import Progress
from traube.engine.ray_actors import RETRIES, Holder, Shares, Trainer, Trainings
from traube.engine.ray_errors import check, in_a_line, in_words
from traube.engine.units import Trained, Training
from traube.foundation.errors import TraubeError
from traube.foundation.extras import install_hint
from traube.models import Encoder, Model, Transformer, Vectors
from traube.models.vectors import Dense

logger = logging.getLogger(__name__)

PACKAGE = Path(__file__).parents[1]  # traube
SECONDS = 5  # that a cluster may take to answer
USUAL = 2**30  # bytes that a unit may take of a node that is not there yet
INLINE = 100_000  # bytes; what is larger is put into the cluster's memory once, for all units
KEPT = 2**30  # bytes that are there at once, besides what units under way still use
FEW = {"GPU": 500, "CPU": 20_000}  # texts that are encoded here: processes elsewhere take seconds to begin
TRAINING = 6  # times the weights: their gradients, Adam's two means, what they begin as
SHARES = 8  # of the texts, for each process that encodes them: none waits long for the last


class RayPool(Executor):
    """A Ray cluster. Each unit of work takes one of its cores.

    Parameters
    ----------
    environment : variables of the processes that do the work
    cores : of this machine, for a Ray that is started here because no RAY_ADDRESS names another

    Raises
    ------
    TraubeError
        If Ray is not installed, or the cluster cannot be reached or is of another version.
    """

    def __init__(self, environment: dict[str, str], cores: int) -> None:
        self._ray = _connected(environment, cores)
        # by default units wait for the node that holds what they are sent, this one, while others are idle
        self._unit = self._ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD")(_unit)
        # Traube itself is sent along
        self._versions = {name: version for name, version in library_versions().items() if name != "traube"}
        self._running: dict[_Told, Any] = {}
        self._sent: OrderedDict[int, _Sent] = OrderedDict()
        self._bytes = 0  # of all that is sent

    def count(self) -> int:
        """The cluster's cores as they are now: it may grow."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def memory(self, needs: int) -> int:
        """Bytes that a unit may take: half a core's share of the node that has least, or what the unit
        needs, if any node has that much.
        """
        nodes = [node for node in self._nodes() if node.get("CPU")]
        if not nodes:  # one is started for whoever asks
            return max(needs, USUAL)
        share = min(node.get("memory", 0) / (2 * node["CPU"]) for node in nodes)
        return self._at_most(max(int(share), needs))

    def _at_most(self, needs: int) -> int:
        """What is needed, but no more than any node has: nobody would ever be given that."""
        return int(min(needs, max((node.get("memory", 0) for node in self._nodes()), default=needs)))

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send a unit of work. What it is given as `memory` is set aside for it, where it runs."""
        unit = self._unit.options(num_cpus=1, memory=kwargs.get("memory", 0))
        reference = unit.remote(self._versions, function, kwargs, *map(self._sent_as, args))
        told = _Told(lambda: self._ray.cancel(reference, force=True))
        self._running[told] = reference
        reference.future().add_done_callback(lambda found: self._tell(told, found))
        return told

    def _sent_as(self, value: Any) -> Any:
        """What a unit is given for an argument. Vectors hold what they are views of: no other machine
        need see their file.
        """
        if id(value) in self._sent:
            self._sent.move_to_end(id(value))
            return self._sent[id(value)].given
        held = value.held() if isinstance(value, Vectors) else value
        size = _size(held)
        if size < INLINE and held is value:
            return value
        given = held if size < INLINE else self._ray.put(held)
        self._sent[id(value)] = _Sent(value, given, size)
        self._bytes += size
        while self._bytes > KEPT:
            self._bytes -= self._sent.popitem(last=False)[1].size
        return given

    def _tell(self, told: "_Told", found: Future[Any]) -> None:
        self._running.pop(told, None)
        if not told.set_running_or_notify_cancel():
            return
        error = found.exception()
        if error is None:
            told.set_result(found.result())
        else:
            told.set_exception(in_words(error))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False, kill_workers: bool = False) -> None:
        """Let go of the cluster, which ends what is under way there for this process."""
        for told in list(self._running):
            told.cancel()
        self._sent.clear()
        self._ray.shutdown()

    def encode_batches(self, encoder: Encoder, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Dense]]:
        """What the encoder's own gives, by a process on each GPU of the cluster, or on each core where it
        has none; by this process, where that is nearer.
        """
        if not isinstance(encoder, Transformer) or not self._is_spread(encoder, len(texts)):
            return encoder.encode_batches(texts)
        return self._spread(encoder, texts, self._kind())

    def device(self, encoder: Model, texts: int) -> str:
        """Where so many texts are encoded."""
        return {"GPU": "cuda", "CPU": "cpu"}[self._kind()] if self._is_spread(encoder, texts) else encoder.device

    def _is_spread(self, encoder: Model, texts: int) -> bool:
        return self._is_sent(encoder) and texts > FEW[self._kind()]

    def _kind(self) -> str:
        return "GPU" if self._ray.cluster_resources().get("GPU") else "CPU"

    def _is_sent(self, encoder: Model) -> bool:
        """Whether an encoder may compute on the cluster: not on its CPUs where there is a GPU here."""
        return isinstance(encoder, Transformer) and (self._kind() == "GPU" or encoder.device == "cpu")

    def _spread(
        self, encoder: Transformer, texts: Sequence[str], kind: str
    ) -> Iterator[tuple[NDArray[np.int64], Dense]]:
        memory = self._at_most(2 * encoder.load())  # as the weights come, and as they are used
        asked = {"num_cpus": 1, "memory": memory, **({"num_gpus": 1} if kind == "GPU" else {})}
        number = self._room(asked)
        model = (self._versions, encoder, self._ray.put(encoder.network))
        shares = encoder.shares(texts, SHARES * number, "cuda" if kind == "GPU" else "cpu")
        given = [(share, [texts[i] for i in share]) for share in shares]
        work = Shares(self._ray, self._ray.remote(**asked)(Holder), model, given)
        try:
            for share, batches in work.done(min(number, len(shares))):
                yield from ((share[positions], block) for positions, block in batches)
        finally:
            work.end()

    def _room(self, asked: Mapping[str, float]) -> int:
        """How many processes the cluster has room for that ask for so much, as it is now; at least 1."""
        names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
        return max(
            1,
            sum(
                int(min(node.get(names[name], 0) // amount for name, amount in asked.items() if amount))
                for node in self._nodes()
            ),
        )

    def trains(self, model: Model, trainings: int) -> bool:
        """Whether so many trainings of a model are done by the cluster: on its GPUs, or on its CPUs, where
        these do several at once.
        """
        if not isinstance(model, Transformer) or not self._is_sent(model):
            return False
        return self._kind() == "GPU" or (trainings > 1 and self._room(self._asked_to_train(model)) > 1)

    def train(
        self, asked: Iterator[tuple[Any, Training, Path]], model: Model, progress: Progress
    ) -> Generator[tuple[Any, Trained | BaseException], None, None]:
        """What becomes of each training, under its name, as they end: each by a process that has a GPU to
        itself, or where the cluster has none, as many cores as torch uses here.

        Parameters
        ----------
        asked : name, training, and the folder here of what it goes on from
        """
        import torch

        assert isinstance(model, Transformer)  # or `trains` has said no
        needs = self._asked_to_train(model)
        kind = self._ray.remote(max_concurrency=3, **needs)(Trainer)  # it trains, is asked for news, and is stopped
        sent = (self._versions, model, model.fingerprint, self._ray.put(model.network))
        work = Trainings(self._ray, kind, sent, torch.get_num_threads(), progress)
        try:
            yield from work.outcomes(asked, lambda: self._room(needs))
        finally:
            work.end()

    def _asked_to_train(self, model: Transformer) -> dict[str, float]:
        import torch

        memory = self._at_most(TRAINING * model.load())
        if self._kind() == "GPU":
            return {"num_cpus": 1, "num_gpus": 1, "memory": memory}
        most = max((node.get("CPU", 0) for node in self._nodes()), default=1)
        return {"num_cpus": max(1, min(torch.get_num_threads(), int(most))), "memory": memory}


class _Told(Future[Any]):
    """What is told of a unit. To cancel it ends it, even if it has begun."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__()
        self._end = end

    def cancel(self) -> bool:
        cancelled = super().cancel()
        if cancelled:
            self._end()
        return cancelled


class _Sent(NamedTuple):
    """An argument of units. The value is kept, so that no other has its id."""

    value: Any
    given: Any
    size: int


def _size(value: Any) -> int:
    """Bytes of an argument, about."""
    if isinstance(value, list):
        return sum(map(len, value))
    return int(getattr(value, "nbytes", 0))


def _unit(versions: dict[str, str], function: Callable[..., Any], named: dict[str, Any], *args: Any) -> Any:
    check(versions)
    # in the cluster's memory an array is read by all: here, as in a process of one's own, it may be written
    own = (value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value for value in args)
    return function(*own, **named)


def _connected(environment: dict[str, str], cores: int) -> Any:
    """Ray, connected to the cluster that RAY_ADDRESS names, or to one that is started here."""
    address = os.environ.get("RAY_ADDRESS")
    if address == "local":  # Ray's word for one that is started here
        address = None
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # by itself Ray would try for ever
    try:
        import ray
        from ray._private import ray_constants, worker
    except ImportError:
        raise TraubeError(f"the engine is ray, which is not installed: {install_hint('ray')}") from None
    logging.getLogger("ray").setLevel(logging.ERROR)
    worker.print_to_stdstream = _say  # of what happens to nodes Ray prints many lines, among ours
    if address:
        ray_constants.NUM_REDIS_GET_RETRIES = 1  # it would try for eight minutes
    else:
        # Ray's way to keep to the loopback address; it would listen on all
        os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
        ray_constants.ENABLE_RAY_CLUSTER = False
    here = {} if address else {"num_cpus": cores, "include_dashboard": False}
    try:
        _answers(address)
        with _own_signals():
            ray.init(
                address=address or "local",
                configure_logging=False,
                log_to_driver=False,
                # the code is the driver's, wherever it runs
                runtime_env={"env_vars": environment, "py_modules": [str(PACKAGE)]},
                **here,
            )
    except Exception as error:  # of many kinds, by what is wrong with it
        ray.shutdown()  # of what has begun
        where = f"the cluster at {address} (RAY_ADDRESS)" if address else "a Ray on this machine"
        raise TraubeError(
            f"the engine is ray, and {where} cannot be used: {in_a_line(error.__cause__ or error)}"
        ) from None
    return ray


def _say(data: dict[str, Any], **_: Any) -> None:
    for told in data.get("lines", ()):
        logger.warning("Ray: %s", " ".join(str(told).splitlines()[:1])[:200])


def _answers(address: str | None) -> None:
    """Raise OSError if nothing is at an address: Ray would wait for minutes."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray puts a handler of its own in the place of ours."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
