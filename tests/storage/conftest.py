"""Each contract holds for SQLite with a folder, and for Postgres with S3."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.made import save_task
from traube._storage import Storage

Open = Callable[..., Storage]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.cluster)])
def open_storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens the same storage again; with Postgres and S3, on a node of another name."""
    if request.param == "sqlite":
        return lambda node="one": Storage(tmp_path / "data")
    monkeypatch.setenv("TRAUBE_DATABASE", request.getfixturevalue("database"))
    monkeypatch.setenv("TRAUBE_BLOBS", request.getfixturevalue("bucket"))
    return lambda node="one": Storage(tmp_path / node)


@pytest.fixture
def storage(open_storage: Open) -> Storage:
    """A storage with the task `fruit`."""
    made = open_storage()
    save_task(made)
    return made
