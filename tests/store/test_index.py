"""The index of cells and scores: what it gives is what the files say, always; and it may go at any time."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from tests.made import with_replicates
from traube.benchmark.plan import Cell
from traube.benchmark.record import record
from traube.foundation.errors import TraubeError
from traube.methods import parse_method
from traube.store import Store, cells, index, scores

METRICS = ("v_measure/noise_as_cluster", "ari/noise_as_cluster")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Parts of four files, written from the third on, so that a test needs few cells."""
    for module in (cells, scores):
        monkeypatch.setattr(module, "FEW", 2)
        monkeypatch.setattr(module, "PART", 4)
        cells._known.clear()
    yield
    cells._known.clear()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    for seed in range(10):
        add(store, seed)
    return store


def add(store: Store, seed: int | None, task: str = "tiny", value: float = 0.5) -> Cell:
    """A cell with scores on three splits."""
    cell = Cell(task, "own", "bow", "f1", parse_method("none/kmeans"), seed, "own", "default", "d1")
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "split": np.repeat(["a", "b", "c"], 2),
            "level": "coarse",
            "metric": METRICS * 3,
            "value": rng.normal(value, 0.1, 6),
        }
    )
    store.save_scores(task, cell.cell_id, with_replicates(frame, 0.1))
    store.save_cell(record(cell, "done"))
    return cell


def fresh(store: Store) -> Store:
    """The same store as a process sees it that has read nothing yet."""
    cells._known.clear()
    return Store(store.folder)


def parts(store: Store, kind: str) -> list[Path]:
    return sorted(store.folder.glob(f"index/{kind}/tiny/*.parquet"))


def plain(store: Store) -> pd.DataFrame:
    """Every record, read one by one."""
    ids = sorted(path.stem for path in store.folder.glob("results/tiny/*.json"))
    return store.cells_by_id("tiny", ids)


def plain_scores(store: Store, metrics: list[str] | None = None) -> pd.DataFrame:
    """Every table of scores, read one by one."""
    tables = [store.scores(plain(store).iloc[[i]], metrics, replicates=True) for i in range(len(plain(store)))]
    return pd.concat(tables, ignore_index=True)


def assert_same(store: Store) -> None:
    """What the index gives is what the files say."""
    assert_frame_equal(fresh(store).cells("tiny"), plain(store))
    assert_frame_equal(fresh(store).cells(), plain(store))
    found = store.scores(plain(store), replicates=True)
    assert_frame_equal(found, plain_scores(store))
    assert_frame_equal(store.scores(plain(store), [METRICS[1]], replicates=True), plain_scores(store, [METRICS[1]]))


def test_an_index_gives_what_the_files_say(store: Store) -> None:
    assert_same(store)  # the first reading writes the index, the second uses it
    assert len(parts(store, "cells")) == len(parts(store, "scores")) == 3
    assert_same(store)


def test_rows_come_in_the_order_of_the_cells_that_are_asked_for(store: Store) -> None:
    store.scores(plain(store))
    asked = plain(store).iloc[[7, 2, 9, 0]]
    assert store.scores(asked)["cell_id"].drop_duplicates().tolist() == asked["cell_id"].tolist()


def test_a_table_of_scores_is_read_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.scores(plain(store))
    monkeypatch.setattr(scores, "_from_files", None)
    assert len(store.scores(plain(store))) == 60


def test_what_is_written_again_is_read_again(store: Store) -> None:
    assert_same(store)
    cell = add(store, 3, value=5.0)
    assert_same(store)
    assert store.scores(plain(store)).groupby("cell_id")["value"].mean()[cell.cell_id] > 4


def test_new_cells_count_at_once_few_or_many(store: Store) -> None:
    assert_same(store)
    add(store, 20)
    assert_same(store)
    assert len(parts(store, "cells")) == 3  # one more is not worth a part
    for seed in range(30, 35):
        add(store, seed)
    assert_same(store)
    assert len(parts(store, "cells")) > 3


def test_a_cell_that_is_gone_is_gone(store: Store) -> None:
    assert_same(store)
    gone = plain(store)["cell_id"].iloc[4]
    (store.folder / "results" / "tiny" / f"{gone}.json").unlink()
    assert gone not in set(fresh(store).cells()["cell_id"])
    assert_same(store)


def test_a_process_that_has_read_sees_what_others_write(store: Store) -> None:
    assert len(store.cells()) == 10
    add(store, 50)
    assert len(store.cells()) == 11


@pytest.mark.parametrize("kind", ["cells", "scores"])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "gone"])
def test_a_damaged_index_is_read_anew(store: Store, kind: str, damage: str) -> None:
    assert_same(store)
    path = parts(store, kind)[0]
    content = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "empty":
            path.write_bytes(b"")
        case "flipped":
            path.write_bytes(content[:40] + bytes([content[40] ^ 4]) + content[41:])
        case "gone":
            path.unlink()
    assert_same(store)


def test_parts_of_which_little_counts_are_removed(store: Store) -> None:
    assert_same(store)
    before = parts(store, "scores")
    for seed in range(10):
        add(store, seed)
    assert_same(store)
    assert not set(before) & set(parts(store, "scores"))


def test_a_damaged_table_of_scores_is_named_although_it_was_read_before(store: Store) -> None:
    assert_same(store)
    path, cells = next(store.folder.glob("results/tiny/*.scores.parquet")), plain(store)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TraubeError, match=f"^{path}: "):
        store.scores(cells)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_where_nothing_can_be_written_the_files_are_read(store: Store) -> None:
    store.folder.chmod(0o500)
    try:
        assert len(fresh(store).cells()) == 10
    finally:
        store.folder.chmod(0o700)


def test_an_index_that_cannot_be_written_is_done_without(store: Store) -> None:
    (store.folder / "index").write_text("in the way")
    assert_same(store)


def test_stamps_pass_over_files_that_are_being_written(tmp_path: Path) -> None:
    for name in ("a.json", ".b.json.1234.json", "c.parquet"):
        (tmp_path / name).touch()
    assert list(index.stamps(tmp_path, ".json")) == ["a"]
    assert index.stamps(tmp_path / "absent", ".json") == {}


def test_for_one_look_a_store_is_what_it_was_and_then_what_it_is(store: Store) -> None:
    with index.one_look():
        before = store.cells("tiny")
        add(store, 11)
        assert_frame_equal(store.cells("tiny"), before)
    assert len(store.cells("tiny")) == len(before) + 1
