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
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traube.benchmark.record import library_versions
from traube.foundation.errors import DoesNotFit, TraubeError
from traube.models import Encoder, Transformer, Vectors
from traube.models.base import Dense

logger = logging.getLogger(__name__)

PACKAGE = Path(__file__).parents[1]  # traube
RETRIES = 3  # of a unit whose node or process died
SECONDS = 5  # that a cluster may take to answer
USUAL = 2**30  # bytes that a unit may take of a node that is not there yet
INLINE = 100_000  # bytes; what is larger is put into the cluster's memory once, for all units
KEPT = 2**30  # bytes that are there at once, but for what units under way still use
FEW = {"GPU": 500, "CPU": 20_000}  # texts that are encoded here: processes elsewhere take seconds to begin
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
        self._unit = self._ray.remote(max_retries=RETRIES)(_unit)
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
        return int(min(max(share, needs), max(node.get("memory", 0) for node in nodes)))

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
            told.set_exception(_in_words(error))

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
        kind = "GPU" if self._ray.cluster_resources().get("GPU") else "CPU"
        near = len(texts) <= FEW[kind] or (kind == "CPU" and encoder.device != "cpu")
        if near or not isinstance(encoder, Transformer):
            return encoder.encode_batches(texts)
        return self._spread(encoder, texts, kind)

    def _spread(
        self, encoder: Transformer, texts: Sequence[str], kind: str
    ) -> Iterator[tuple[NDArray[np.int64], Dense]]:
        needs = 2 * encoder.load()  # as they come, and as they are used
        number = sum(int(min(node.get(kind, 0), node.get("memory", 0) // max(1, needs))) for node in self._nodes())
        asked = {"num_cpus": 1, "memory": needs, **({"num_gpus": 1} if kind == "GPU" else {})}
        model = (self._versions, encoder, self._ray.put(encoder.network))
        shares = encoder.shares(texts, SHARES * max(1, number), "cuda" if kind == "GPU" else "cpu")
        given = [(share, [texts[i] for i in share]) for share in shares]
        work = _Shares(self._ray, self._ray.remote(**asked)(_Holder), model, given)
        try:
            for share, batches in work.done(min(max(1, number), len(shares))):
                yield from ((share[positions], block) for positions, block in batches)
        finally:
            work.end()


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


class _Shares:
    """Texts that are encoded by processes which hold a model.

    Parameters
    ----------
    kind : `_Holder`, with what it is to be given of the cluster
    model : what its `load` takes
    shares : positions, and the texts there
    """

    def __init__(
        self, ray: Any, kind: Any, model: tuple[Any, ...], shares: Sequence[tuple[NDArray[np.int64], list[str]]]
    ) -> None:
        self._ray, self._kind, self._model, self._shares = ray, kind, model, shares
        self._waiting = deque(range(len(shares)))
        self._lost: Counter[int | None] = Counter()  # times that a share, or the model, was
        self._holders: dict[Any, tuple[Any, int | None]] = {}  # by what is awaited of them: the holder, and its share

    def done(self, holders: int) -> Iterator[tuple[NDArray[np.int64], list[tuple[NDArray[np.int64], Dense]]]]:
        """Each share's positions and batches, as they are ready."""
        for _ in range(holders):
            self._start()
        unfinished = len(self._shares)
        while unfinished:
            [ready], _ = self._ray.wait(list(self._holders), num_returns=1)
            holder, share = self._holders.pop(ready)
            try:
                batches = self._ray.get(ready)
            except Exception as error:
                self._again(share, error)
                continue
            self._give(holder)
            if share is not None:
                unfinished -= 1
                yield self._shares[share][0], batches

    def _start(self) -> None:
        """A process has no share until it has begun: one that finds no room would keep it for good."""
        holder = self._kind.remote()
        self._holders[holder.load.remote(*self._model)] = holder, None

    def _give(self, holder: Any) -> None:
        if self._waiting:
            share = self._waiting.popleft()
            self._holders[holder.encode.remote(self._shares[share][1])] = holder, share
        else:
            self._ray.kill(holder)  # others may need its room

    def _again(self, share: int | None, error: Exception) -> None:
        """Have another process do what one died of: a few times, since it may be the share's fault."""
        from ray.exceptions import RayActorError

        if not isinstance(error, RayActorError) or self._lost[share] == RETRIES:
            raise _in_words(error) from None
        self._lost[share] += 1
        if share is not None:
            self._waiting.append(share)
        self._start()

    def end(self) -> None:
        for holder, _ in self._holders.values():
            self._ray.kill(holder)


class _Holder:
    """Holds a model where it computes."""

    encoder: Transformer

    def load(self, versions: dict[str, str], encoder: Transformer, network: Any) -> None:
        _check(versions)
        self.encoder = encoder.with_network_of_elsewhere(network)

    def encode(self, texts: list[str]) -> list[tuple[NDArray[np.int64], Dense]]:
        return list(self.encoder.encode_batches(texts))


def _unit(versions: dict[str, str], function: Callable[..., Any], named: dict[str, Any], *args: Any) -> Any:
    _check(versions)
    # in the cluster's memory an array is read by all: here, as in a process of one's own, it may be written
    own = (value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value for value in args)
    return function(*own, **named)


def _check(versions: dict[str, str]) -> None:
    """Refuse to compute with other versions than the driver's: numbers depend on them."""
    here = library_versions()
    others = [
        f"{name} {here.get(name)}, not {version}" for name, version in versions.items() if here.get(name) != version
    ]
    if others:
        raise TraubeError(f"a node of the Ray cluster has {'; '.join(others)}: install the same there as here")


def _connected(environment: dict[str, str], cores: int) -> Any:
    """Ray, connected to the cluster that RAY_ADDRESS names, or to one that is started here."""
    address = os.environ.get("RAY_ADDRESS")
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # by itself Ray would try for ever
    try:
        import ray
        from ray._private import ray_constants, worker
    except ImportError:
        raise TraubeError(
            "the engine is ray, which is not installed: pip install 'traube[ray]', in a checkout make setup-scale"
        ) from None
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
            f"the engine is ray, and {where} cannot be used: {_in_a_line(error.__cause__ or error)}"
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


def _in_a_line(error: BaseException) -> str:
    """What an error says; of one that quotes a traceback, its last line."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line] or [type(error).__name__]
    return " ".join(lines[-1:] if any("Traceback (most" in line for line in lines) else lines)[:300]


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray puts a handler of its own in the place of ours."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _in_words(error: BaseException) -> BaseException:
    """What a unit raised; of what became of it on the cluster, an error in a line."""
    from ray import exceptions

    if isinstance(error, exceptions.RayTaskError):
        cause = error.cause
        return cause if isinstance(cause, TraubeError) else TraubeError(_in_a_line(cause or error))
    if isinstance(error, exceptions.OutOfMemoryError):
        return DoesNotFit("a node of the Ray cluster ran out of memory")
    if isinstance(error, exceptions.RayError):
        return TraubeError(f"lost on the Ray cluster ({type(error).__name__}: {_in_a_line(error)})")
    return error
