"""Jobs for the worker processes, some of which wait for another.

It knows nothing of cells, splits or vectors.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from traube.engine import workers
from traube.foundation.errors import DoesNotFit, Unsupported, reason


@dataclass(frozen=True, eq=False)
class Job:
    """A call in a worker process.

    Attributes
    ----------
    function, args : of the call; the bytes of memory that it may take are added as `memory`
    needs : the bytes that it is known to need
    after : the job that must have ended well before
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    needs: int = 0
    after: "Job | None" = None


@dataclass(frozen=True)
class Failure:
    """Why a job has no result.

    Attributes
    ----------
    status : failed, unsupported or unavailable (does not fit the memory)
    reason : in one line
    """

    status: str
    reason: str


def run(jobs: Sequence[Job]) -> Generator[tuple[Job, Any], None, None]:
    """Run jobs side by side; give each with its result, or its Failure, as soon as it has ended.

    Jobs start in the order given; those that waited for another start right after it, before the
    rest. At most twice as many are under way as there are workers: none of them is ever idle, and
    little is lost when somebody stops. A job whose predecessor failed is not started, and has the
    same failure. If anything is raised, here or by whoever closes this iterator, the workers are
    stopped at once.

    Raises
    ------
    TraubeError
        If a worker process was killed (mostly: out of memory).
    """
    ready = deque(job for job in jobs if job.after is None)
    waiting: dict[Job, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.after is not None:
            waiting[job.after].append(job)
    running: dict[Future[Any], Job] = {}
    try:
        while ready or running:
            while ready and len(running) < 2 * workers.count():
                job = ready.popleft()
                running[workers.pool().submit(job.function, *job.args, memory=workers.memory(job.needs))] = job
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                job = running.pop(future)
                outcome = _outcome(future)
                if isinstance(outcome, Failure):
                    yield from ((failed, outcome) for failed in _with_all_after(job, waiting))
                else:
                    yield job, outcome  # first: what waits for it may need what is made of it
                    ready.extendleft(reversed(waiting.pop(job, [])))
    except BaseException:
        workers.stop()
        raise


def _with_all_after(job: Job, waiting: dict[Job, list[Job]]) -> Iterator[Job]:
    """A job, and all that can never start without it."""
    yield job
    for follower in waiting.pop(job, []):
        yield from _with_all_after(follower, waiting)


def _outcome(future: Future[Any]) -> Any:
    """What a job returned, or the failure that it raised."""
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, BrokenProcessPool):
        raise workers.broken(error)
    return failure(error)


def failure(error: BaseException) -> Failure:
    """What an error makes of whatever raised it."""
    statuses: dict[type, str] = {Unsupported: "unsupported", DoesNotFit: "unavailable"}
    return Failure(statuses.get(type(error), "failed"), reason(error))
