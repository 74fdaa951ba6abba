"""A flipped bit is found and named, wherever it is, and what can be made again is."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.errors import refused
from tests.made import chance_of_today, damage_blob
from tests.storage.conftest import Open
from tests.storage.made import read_contents, save_cell, save_task
from traube._core.errors import Corrupt, TraubeError
from traube._storage import CellRow, DocumentRow, Storage, TaskRow
from traube._storage.blobs import FolderBlobs
from traube._storage.catalog import CELL, ENTRY_TABLES, SCORE, _make_checksum
from traube._storage.rows import CatalogRow
from traube._storage.storage import rebuild

FLIPS, CELLS = 20, 5


@given(content=st.binary(max_size=200), bit=st.integers(0, 1599))
def test_a_blob_is_what_was_put_or_corrupt(content: bytes, bit: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    blobs = FolderBlobs(tmp_path_factory.mktemp("blobs"))
    name = blobs.put(content)
    assert blobs.put(content) == name
    assert blobs.get(name) == content
    if content:
        flip(blobs.get_path(name), bit % (8 * len(content)))
        with refused(Corrupt, name, "traube run"):
            blobs.get(name)
        blobs.put(content)  # a writer always puts, so what is corrupt is mended
        assert blobs.get(name) == content


def flip(path: Path, bit: int) -> None:
    """Flip a bit of a file."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(content))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose catalog is closed."""
    folder = tmp_path_factory.mktemp("template")
    storage = Storage(folder)
    save_task(storage)
    for number in range(CELLS):
        save_cell(storage, number)
    storage.catalog.close()
    return folder


@pytest.fixture(scope="module")
def truth(template: Path) -> str:
    """Everything in it."""
    return read_all(template)


def read_all(folder: Path) -> str:
    """Read everything, to the last bit, so that what is corrupt is found."""
    storage = Storage(folder)
    assert storage.verify() == []
    scores = storage.read_scores(storage.read_cells(), replicates=True)
    table = scores.assign(replicates=[np.asarray(numbers).tobytes() for numbers in scores["replicates"]])
    return str({**read_contents(storage), "table": table.to_dict()})


@pytest.mark.slow
def test_flipped_bits_of_a_catalog_are_found_and_mended(template: Path, truth: str, tmp_path: Path) -> None:
    chance, found = chance_of_today(), 0
    for number in range(FLIPS):
        folder = tmp_path / str(number)
        shutil.copytree(template, folder)
        file = folder / "catalog.db"
        used = [place for place, byte in enumerate(file.read_bytes()) if byte]  # most of the file is empty
        flip(file, 8 * chance.choice(used) + chance.randrange(8))
        try:
            read = read_all(folder)
        except TraubeError as error:
            read, line = "", str(error)
        if not read:
            found += 1
            assert str(folder) in line
            assert rebuild(folder) == []
            read = read_all(folder)
        assert read == truth  # also where a bit was flipped that nothing uses
        shutil.rmtree(folder)
    assert found > 0


@pytest.mark.slow
@pytest.mark.parametrize("is_catalog_lost", [False, True])
def test_flipped_bits_of_the_marker_of_a_blob_store_are_found_and_mended(
    is_catalog_lost: bool, template: Path, truth: str, tmp_path: Path
) -> None:
    chance, identity = chance_of_today(), Storage(template).blobs.get_identity()
    for number in range(FLIPS // 2):
        folder = tmp_path / str(number)
        shutil.copytree(template, folder)
        marker = folder / "blobs" / "identity.json"
        flip(marker, chance.randrange(8 * marker.stat().st_size))
        with refused(Corrupt, "identity.json", "traube rebuild"):
            Storage(folder)
        if is_catalog_lost:
            (folder / "catalog.db").write_bytes(b"no database")
        assert rebuild(folder) == []
        assert read_all(folder) == truth
        assert is_catalog_lost or Storage(folder).blobs.get_identity() == identity


def damage_catalog(template: Path, folder: Path, statement: str) -> None:
    """Copy a data directory and change its catalog behind Traube's back."""
    shutil.copytree(template, folder)
    with closing(sqlite3.connect(folder / "catalog.db")) as connection, connection:
        connection.executescript(statement)


def is_mended(folder: Path, truth: str) -> bool:
    """Rebuild the catalog; return whether all is as it was, with nothing lost."""
    return rebuild(folder) == [] and read_all(folder) == truth


@pytest.mark.parametrize("table", sorted(ENTRY_TABLES))
def test_a_damaged_name_of_a_column_is_found_and_mended(table: str, template: Path, truth: str, tmp_path: Path) -> None:
    """A table without rows, to which nothing is written, is no exception."""
    folder = tmp_path / "copy"
    damage_catalog(template, folder, f'ALTER TABLE "{table}" RENAME COLUMN is_removed TO is_remoted')
    with refused(Corrupt, "traube rebuild"):
        read_all(folder)
    assert is_mended(folder, truth)


def test_a_damaged_id_of_the_blob_store_is_no_other_stores(template: Path, truth: str, tmp_path: Path) -> None:
    """Another store's id is refused, by `rebuild` too: see test_storage."""
    folder = tmp_path / "copy"
    damage_catalog(template, folder, "UPDATE setting SET content = '=' || substr(content, 2) WHERE name = 'blobs'")
    with refused(Corrupt, "=", "traube rebuild"):
        read_all(folder)
    assert is_mended(folder, truth)


def test_a_changed_number_is_found_that_the_database_does_not_find(template: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    damage_catalog(template, folder, "UPDATE score SET mean = mean + 1e-16 * 1024 WHERE cell_id = '0000000000000003'")
    with closing(sqlite3.connect(folder / "catalog.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with refused(Corrupt, "0000000000000003"):
        read_all(folder)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE cell SET is_removed = 1 WHERE cell_id = '0000000000000003'",
        # an index that lacks rows, as where a bit of it was flipped
        "DROP INDEX cell_of_task; CREATE INDEX cell_of_task ON cell (task) WHERE cell_id < '0000000000000003'; "
        "PRAGMA writable_schema = ON; "
        "UPDATE sqlite_master SET sql = 'CREATE INDEX cell_of_task ON cell (task)' WHERE name = 'cell_of_task'",
    ],
)
def test_damage_that_hides_cells_is_found(damage: str, template: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    damage_catalog(template, folder, damage)
    storage = Storage(folder)
    assert len(storage.read_cells("fruit")) < CELLS
    with refused(Corrupt, "traube rebuild"):
        storage.verify()


def test_a_row_of_scores_or_of_a_cell_that_is_gone_is_found(storage: Storage) -> None:
    cell_id = save_cell(storage, 1)
    storage.catalog.write(lambda c: c.execute(SCORE.delete().where(SCORE.c.metric == "clusters_found")).close())
    with refused(Corrupt, cell_id, "traube rebuild", "clusters_found"):
        storage.read_scores(storage.read_cells(), ["clusters_found"])
    storage.rebuild()
    assert len(storage.read_scores(storage.read_cells())) == 24
    save_cell(storage, 1)
    cells = storage.read_cells()
    storage.catalog.write(lambda c: c.execute(CELL.delete()).close())
    with refused(Corrupt, "traube rebuild"):
        storage.read_scores(cells)


@pytest.mark.parametrize("kind", [CellRow, TaskRow, DocumentRow])
def test_flipped_bits_of_blobs_are_mended_or_count_as_absent(
    kind: type[CatalogRow], template: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(template, folder)
    storage = Storage(folder)
    storage.save(DocumentRow(kind="setting", key="k", content=1))
    row = storage.read_rows(kind)[0]
    assert isinstance(storage.blobs, FolderBlobs)
    flip(storage.blobs.get_path(row.blob), random.Random(1).randrange(800))
    (line,) = storage.verify()
    assert f"{row.blob}: checksum mismatch" in line
    assert storage.verify() == []
    rows = storage.read_rows(kind)
    assert row.blob not in [other.blob for other in rows]
    assert len(rows) == (CELLS - 1 if kind is CellRow else 1)  # of others, the catalog has all that the blob had
    before = read_contents(storage)
    storage.rebuild()
    assert read_contents(storage) == before


def test_blobs_that_cannot_be_read_are_named_by_a_rebuild(open_storage: Open, storage: Storage) -> None:
    save_cell(storage, 1)
    row = storage.read_rows(CellRow)[0]
    storage.blobs._write(storage.blobs._locate(row.blob), storage.blobs.get(row.blob)[:-1])
    (line,) = storage.rebuild()
    assert row.blob in line
    assert storage.read_rows(CellRow) == []
    save_cell(storage, 1)
    assert len(open_storage("two").read_cells()) == 1


def test_a_corrupt_cell_counts_as_absent_also_if_a_night_names_it(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "data")
    save_task(storage)
    cell = save_cell(storage, 1)
    storage.save(DocumentRow(kind="night", key="2026-11-24", content={}, cells=[cell]))
    rows = storage.read_rows(CellRow)
    assert storage.remove(rows) == 0
    damage_blob(storage, rows[0].blob)
    assert "checksum mismatch" in storage.verify()[0]
    assert storage.read_rows(CellRow) == []
    save_cell(storage, 1)
    assert storage.verify() == []
    assert storage.remove(storage.read_rows(CellRow)) == 0


def test_a_rows_checksum_is_the_same_under_every_python() -> None:
    """It is of JSON in ASCII: repr escapes what the Unicode of its Python does not know."""
    values = dict.fromkeys((column.name for column in CELL.c), None)
    values |= {"cell_id": "a" * 16, "task": "\U0001fae9 \ud800", "seed": 1, "seconds": 0.1}
    assert _make_checksum("cell")(tuple(values.values())) == 334949314
