"""Executors of a run: processes of this machine, or a Ray cluster, which end with the code that makes an executor."""

import os
from contextlib import AbstractContextManager, nullcontext

from traube._core import paths
from traube._core.errors import unknown
from traube._pipeline.executors.base import Executor, Failure, Job, failure
from traube._pipeline.executors.processes import ProcessExecutor, cores

__all__ = [
    "ENGINES",
    "Executor",
    "Failure",
    "Job",
    "ProcessExecutor",
    "cores",
    "engine",
    "ensure_executor",
    "failure",
    "make_executor",
]

ENGINES = ("local", "ray")


def engine() -> str:
    """Return the name of the engine, `local` processes or a `ray` cluster: `TRAUBE_ENGINE`, or what params.yaml says."""
    from traube._pipeline.params import load_params  # imported here only: workers do not need it

    path = paths.params()
    named = os.environ.get("TRAUBE_ENGINE") or (load_params(path).engine if path.is_file() else "local")
    if named not in ENGINES:
        raise unknown("engine", named, ENGINES)
    return named


def make_executor() -> Executor:
    """Return a new executor of the engine that is set. Nothing is started yet."""
    if engine() == "local":
        return ProcessExecutor()
    from traube._pipeline.executors.ray import RayExecutor

    return RayExecutor()


def ensure_executor(executor: Executor | None) -> AbstractContextManager[Executor]:
    """Lend the executor that is given, and leave it as it is; or make one, and end it."""
    return make_executor() if executor is None else nullcontext(executor)
