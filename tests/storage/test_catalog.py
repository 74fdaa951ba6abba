"""Opening a catalog: at once, read-only, on file systems that SQLite cannot use."""

import errno
import sqlite3
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2
import pytest
import sqlalchemy as sa

from tests.errors import refused
from tests.storage.conftest import Open
from tests.storage.made import read_contents, save_cell, save_task
from tests.storage.writers import FORKS, Writer, write_cell
from traube._core.errors import Corrupt, Inaccessible, Incompatible, Invalid, Unreachable
from traube._core.system_errors import find_sqlite_number
from traube._storage import Storage, open_storage
from traube._storage.catalog import _is_refusal
from traube._storage.storage import rebuild


@pytest.mark.slow
def test_several_processes_may_be_the_first(open_storage: Open, tmp_path: Path) -> None:
    barrier = FORKS.Barrier(4)
    writers = [Writer(write_cell, tmp_path / "data", number, barrier) for number in range(4)]
    assert [list(writer.read_rest()) for writer in writers] == [[f"{number:016x}"] for number in range(4)]
    assert [writer.exit_code for writer in writers] == [0] * 4
    assert not list(tmp_path.glob("data/*-wal"))  # whoever ends last leaves a folder that can be read as it is
    assert len(open_storage().read_cells()) == 4


def test_a_read_only_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(tmp_path)
    save_task(storage)
    save_cell(storage, 1)
    before = read_contents(storage)
    with refused(Inaccessible, tmp_path / "catalog.db-wal"):
        Storage(tmp_path, is_read_only=True)  # the writer has not closed the database
    storage.catalog.close()
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    monkeypatch.setattr("os.access", lambda *_: False)
    read_only = Storage(tmp_path)
    assert read_contents(read_only) == before
    assert len(read_only.read_scores(read_only.read_cells())) == 24
    with refused(Inaccessible, "TRAUBE_HOME"):
        save_cell(read_only, 2)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Mount = namedtuple("Mount", ["mountpoint", "fstype"])
    mounts = [Mount("/", "ext4"), Mount(str(tmp_path), "nfs4")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    with refused(Invalid, "nfs4", "TRAUBE_HOME", "TRAUBE_DATABASE"):
        Storage(tmp_path / "data")


def test_a_catalog_that_is_gone_is_made_again_and_once_more_if_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = Storage(tmp_path)
    save_task(storage)
    save_cell(storage, 1)
    before = read_contents(storage)
    for file in tmp_path.glob("catalog.db*"):
        file.unlink()
    with monkeypatch.context() as killed:
        killed.setattr(Storage, "rebuild", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            Storage(tmp_path)
    assert "making the catalog again" in capsys.readouterr().err
    assert read_contents(Storage(tmp_path)) == before


def raise_interrupt(_: Storage) -> None:
    raise KeyboardInterrupt


def test_a_data_directory_of_an_earlier_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "store" / "results" / "words").mkdir(parents=True)
    with refused(Incompatible, "TRAUBE_HOME"):
        Storage(tmp_path)
    assert not (tmp_path / "catalog.db").exists()


def test_a_data_directory_that_is_replaced_is_opened_again(tmp_path: Path) -> None:
    save_task(open_storage(tmp_path / "home"))
    first = open_storage(tmp_path / "home")
    assert open_storage(tmp_path / "home") is first
    (tmp_path / "home").rename(tmp_path / "old")
    assert open_storage(tmp_path / "home").get_task("fruit") is None
    assert open_storage(tmp_path / "old").get_task("fruit") is not None


@pytest.mark.parametrize("name", ["what?a", "50%25", "a#b", "a::b", "a b'c"])
def test_a_data_directory_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    storage = Storage(tmp_path / name)
    save_task(storage)
    save_cell(storage, 1)
    before = read_contents(storage)
    storage.catalog.close()
    assert read_contents(Storage(tmp_path / name, is_read_only=True)) == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_catalog_that_cannot_be_opened_is_set_aside(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    save_cell(storage, 1)
    before = read_contents(storage)
    storage.catalog.close()
    file = tmp_path / "catalog.db"
    file.write_bytes(b"x" * 100 + file.read_bytes()[100:])
    with refused(Corrupt, "catalog.db", "traube rebuild"):
        Storage(tmp_path)
    assert rebuild(tmp_path) == []
    assert read_contents(Storage(tmp_path)) == before


@pytest.mark.cluster
def test_a_database_that_is_not_there_is_named(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, kind in ((f"{database}x", Inaccessible), ("postgresql://traube@127.0.0.1:1/x", Unreachable)):
        monkeypatch.setenv("TRAUBE_DATABASE", url)
        with refused(kind, url):
            Storage(tmp_path)


@pytest.mark.parametrize(
    ("harm", "is_corrupt"),
    [
        ("DROP TABLE score", True),
        ("ALTER TABLE score RENAME COLUMN metric TO other", True),
        ("UPDATE cell SET task = CAST(x'ff' AS TEXT)", True),
        ("DELETE FROM score", True),
        ("CREATE TABLE another (x)", False),
    ],
)
def test_a_catalog_of_another_form_is_corrupt(tmp_path: Path, harm: str, is_corrupt: bool) -> None:
    storage = Storage(tmp_path)
    save_cell(storage, 1)
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as database, database:
        database.execute(harm)
    if not is_corrupt:
        assert storage.verify() == []
        return
    with refused(Corrupt, "traube rebuild"):
        storage.verify()


def test_work_that_fails_by_itself_is_not_tried_again(storage: Storage) -> None:
    attempts = []

    def fail(connection: sa.Connection) -> None:
        attempts.append(connection)
        raise Invalid("nothing of the database's")

    with refused(Invalid):
        storage.catalog.write(fail)
    assert len(attempts) == 1


def test_a_lock_of_sqlite_is_waited_for_and_a_full_disk_is_not(tmp_path: Path) -> None:
    storage, file = Storage(tmp_path), tmp_path / "catalog.db"
    with (
        closing(sqlite3.connect(file, isolation_level=None)) as one,
        closing(sqlite3.connect(file, timeout=0)) as other,
    ):
        one.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as locked:
            other.execute("DELETE FROM score")
        one.execute("ROLLBACK")
        other.execute("PRAGMA max_page_count = 1").close()
        with pytest.raises(sqlite3.OperationalError) as full:
            other.execute(f"CREATE TABLE more AS SELECT '{'x' * 10**6}'")
    is_lost = [storage.catalog._is_lost(sa.exc.DBAPIError("", None, error.value)) for error in (locked, full)]
    assert is_lost == [True, False]
    assert (find_sqlite_number(locked.value), find_sqlite_number(full.value)) == (None, errno.ENOSPC)


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        ('FATAL:  password authentication failed for user "traube"', True),
        ('FATAL:  database "x" does not exist', True),
        ("connection refused: is the server running on that host?", False),
    ],
)
def test_a_connection_that_postgres_refuses_is_not_tried_again(
    said: str, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg2 raises one class without a code for both."""
    error = psycopg2.OperationalError(said)
    assert _is_refusal(error) == is_refused
    catalog = Storage(tmp_path).catalog
    monkeypatch.setattr(catalog, "_is_sqlite", False)
    assert catalog._is_lost(sa.exc.OperationalError("", None, error)) == (not is_refused)
