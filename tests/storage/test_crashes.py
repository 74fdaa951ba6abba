"""kill -9 at any moment leaves at most blobs that nothing refers to, and no cell that was stored is lost or half written."""

import errno
import random
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.storage.conftest import Open
from tests.storage.made import assignments, contents, count, orphans, save_cell
from traube.foundation.errors import TraubeError
from traube.storage import Storage
from traube.storage.blobs import FolderBlobs
from traube.storage.catalog import CELL, SCORE

PROJECT = Path(__file__).parents[2]
WRITE = """
import sys
from pathlib import Path
from tests.storage.made import save_cell
from traube.storage import Storage
storage = Storage(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), 10_000):
    print(save_cell(storage, number), flush=True)
"""
KILLS = 4


def check(storage: Storage, stored: set[str]) -> None:
    """Every cell that was stored is there, whole, once, and would be in a catalog that is made again."""
    cells = storage.cells()
    assert stored <= set(cells["cell_id"])
    assert cells["cell_id"].is_unique
    assert count(storage, SCORE) == 8 * count(storage, CELL)
    for cell_id in cells["cell_id"].tail(3):
        pd.testing.assert_frame_equal(storage.cell_table(cell_id), assignments(int(cell_id, 16)))
    assert storage.verify() == []
    before = contents(storage)
    unreferenced = orphans(storage)
    assert storage.rebuild() == []
    after = contents(storage)
    assert len(after["cell"]) - len(before["cell"]) == len(unreferenced - orphans(storage))
    assert [row for row in after["cell"] if row["blob"] not in unreferenced] == before["cell"]


@pytest.mark.slow
def test_killed_writers_lose_nothing(storage: Storage, open_storage: Open, tmp_path: Path) -> None:
    chance, stored = random.Random(7), set()
    for kill in range(KILLS):
        node = tmp_path / ("data" if (tmp_path / "data").exists() else "one")
        command = [sys.executable, "-c", WRITE, str(node), str(1000 * kill)]
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        stored.add(process.stdout.readline().strip())
        time.sleep(chance.random() / 4)
        process.kill()
        stored |= {line.strip() for line in process.stdout if len(line) == 17}
        process.wait()
        check(open_storage(), stored)
    assert len(stored) > KILLS
    assert storage.clean(seconds=0)[1] == 0
    storage.clean(seconds=0)
    assert orphans(storage) == set()


class PowerFailure(BaseException):
    """Ends a writer where a test says so."""


@pytest.mark.parametrize("step", ["fsync", "replace", "fsync of the folder", "transaction", "scores"])
def test_a_crash_at_each_step_leaves_at_most_an_orphan(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path)
    save_cell(storage, 1)
    before = contents(storage)

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
            encode = "traube.storage.catalog._encode"
            original = __import__("traube.storage.catalog", fromlist=["_encode"])._encode
            patch.setattr(encode, lambda table, row: crash() if table is SCORE else original(table, row))
        with pytest.raises(PowerFailure):
            save_cell(storage, 2)
    assert contents(storage) == before
    assert len(orphans(storage)) == (0 if step in ("fsync", "replace") else 1)
    storage.clean(seconds=0)
    storage.clean(seconds=0)
    assert orphans(storage) == set()
    assert isinstance(storage.blobs, FolderBlobs)
    assert not list(storage.blobs.folder.glob("*/.*"))
    save_cell(storage, 2)
    check(storage, {f"{n:016x}" for n in (1, 2)})


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage(tmp_path)
    save_cell(storage, 1)
    before = contents(storage)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(TraubeError, match=r"blobs: the disk is full: delete something and run the command again"):
            save_cell(storage, 2)
    assert orphans(storage) == set()
    assert not list(tmp_path.glob("blobs/*/.*"))
    pages = storage.catalog.read(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar())
    storage.catalog.read(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count={pages}").close())
    with pytest.raises(TraubeError, match=r"catalog\.db: database or disk is full"):
        [save_cell(storage, number) for number in range(2, 9)]
    assert contents(storage)["cell"][:1] == before["cell"]
    assert len(orphans(storage)) == 1
    storage.catalog.close()  # the limit ends with the connection
    save_cell(storage, 2)
    check(storage, {f"{n:016x}" for n in (1, 2)})
