"""Processes that write to a storage until they are killed.

A server forks them that has imported what they need: each would take a second for it.
"""

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.storage.made import save_cell
from traube._storage import Storage
from traube._storage.embedding_cache import EmbeddingCache

Report = Callable[[str], None]
FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(
    [__name__, "pytest", "s3fs", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg2"]
)


class Writer:
    """A process that calls a function with what it reports to; in the environment of now."""

    def __init__(self, write: Callable[..., None], *arguments: object) -> None:
        self._reports, end = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(target=_call, args=(write, end, dict(os.environ), *arguments), daemon=True)
        self._process.start()
        end.close()

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process, once it has ended."""
        self._process.join()
        return self._process.exitcode

    def kill(self) -> None:
        """Kill the process at once."""
        self._process.kill()

    def read(self) -> str:
        """Wait for the next report."""
        return str(self._reports.recv())

    def read_rest(self) -> Iterator[str]:
        """Wait for the end of the process; yield what it had reported until then."""
        with suppress(EOFError, OSError):  # the last report may be half a one
            while True:
                yield self.read()
        self._process.join()


def _call(write: Callable[..., None], end: Connection, environment: dict[str, str], *arguments: object) -> None:
    os.environ.clear()
    os.environ.update(environment)
    try:
        write(end.send, *arguments)
    except Exception:
        end.send(traceback.format_exc())  # which no test takes for a report
        raise


def write_cells(report: Report, folder: Path, first: int) -> None:
    """Store one cell after another, and report each."""
    storage = Storage(folder)
    for number in range(first, 1_000_000):
        report(save_cell(storage, number))


def write_cell(report: Report, folder: Path, number: int, barrier: Barrier) -> None:
    """Open a storage at the same time as others, and store a cell."""
    barrier.wait()
    report(save_cell(Storage(folder), number))


def hold_lease(report: Report, folder: Path) -> None:
    """Hold a lease until the process ends by itself, without having let go of it."""
    with Storage(folder).hold("fruit", "bow", "clusterings"):
        os._exit(9)


def write_embeddings(report: Report, folder: Path, name: str) -> None:
    """Append fifty embeddings after another, and report each time."""
    cache = EmbeddingCache(Storage(folder), "f", "n")
    for number in range(1_000_000):
        cache.append(texts := [f"{name} {number} {i}" for i in range(50)], encode(texts))
        report(str(number))


def encode(texts: list[str]) -> NDArray[np.float32]:
    """Return two numbers that tell a text from any other here."""
    return np.array([[len(text), sum(map(ord, text))] for text in texts], dtype=np.float32).reshape(-1, 2)
