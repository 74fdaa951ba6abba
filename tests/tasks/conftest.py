"""Fixtures of the task readers' tests."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from traube.tasks import load_task
from traube.tasks.task import Task


@pytest.fixture
def own_task(cards: Path) -> Callable[..., Task]:
    """Writes a data file and a five-line card, and loads the task."""

    def load(data: str | bytes, card: str = "text: body\nlabels: area", file: str = "tickets.csv") -> Task:
        content = data.encode() if isinstance(data, str) else data
        (cards / file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
        (cards / "tickets.yaml").write_text(f"file: {file}\n{card}\n")
        return load_task("tickets")

    return load


@pytest.fixture(scope="session")
def pydocs_s2s() -> Task:
    return load_task("pydocs_s2s")


@pytest.fixture(scope="session")
def pydocs_p2p() -> Task:
    return load_task("pydocs_p2p")
