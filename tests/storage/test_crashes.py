"""kill -9 at any moment leaves at most blobs that nothing refers to, and no cell that was stored is lost or half written."""

import errno
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.errors import refused
from tests.made import chance_of_today
from tests.storage.conftest import Open
from tests.storage.made import count_rows, find_orphans, make_assignments, make_scores, read_contents, save_cell
from tests.storage.writers import Writer, write_cells
from traube._core.errors import Inaccessible
from traube._storage import Storage
from traube._storage.blobs import FolderBlobs
from traube._storage.catalog import CELL, SCORE

KILLS = 4


def check(storage: Storage, stored: set[str]) -> None:
    """Every cell that was stored is there, whole and once, now and in a catalog that is made again."""
    for _ in range(2):
        cells = storage.read_cells()
        assert stored <= set(cells["cell_id"])
        assert cells["cell_id"].is_unique
        assert count_rows(storage, SCORE) == 8 * count_rows(storage, CELL)
        for cell_id in cells["cell_id"].tail(3):
            pd.testing.assert_frame_equal(storage.read_assignments(cell_id), make_assignments(int(cell_id, 16)))
            (read,) = storage.iterate_scores([cell_id])
            for (_, one), two in zip(read, make_scores(int(cell_id, 16)), strict=True):
                np.testing.assert_array_equal(one.replicates, two.replicates)
        assert storage.verify() == []
        assert storage.rebuild() == []


@pytest.mark.slow
def test_killed_writers_lose_nothing(storage: Storage, open_storage: Open, tmp_path: Path) -> None:
    chance, stored = chance_of_today(), set()
    for kill in range(KILLS):
        node = tmp_path / ("data" if (tmp_path / "data").exists() else "one")
        # every other time both write the same cells
        writers = [Writer(write_cells, node, 1000 * kill + i * (kill % 2) * 500) for i in range(2)]
        stored |= {writer.read() for writer in writers}
        time.sleep(chance.random() / 4)
        for writer in writers:
            writer.kill()
        for writer in writers:
            stored |= set(writer.read_rest())
        check(open_storage(), stored)
    assert len(stored) > KILLS
    before = read_contents(storage)
    storage.clean(seconds=0)
    storage.clean(seconds=0)
    assert find_orphans(storage) == set()
    storage.rebuild()
    assert read_contents(storage) == before


class PowerFailure(BaseException):
    """Ends a writer where a test says so."""


@pytest.mark.parametrize("step", ["fsync", "replace", "fsync of the folder", "transaction", "scores"])
def test_a_crash_at_a_step_leaves_at_most_an_orphan(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(tmp_path)
    save_cell(storage, 1)
    before = read_contents(storage)

    def crash(*_: object, **__: object) -> None:
        raise PowerFailure

    with monkeypatch.context() as patch:
        if step == "fsync":
            patch.setattr("os.fsync", crash)
        elif step == "replace":
            patch.setattr(Path, "replace", crash)
        elif step == "fsync of the folder":
            patch.setattr("os.close", crash)
        elif step == "transaction":
            patch.setattr(storage.catalog, "enter", crash)
        else:
            encode = "traube._storage.catalog._encode"
            original = __import__("traube._storage.catalog", fromlist=["_encode"])._encode
            patch.setattr(encode, lambda table, row: crash() if table is SCORE else original(table, row))
        with pytest.raises(PowerFailure):
            save_cell(storage, 2)
    assert read_contents(storage) == before
    assert len(find_orphans(storage)) == (0 if step in ("fsync", "replace") else 1)
    storage.clean(seconds=0)
    storage.clean(seconds=0)
    assert find_orphans(storage) == set()
    assert isinstance(storage.blobs, FolderBlobs)
    assert not list(storage.blobs.folder.glob("*/.*"))
    save_cell(storage, 2)
    check(storage, {f"{n:016x}" for n in (1, 2)})


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(tmp_path)
    save_cell(storage, 1)
    before = read_contents(storage)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with refused(Inaccessible, "blobs"):
            save_cell(storage, 2)
    assert find_orphans(storage) == set()
    assert not list(tmp_path.glob("blobs/*/.*"))
    pages = storage.catalog.read(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar())
    storage.catalog.read(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count={pages}").close())
    with refused(Inaccessible, "catalog.db"):
        [save_cell(storage, number) for number in range(2, 9)]
    assert read_contents(storage)["cell"][:1] == before["cell"]
    assert len(find_orphans(storage)) == 1
    storage.catalog.close()  # the limit ends with the connection
    save_cell(storage, 2)
    check(storage, {f"{n:016x}" for n in (1, 2)})
