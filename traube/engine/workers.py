"""The worker processes, one per core; or a Ray cluster in their place (`traube.engine.ray_cluster`).
What they do is in `traube.engine.units`.

Processes live long, because numba compiles UMAP once in each; and each keeps to one thread.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import lru_cache
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from numpy.typing import NDArray

from traube.foundation import paths
from traube.foundation.collector import collect_less
from traube.foundation.errors import TraubeError, reason, unknown
from traube.methods import Part
from traube.models.base import Encoder, Model
from traube.models.vectors import Dense

if TYPE_CHECKING:
    from traube.engine.ray_cluster import RayPool

ENGINES = ("local", "ray")

_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
IDLE_SECONDS = 600
_running: dict[str, Any] = {}  # loky's executors, by name


def engine() -> str:
    """What does the work: `local` processes or a `ray` cluster. `TRAUBE_ENGINE`, or what params.yaml
    says.

    Raises
    ------
    TraubeError
        If it is neither.
    """
    path = paths.params()
    named = os.environ.get("TRAUBE_ENGINE") or (_of(path, path.stat().st_mtime_ns) if path.is_file() else "local")
    if named not in ENGINES:
        raise unknown("engine", named, ENGINES)
    return named


@lru_cache(maxsize=1)
def _of(params: Path, _written: int) -> str:
    from traube.benchmark.params import load_params  # only here: workers need none

    return load_params(params).engine


def count() -> int:
    """Number of workers: the cores of the cluster, or of this machine."""
    return _cluster().count() if engine() == "ray" else cores()


def cores() -> int:
    """Cores of this machine to work on: `TRAUBE_WORKERS`, by default those this process may use."""
    value = os.environ.get("TRAUBE_WORKERS")
    if value is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not value.isdigit() or int(value) < 1:
        raise TraubeError(f"TRAUBE_WORKERS is '{value}'; it must be a whole number from 1")
    return int(value)


def pool() -> Executor:
    """The process pool or the cluster, started at the first call and kept for the life of this process."""
    return _cluster() if engine() == "ray" else _processes()


def encode_batches(encoder: Encoder, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Dense]]:
    """What the encoder's own gives: this process encodes the texts, or a cluster does."""
    return _cluster().encode_batches(encoder, texts) if engine() == "ray" else encoder.encode_batches(texts)


def device(model: Model, texts: int) -> str:
    """Where so many texts are encoded: `cuda`, `mps` or `cpu`, of this process or of a cluster."""
    return _cluster().device(model.encoder, texts) if engine() == "ray" else model.device


def trainers(model: Model, trainings: int) -> "RayPool | None":
    """The cluster, if it does so many trainings of a model; None: this process does."""
    return _cluster() if engine() == "ray" and _cluster().trains(model, trainings) else None


def _cluster() -> "RayPool":
    from traube.engine.ray_cluster import RayPool

    if "cluster" not in _running:
        _running["cluster"] = RayPool(_ONE_THREAD, cores())
    found: RayPool = _running["cluster"]
    return found


def _processes() -> Executor:
    from joblib.externals.loky import get_reusable_executor

    executor = get_reusable_executor(cores(), **_started())
    if executor is not _running.get("pool"):
        _running["pool"] = _begun(executor)
    return _running["pool"]


def process(name: str) -> Executor:
    """A process beside the pool, for work of another kind; started at the first call with this
    name.
    """
    from joblib.externals.loky import ProcessPoolExecutor

    if name not in _running:
        _running[name] = _begun(ProcessPoolExecutor(1, **_started()))
    return _running[name]


def _started() -> dict[str, Any]:
    """How every process is started."""
    return {"timeout": IDLE_SECONDS, "env": _ONE_THREAD, "initializer": _start, "initargs": (os.getpid(),)}


def _begun(executor: Executor) -> Executor:
    """Start its processes with Ctrl-C blocked, which reaches the whole process group: each would
    show a traceback while it imports, before `_start`. The thread that starts others when these
    end has it blocked too.
    """
    resource_tracker.ensure_running()  # its own start would unblock it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        executor.submit(int)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return executor


def warm_up(reducers: Iterable[Part]) -> None:
    """Start the workers, and have each import what these reducers need, while this process
    does something else.

    The first one compiles, and keeps the machine code; the others start when it is there to be read,
    instead of compiling the same beside it. Returns at once.
    """
    parts, executor, others = tuple(reducers), pool(), count() - 1

    def follow(first: Future[None]) -> None:
        if first.cancelled() or first.exception():  # the workers were stopped meanwhile
            return
        with suppress(RuntimeError):  # or are now
            for _ in range(others):
                executor.submit(_try, parts)

    executor.submit(_try, parts).add_done_callback(follow)


def _try(reducers: tuple[Part, ...]) -> None:
    points = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    for reducer in reducers:
        with suppress(Exception):  # whatever is wrong with it is said when it is used
            reducer.build(**reducer.params, **({"random_state": 0} if reducer.seeded else {})).fit_transform(points)


def dismiss() -> None:
    """Have these processes end once they are idle. Returns at once; the next call starts others."""
    while _running:
        _, executor = _running.popitem()
        executor.shutdown(wait=False)


def stop() -> None:
    """End these processes at once, whatever they are doing; the next call starts others."""
    while _running:
        _, executor = _running.popitem()
        executor.shutdown(kill_workers=True)


def _start(parent: int) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # Ctrl-C reaches the whole process group; the parent decides what becomes of the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_less()
    # loky ends a worker that has grown by 300 MB since its first job: compiled code and mapped vectors are no leak
    from joblib.externals.loky import process_executor

    process_executor._MAX_MEMORY_LEAK_SIZE = sys.maxsize


def _end_with(parent: int) -> None:
    """End once the parent is gone: one that is killed tells nobody, and work would go on for nobody."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def memory(needs: int = 0) -> int:
    """Bytes that a unit of work may take.

    Parameters
    ----------
    needs : what it is known to need; a cluster finds room for it
    """
    if engine() == "ray":
        return _cluster().memory(needs)
    return int(psutil.virtual_memory().available // (2 * cores()))


def broken(error: Exception) -> TraubeError:
    """The error for a pool that broke: mostly, a process took too much memory and was killed."""
    if type(error).__name__ == "TerminatedWorkerError":
        return TraubeError(
            "a worker process was killed, most likely for lack of memory; what is finished is kept, run again"
        )
    return TraubeError(f"the worker processes cannot go on: {reason(error)}")
