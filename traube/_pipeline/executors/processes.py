"""The workers as processes of this machine. They live as long as their executor: numba compiles UMAP once in each."""

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import psutil

from traube._core.errors import Invalid
from traube._pipeline.executors.base import Executor, Job, failure, order_jobs, with_all_after
from traube._pipeline.executors.loky import start_processes

if TYPE_CHECKING:
    from joblib.externals.loky import ProcessPoolExecutor

LITTLE = 5_000  # texts of all jobs together


def cores() -> int:
    """Return the number of cores of this machine to work on: `TRAUBE_WORKERS`, by default those this process may use."""
    value = os.environ.get("TRAUBE_WORKERS")
    if value is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not value.isdigit() or int(value) < 1:
        raise Invalid(f"TRAUBE_WORKERS is '{value}'; it must be a whole number from 1")
    return int(value)


class ProcessExecutor(Executor):
    """A process for each core that may be used."""

    def __init__(self) -> None:
        super().__init__()
        self._pool: ProcessPoolExecutor | None = None
        self._lock = Lock()  # a warm-up starts processes from a thread of its own

    @cached_property
    def n_workers(self) -> int:
        """Number of processes."""
        return cores()

    def start(self) -> None:
        """Start the processes, unless they are there."""
        with self._lock:
            if self._pool is None:
                self._pool = start_processes(self.n_workers)

    def check_workers(self) -> None:
        """Do nothing: processes can always be had."""

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[Job, Any], None, None]:
        """Run jobs as `Executor.run`; few texts are worked on here, before processes would have started."""
        is_little = self._pool is None and sum(job.rows for job in jobs) <= LITTLE
        return self._run_here(jobs) if is_little else super().run(jobs)

    def _run_here(self, jobs: Sequence[Job]) -> Generator[tuple[Job, Any], None, None]:
        from threadpoolctl import threadpool_limits

        ready, waiting = order_jobs(jobs)
        while ready:
            job = ready.popleft()
            try:
                with threadpool_limits(1):  # as in a process: sums depend on the number of threads
                    outcome = job.function(*job.args, memory=self.memory(job.needs))
            except Exception as error:
                reason = failure(error)
                yield from ((failed, reason) for failed in with_all_after(job, waiting))
            else:
                yield job, outcome
                ready.extendleft(reversed(waiting.pop(job, [])))

    def submit(self, function: Callable[..., Any], *args: Any, memory: int) -> Future[Any]:
        """Send a call to the processes; to new ones, if one was killed since the last call."""
        pool = self._pool
        if pool is None:
            raise RuntimeError("the workers are not started")
        try:
            called: Future[Any] = pool.submit(function, *args, memory=memory)
        except BrokenProcessPool:
            self.close(kill=True)
            self.start()
            return self.submit(function, *args, memory=memory)
        return called

    def memory(self, needs: int = 0) -> int:
        """Return half a core's share of the free memory."""
        return int(psutil.virtual_memory().available // (2 * self.n_workers))

    def close(self, kill: bool = False) -> None:
        """End all processes as soon as they are idle, or kill them now; the next call starts others."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=kill, kill_workers=kill)
        super().close(kill)
