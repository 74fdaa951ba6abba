"""Machine code, cached on disk below TRAUBE_HOME, or where NUMBA_CACHE_DIR says.

Without the cache numba compiles again in each process, for four CPU seconds in UMAP's case. Results are the same to
the last bit. Folders are named by the versions of numba and of the compiled package; numba itself tells processors,
signatures and states of a source file apart.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from traube._core import paths
from traube._core.versions import get_version

UMAP = "umap-learn"
P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function as machine code, compiled at its first call or read from disk.

    1 / 0 is infinity, as in numpy.
    """
    import numba

    dispatcher = numba.njit(error_model="numpy")(function)
    with _cache_in("traube"), suppress(RuntimeError):  # without a writable folder numba compiles in memory
        dispatcher.enable_caching()
    return cast("Callable[P, T]", dispatcher)


@lru_cache(maxsize=1)
def keep_machine_code() -> None:
    """Cache UMAP's machine code on disk from now on: this process reads it there, or writes it once compiled.

    The layout lets other threads work meanwhile.
    """
    from umap import layouts, umap_

    slow = (
        (umap_, "smooth_knn_dist"),
        (umap_, "compute_membership_strengths"),
        (layouts, "_nb_optimize_layout_euclidean_single_epoch"),
    )
    with _cache_in(f"{UMAP}-{get_version(UMAP)}"):
        for module, name in slow:
            # no folder can be written to, or another umap-learn has no such function: it is compiled in memory
            with suppress(RuntimeError, AttributeError):
                function = getattr(module, name)
                function.targetoptions["nogil"] = True
                function.enable_caching()


@contextmanager
def compile_once(package: str) -> Iterator[None]:
    """Cache on disk what a package compiles while it is imported, for signatures that it states."""
    import numba

    decorate = numba.njit

    def cached(*args: Any, **options: Any) -> Any:
        if not args or callable(args[0]):
            return decorate(*args, **options)

        def compile_from_disk(function: Callable[..., Any]) -> Any:
            try:
                return decorate(*args, **{"cache": True} | options)(function)
            except RuntimeError:  # no folder can be written to
                return decorate(*args, **options)(function)

        return compile_from_disk

    with _cache_in(f"{package}-{get_version(package)}"):
        numba.njit = cached
        try:
            yield
        finally:
            numba.njit = decorate


@contextmanager
def _cache_in(of: str) -> Iterator[None]:
    """Cache the code compiled meanwhile in a package's folder, below TRAUBE_HOME or NUMBA_CACHE_DIR."""
    import numba

    config: Any = numba.config
    before, kept_in = config.CACHE_DIR, Path(os.environ.get("NUMBA_CACHE_DIR") or paths.own_home() / "compiled")
    config.CACHE_DIR = str(kept_in / f"{of}-numba-{get_version('numba')}")
    try:
        yield
    finally:
        config.CACHE_DIR = before
