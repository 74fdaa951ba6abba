"""The executor: jobs with memory needs and dependencies, run side by side, of whatever content."""

import math
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from traube._core.errors import DoesNotFit, Failed, TraubeError, Unsupported, describe_error
from traube._core.progress import Progress
from traube._pipeline import units
from traube._pipeline.executors.loky import start_processes
from traube._pipeline.units import Trained, Training
from traube.components import Component
from traube.models.base import Encoder, Model
from traube.models.vectors import Dense

if TYPE_CHECKING:
    from joblib.externals.loky import ProcessPoolExecutor

P = ParamSpec("P")
T = TypeVar("T")
ERRORS: dict[str, type[TraubeError]] = {"unsupported": Unsupported, "unavailable": DoesNotFit}


@dataclass(frozen=True, eq=False)
class Job:
    """A call in a worker; the bytes of memory that it may take are added to its arguments as `memory`."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    needs: int = 0  # the bytes that it is known to need
    after: "Job | None" = None  # the job that must have ended well before
    rows: float = math.inf  # the texts that it works on


@dataclass(frozen=True)
class Failure:
    """Reason for which a job has no result."""

    status: str  # failed, unsupported or unavailable (does not fit the memory)
    reason: str  # in one line

    def error(self) -> TraubeError:
        """Return an error of this status and reason."""
        return ERRORS.get(self.status, Failed)(self.reason)


class Executor(ABC):
    """Runs the jobs of a run, and ends with it: use it in a `with` statement. Nothing is started before it is needed."""

    yields = False  # whether other processes go first, so that elapsed time overstates the cost of its work

    def __init__(self) -> None:
        self._apart: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(kill=kind is not None)

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Number of workers."""

    @abstractmethod
    def start(self) -> None:
        """Start the workers, unless they are running; a TraubeError says why they cannot be had."""

    def check_workers(self) -> None:
        """Raise a TraubeError if the workers cannot be had."""
        self.start()

    @abstractmethod
    def submit(self, function: Callable[..., Any], *args: Any, memory: int) -> Future[Any]:
        """Send a call to the workers, which must have been started; `memory` is passed to the call as an argument too."""

    @abstractmethod
    def memory(self, needs: int = 0) -> int:
        """Return the bytes that a job may take, given the bytes that it is known to need."""

    def close(self, kill: bool = False) -> None:
        """End all processes as soon as they are idle, or kill them now; the next request starts others."""
        apart, self._apart = self._apart, None
        if apart is not None:
            apart.shutdown(wait=kill, kill_workers=kill)

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[Job, Any], None, None]:
        """Run jobs side by side; yield each with its result, or its Failure, as soon as it has ended.

        Jobs start in the order given; those that waited for another start right after it, before the rest. At most
        twice as many are under way as there are workers: none of them is ever idle, and little is lost when somebody
        stops. A job whose predecessor failed is not started, and has the same failure. If anything is raised, here or
        by whoever closes this iterator, the workers are stopped at once.

        Raises
        ------
        TraubeError
            If a worker process was killed (mostly: out of memory).
        """
        ready, waiting = order_jobs(jobs)
        running: dict[Future[Any], Job] = {}
        try:
            while ready or running:
                self.start()
                while ready and len(running) < 2 * self.n_workers:
                    job = ready.popleft()
                    running[self.submit(job.function, *job.args, memory=self.memory(job.needs))] = job
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    job = running.pop(future)
                    error = future.exception()
                    if error is None:
                        # before its dependents start: they may need what the caller makes of it
                        yield job, future.result()
                        ready.extendleft(reversed(waiting.pop(job, [])))
                    elif isinstance(error, BrokenProcessPool):
                        raise error
                    else:
                        outcome = failure(self.explain(error))
                        yield from ((failed, outcome) for failed in with_all_after(job, waiting))
        except BaseException as error:
            self.close(kill=True)
            if isinstance(error, BrokenProcessPool):
                raise explain_broken_pool(error) from None
            raise

    def explain(self, error: BaseException) -> BaseException:
        """Return the error that a job raised, given one of the executor's own errors."""
        return error

    def call_apart(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a process of this machine that is no worker, and is kept for the next such call."""
        if self._apart is None:
            self._apart = start_processes(1)
        called: Future[T] = self._apart.submit(function, *args, **kwargs)
        return called

    def warm_up(self, reducers: Iterable[Component]) -> None:
        """Start the workers, have each import what these reducers need, and return at once.

        The first one compiles, and keeps the machine code; the others start when it is there to be
        read, instead of compiling the same beside it.
        """
        self.start()
        components, others = tuple(reducers), self.n_workers - 1

        def follow(first: Future[None]) -> None:
            if first.cancelled() or first.exception():  # the workers were stopped meanwhile
                return
            with suppress(RuntimeError):  # or they are stopped just now
                for _ in range(others):
                    self.submit(units.warm_up, components, memory=0)

        self.submit(units.warm_up, components, memory=0).add_done_callback(follow)

    def encode_batches(self, encoder: Encoder, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], Dense]]:
        """Yield positions and vectors of texts, batch by batch, as the encoder itself does."""
        return encoder.encode_batches(texts)

    def device(self, model: Model, n_texts: int) -> str:
        """Return where so many texts are encoded: `cuda`, `mps` or `cpu`."""
        return model.device

    def trains(self, model: Model, n_trainings: int) -> bool:
        """Return whether `train` does so many trainings of a model; if not, this process has to do them."""
        return False

    def train(
        self, trainings: Iterator[tuple[Any, Training, Path]], model: Model, progress: Progress
    ) -> Generator[tuple[Any, Trained | BaseException], None, None]:
        """Yield the outcome of each training under its name; each is given with the folder of the state to go on from."""
        raise NotImplementedError


def order_jobs(jobs: Sequence[Job]) -> tuple[deque[Job], dict[Job, list[Job]]]:
    """Return the jobs that wait for no other, and those that wait for each."""
    waiting: dict[Job, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.after is not None:
            waiting[job.after].append(job)
    return deque(job for job in jobs if job.after is None), waiting


def with_all_after(job: Job, waiting: dict[Job, list[Job]]) -> Iterator[Job]:
    """Yield a job, and all that can never start without it."""
    yield job
    for follower in waiting.pop(job, []):
        yield from with_all_after(follower, waiting)


def failure(error: BaseException) -> Failure:
    """Return the Failure that an error makes of the job that raised it."""
    status = next((status for status, kind in ERRORS.items() if type(error) is kind), "failed")
    return Failure(status, describe_error(error))


def explain_broken_pool(error: BrokenProcessPool) -> TraubeError:
    """Return the error for processes that broke: mostly, one took too much memory and was killed."""
    if type(error).__name__ == "TerminatedWorkerError":
        return Failed(
            "a worker process was killed, most likely for lack of memory; what is finished is kept, run again"
        )
    return Failed(f"the worker processes cannot go on: {describe_error(error)}")
