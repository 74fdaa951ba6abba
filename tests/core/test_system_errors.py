"""Words by which Traube knows that disk or memory is short are those that the libraries say today."""

import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch

from traube._core import system_errors

IN_LITTLE_MEMORY = """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**20, used + 2**20))
import numpy
"""


def create_table(database: str, *pragmas: str) -> None:
    with closing(sqlite3.connect(f"file:{database}", uri=True)) as connection:
        for statement in (*pragmas, "CREATE TABLE a AS SELECT zeroblob(100000)"):
            connection.execute(statement)


def write_large_file(folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(sqlite3.connect(folder / "large.db")) as connection:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
        try:
            connection.execute("CREATE TABLE a AS SELECT zeroblob(100000)")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def load_library(_folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IN_LITTLE_MEMORY], capture_output=True, text=True, check=False)
    raise ImportError(done.stderr)


FAILURES: dict[str, Callable[[Path], object]] = {
    "database or disk is full": lambda folder: create_table(f"{folder}/full.db", "PRAGMA max_page_count = 1"),
    "disk I/O error": write_large_file,
    "attempt to write a readonly database": lambda folder: create_table(f"{folder}/empty.db?mode=ro"),
    "unable to open database file": lambda folder: create_table(f"{folder}/none/none.db"),
    "failed to map segment": load_library,
    "can't allocate memory": lambda _: torch.empty(2**50, dtype=torch.uint8),
    "std::bad_alloc": lambda _: torch.empty(1).expand(2**45).unbind(),
}


@pytest.mark.parametrize("words", system_errors._SAID_BY_LIBRARIES)
def test_libraries_say_the_words_that_are_known(words: str, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises((sqlite3.OperationalError, ImportError, RuntimeError), match=words) as error:
        FAILURES[words](tmp_path)
    repeated = RuntimeError(str(error.value))  # as MLflow raises what SQLite says
    assert system_errors.find_said_number(repeated) == system_errors._SAID_BY_LIBRARIES[words]
