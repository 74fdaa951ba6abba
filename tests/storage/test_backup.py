"""Backups while others write, what a restore refuses, and copies between storages."""

import io
import multiprocessing
import os
import shutil
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tests.errors import refused
from tests.made import kill_while_writing
from tests.storage.conftest import Open
from tests.storage.made import read_contents, save_cell, save_task
from traube._core.errors import Conflict, Malformed, TraubeError, Unsafe
from traube._storage import CellRow, Storage
from traube._storage.backup import copy_results, restore_backup, write_backup


def copy_to(folder: Path) -> Callable[[Path], list[str]]:
    """Take over a database as it is, in place of the platform, which reduces MLflow's."""

    def copy(file: Path) -> list[str]:
        shutil.copyfile(file, folder / "mlflow.db")
        return []

    return copy


def keep_writing(folder: Path, stop: Event) -> None:
    """Store cell after cell, and a row of another database for each."""
    storage = Storage(folder)
    with closing(sqlite3.connect(folder / "mlflow.db")) as database:
        database.execute("CREATE TABLE runs (cell)")
        number = 0
        while not stop.is_set():
            cell = save_cell(storage, number := number + 1)
            with database:
                database.execute("INSERT INTO runs VALUES (?)", [cell])


@pytest.mark.slow
def test_a_backup_is_one_state_while_a_writer_writes(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "data")
    save_task(storage)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    writer = context.Process(target=keep_writing, args=(storage.folder, stop))
    writer.start()
    try:
        while len(storage.read_rows(CellRow)) < 3:
            assert writer.is_alive()
        assert write_backup(storage, tmp_path / "checkpoints", tmp_path / "backup.tar") == []
    finally:
        stop.set()
        writer.join()
    new = tmp_path / "restored"
    restore_backup(tmp_path / "backup.tar", new, tmp_path / "checkpoints", copy_to(new))
    restored = Storage(new)
    cells = {row.cell_id for row in restored.read_rows(CellRow)}
    with closing(sqlite3.connect(tmp_path / "restored" / "mlflow.db")) as database:
        logged = {cell for (cell,) in database.execute("SELECT cell FROM runs")}
    assert len(cells) >= 3 and logged <= cells
    assert restored.verify() == []
    before = read_contents(restored)
    assert restored.rebuild() == []
    after = read_contents(restored)
    assert {row["cell_id"] for row in before["cell"]} <= {row["cell_id"] for row in after["cell"]}


def test_a_write_that_was_killed_is_not_in_a_backup(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "data")
    with closing(sqlite3.connect(storage.folder / "mlflow.db")) as database, database:
        database.execute("CREATE TABLE runs (cell)")
        database.execute("INSERT INTO runs VALUES (7)")
    kill_while_writing(storage.folder / "mlflow.db", "DELETE FROM runs")
    write_backup(storage, tmp_path / "checkpoints", tmp_path / "backup.tar")
    new = tmp_path / "restored"
    restore_backup(tmp_path / "backup.tar", new, tmp_path / "checkpoints", copy_to(new))
    with closing(sqlite3.connect(new / "mlflow.db")) as database:
        assert database.execute("SELECT cell FROM runs").fetchall() == [(7,)]


def test_checkpoints_studies_and_the_state_of_trainings_come_back(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "data")
    files = {
        "data/studies/cob__fruit.log": b"{}\n",
        "data/trainings/abc/state.pt": b"weights",
        "checkpoints/mine/config.json": b"{}",
        "checkpoints/.mine.0123456789abcdef/state.pt": b"half",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "checkpoints" / "other").mkdir()
    files["checkpoints/other/config.json"] = b"{}"
    os.link(tmp_path / "checkpoints/mine/config.json", tmp_path / "checkpoints/other/config.json")  # as DVC makes them
    (tmp_path / "data" / ".env").write_text("SECRET=1\n")
    backup = tmp_path / "backups" / "november" / "backup.tar"  # in folders that are not there yet
    write_backup(storage, tmp_path / "checkpoints", backup)
    restore_backup(backup, tmp_path / "new" / "data", tmp_path / "new" / "checkpoints")
    assert {name: (tmp_path / "new" / name).read_bytes() for name in files} == files
    assert not (tmp_path / "new" / "data" / ".env").exists()
    with refused(Conflict, "TRAUBE_HOME"):
        restore_backup(backup, tmp_path / "new" / "data", tmp_path / "other")
    with refused(Conflict, "TRAUBE_CHECKPOINTS"):
        restore_backup(backup, tmp_path / "empty", tmp_path / "checkpoints")


def test_a_corrupt_blob_is_left_out_of_a_backup_and_named(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "data")
    save_task(storage)
    save_cell(storage, 1)
    (cell,) = storage.read_rows(CellRow)
    file = storage.get_path(cell.blob)
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    (line,) = write_backup(storage, tmp_path / "checkpoints", tmp_path / "backup.tar")
    assert cell.blob in line
    restore_backup(tmp_path / "backup.tar", tmp_path / "restored", tmp_path / "checkpoints")
    restored = Storage(tmp_path / "restored")
    assert restored.verify() == []
    assert restored.read_rows(CellRow) == []  # and so the next run computes it


@pytest.mark.parametrize(
    ("damage", "kind"), [("other", Malformed), ("cut off", Malformed), ("outside", Unsafe), ("link", Unsafe)]
)
def test_a_file_that_is_no_backup_restores_nothing(tmp_path: Path, damage: str, kind: type[TraubeError]) -> None:
    file, data = tmp_path / "backup.tar", tmp_path / "restored"
    storage = Storage(tmp_path / "data")
    save_task(storage)
    write_backup(storage, tmp_path / "checkpoints", file)
    if damage == "other":
        file.write_bytes(b"no archive" * 100)
    elif damage == "cut off":
        file.write_bytes(file.read_bytes()[:20_000])
    else:
        member = tarfile.TarInfo("data/../../escaped" if damage == "outside" else "data/link")
        if damage == "link":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc"
        with tarfile.open(file, "a") as archive:
            archive.addfile(member, io.BytesIO())
    with refused(kind, file):
        restore_backup(file, data, tmp_path / "checkpoints")
    assert list(data.iterdir()) == []
    assert not (tmp_path / "escaped").exists()


def test_a_copy_equals_what_was_copied(open_storage: Open, tmp_path: Path) -> None:
    """From a folder to a folder, or to Postgres and S3; a second copy adds what has come since."""
    source, target = Storage(tmp_path / "here", servers=("", "")), open_storage()
    save_task(source)
    save_cell(source, 1)
    count, corrupt = copy_results(source, target)
    assert count > 0 and corrupt == []
    assert read_contents(target) == read_contents(source)
    save_cell(source, 2)
    copy_results(source, target)
    assert read_contents(target) == read_contents(source)
    assert target.blobs.get_identity() != source.blobs.get_identity()


def test_what_a_target_has_stays(tmp_path: Path) -> None:
    source, target = Storage(tmp_path / "one"), Storage(tmp_path / "two")
    save_task(source)
    mine, theirs = save_cell(source, 1), save_cell(target, 2)
    copy_results(source, target)
    assert [row.cell_id for row in target.read_rows(CellRow)] == [mine, theirs]
