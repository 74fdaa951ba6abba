"""Another process, in which something is done until it kills itself: `kill -9` in the middle of a training."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

# One process imports what is slow to import, and the others are its forks.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["transformers.trainer", "optuna", "traube.training.study"])


def kill() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def run_until_killed(work: Callable[..., object], *args: Any) -> None:
    """Do `work(*args)` in a process of its own, in which it calls `kill`."""
    process = FORKS.Process(target=_run, args=(dict(os.environ), work, args))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _run(environment: dict[str, str], work: Callable[..., object], args: tuple[Any, ...]) -> None:
    os.environ.update(environment)  # the server's own is that of the test that started it
    work(*args)
