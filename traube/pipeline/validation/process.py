"""Checks in a process of their own: Great Expectations takes two seconds to import, which that process does while the
caller does something else, and much memory, which the caller then need not hold.
"""

from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

from traube.pipeline.executors import Executor
from traube.pipeline.executors.base import broken

P = ParamSpec("P")
T = TypeVar("T")


def warm_up(executor: Executor) -> None:
    """Have the process import Great Expectations, and return at once."""
    if find_spec("great_expectations"):
        executor.call_apart(_import)


def in_own_process(executor: Executor, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a check returns; it is computed in the executor's process for this, which is started if it does
    not run. Where Great Expectations is not installed there is nothing to spare, and it is computed here.

    Raises
    ------
    TraubeError
        If the process is killed; the next call starts another. What the check raises is raised here.
    """
    if not find_spec("great_expectations"):
        return check(*args, **kwargs)
    try:
        return executor.call_apart(check, *args, **kwargs).result()
    except BrokenProcessPool as error:
        executor.stop()
        raise broken(error) from None


def _import() -> None:  # returns nothing: a module that is sent back would be imported by the caller, too
    import great_expectations  # noqa: F401
