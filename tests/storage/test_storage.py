"""The contract of the storage, with either database and either blob store."""

import os
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.errors import refused
from tests.storage.conftest import Open
from tests.storage.made import (
    METRICS,
    count_rows,
    find_orphans,
    make_assignments,
    make_record,
    make_scores,
    make_splits,
    read_contents,
    save_cell,
    save_task,
)
from traube._core.errors import Conflict, Corrupt
from traube._storage import ArtifactRow, CellRow, CheckRow, DocumentRow, EmbeddingRow, Score, Storage, open_storage
from traube._storage import storage as storages
from traube._storage.blobs import FolderBlobs
from traube._storage.catalog import ARTIFACT, CELL, SCHEMA_VERSION, SCORE, SETTING


def test_a_cell_is_read_as_it_was_stored(storage: Storage, open_storage: Open) -> None:
    save_cell(storage, 1)
    other = open_storage("two")
    pd.testing.assert_frame_equal(other.read_assignments(f"{1:016x}"), make_assignments(1))
    read = [score for chunk in other.iterate_scores([f"{1:016x}"]) for _, score in chunk]
    for one, two in zip(read, make_scores(1), strict=True):
        assert (one.level, one.metric) == (two.level, two.metric)
        np.testing.assert_array_equal(one.values, two.values)
        np.testing.assert_array_equal(one.replicates, two.replicates)
    cell = other.get_cell(f"{1:016x}")
    assert cell is not None
    assert (cell.params, cell.seed, cell.clusters, cell.seconds) == (
        {"kmeans": {"n_init": 10}},
        42,
        None,
        1.25,
    )


def test_scores_of_a_split_stand_together_in_the_order_of_cells(storage: Storage) -> None:
    none = storage.read_scores(storage.read_cells())
    ids = [save_cell(storage, number) for number in (3, 1, 2)]
    cells = storage.read_cells("fruit").set_index("cell_id").loc[ids].reset_index()
    table = storage.read_scores(cells, METRICS[:1], replicates=True)
    assert table["cell_id"].unique().tolist() == ids
    first = table[table["cell_id"] == ids[0]]
    assert first[["split", "level"]].to_numpy().tolist() == [
        [f"s{i}", level] for i in range(3) for level in ("fine", "coarse")
    ]
    fine = make_scores(3)[0]
    np.testing.assert_array_equal(first.loc[first["level"] == "fine", "value"], fine.values)
    np.testing.assert_array_equal(np.stack(first.loc[first["level"] == "fine", "replicates"].tolist()), fine.replicates)
    every = storage.read_scores(cells)
    assert every.groupby("cell_id").size().eq(3 * 2 * 4).all()
    assert every.merge(none, on=["cell_id", "split", "level", "metric"]).empty  # columns of the same kinds


def test_a_cell_that_fails_later_has_no_scores(storage: Storage) -> None:
    save_cell(storage, 1)
    storage.save_cell(make_record(f"{1:016x}", "failed"))
    assert (storage.read_cells()["status"].tolist(), count_rows(storage, SCORE)) == (["failed"], 0)


def test_a_metric_may_be_that_of_some_splits_only(storage: Storage) -> None:
    silhouette = Score("fine", "silhouette", np.array([0.5, np.nan]), positions=np.array([0, 4]))
    storage.save_cell(make_record("a" * 16), scores=[silhouette])
    table = storage.read_scores(storage.read_cells())
    assert table["split"].tolist() == ["s0", "s2"]
    np.testing.assert_array_equal(table["value"], [0.5, np.nan])


def test_equal_numbers_are_kept_once(storage: Storage) -> None:
    save_cell(storage, 1)
    rows = storage.catalog.read_rows(SCORE)
    assert [row["values"] is None for row in rows if row["metric"] == METRICS[1]] == [True, True]
    _, score = next(storage.iterate_scores([f"{1:016x}"], METRICS[1:2]))[0]
    np.testing.assert_array_equal(score.values, make_scores(1)[0].values)


def test_a_cell_goes_from_failed_to_clustered_to_done(storage: Storage) -> None:
    storage.save_cell(make_record("a" * 16, "failed", reason="out of\nmemory"))
    assert storage.read_cells()["reason"].tolist() == ["out of\\nmemory"]
    storage.save_cell(make_record("a" * 16, "clustered"), make_assignments(1), histories={"s0": [{"loss": 1.0}]})
    assert len(storage.read_scores(storage.read_cells())) == 0
    pd.testing.assert_frame_equal(storage.read_assignments("a" * 16), make_assignments(1))
    assert storage.read_histories("a" * 16) == {"s0": [{"loss": 1.0}]}
    storage.save_cell(make_record("a" * 16), make_assignments(1), make_scores(1))
    assert storage.read_cells()["status"].tolist() == ["done"]
    assert storage.read_cells("fruit", ids=["a" * 16, "b" * 16])["cell_id"].tolist() == ["a" * 16]


def test_the_task_that_was_ingested_last_counts_and_splits_of_before_stay(storage: Storage) -> None:
    save_cell(storage, 1)
    save_task(storage, "d2")
    storage.set_task_state("fruit", "checked")
    row = storage.get_task("fruit")
    assert row is not None
    assert (row.data_version, row.state) == ("d2", "checked")
    pd.testing.assert_frame_equal(storage.read_table(row.files["splits"]), make_splits())
    assert storage.read_splits("d1")[["level", "name", "size", "classes"]].to_numpy().tolist()[:2] == [
        ["fine", "s0", 8, 3],
        ["coarse", "s0", 8, 3],
    ]
    assert len(storage.read_scores(storage.read_cells())) == 24
    save_task(storage, "d1")  # the data is again as it was
    row = storage.get_task("fruit")
    assert row is not None
    assert row.data_version == "d1"


def test_files_are_found_by_their_input_key(storage: Storage, open_storage: Open) -> None:
    storage.save(ArtifactRow(kind="reduction", key="k", texts=9, seconds=2.0), {"points.npy": b"123"})
    (row,) = open_storage("two").read_rows(ArtifactRow, kind="reduction", key="k")
    path = open_storage("two").get_path(row.files["points.npy"])
    assert (path.read_bytes(), row.seconds, row.memory) == (b"123", 2.0, None)
    storage.save(EmbeddingRow(fingerprint="f", numerics="n", block="b1", texts=2), {"vectors": b"1"})
    assert [row.texts for row in storage.read_rows(EmbeddingRow, fingerprint="f", numerics="n")] == [2]


ACTIONS = st.one_of(
    st.tuples(st.just("cell"), st.integers(0, 3), st.sampled_from(["done", "failed", "unavailable"])),
    st.tuples(st.just("task"), st.sampled_from(["d1", "d2"]), st.just("")),
    st.tuples(st.sampled_from(["document", "artifact"]), st.sampled_from("ab"), st.text(max_size=5)),
    st.tuples(st.just("check"), st.sampled_from("ab"), st.booleans()),
    st.tuples(st.just("remove"), st.integers(0, 3), st.just("")),
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, max_size=8))
@example(actions=[("artifact", "a", "")])  # an empty blob, which S3 has no range of
def test_a_catalog_is_made_again_to_the_row(actions: list[tuple[str, object, object]], storage: Storage) -> None:
    for action, key, content in actions:
        if action == "cell":
            done = content == "done"
            storage.save_cell(make_record(f"{key:016x}", str(content)), scores=make_scores(1) if done else ())
        elif action == "task":
            save_task(storage, str(key))
        elif action == "document":
            storage.save(DocumentRow(kind="setting", key=key, content=content, cells=[]), {"x": b"x"})
        elif action == "artifact":
            storage.save(ArtifactRow(kind="reduction", key=key), {"x": str(content).encode()})
        elif action == "check":
            storage.save(CheckRow(task="fruit", data_version="d1", name=key, passed=content))
        else:
            storage.remove([make_record(f"{key:016x}")])
    before = read_contents(storage)
    assert storage.rebuild() == []
    assert read_contents(storage) == before
    assert storage.verify() == []


def test_several_writers_lose_and_double_nothing(storage: Storage, open_storage: Open) -> None:
    def write(node: int) -> None:
        own = open_storage(f"node{node}")
        for number in range(8):
            save_cell(own, number)
        for number in range(10 * node, 10 * node + 4):
            save_cell(own, number)

    threads = [threading.Thread(target=write, args=(node,)) for node in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(storage.read_cells()["cell_id"]) == {
        f"{n:016x}" for n in (*range(8), *range(10, 14), *range(20, 24), *range(30, 34))
    }
    assert count_rows(storage, SCORE) == 8 * count_rows(storage, CELL)
    assert storage.verify() == []


def test_what_nothing_refers_to_is_deleted_after_a_day(storage: Storage) -> None:
    save_cell(storage, 1)
    save_cell(storage, 1)  # the blob of before is an orphan
    assert len(find_orphans(storage)) == 1
    assert storage.clean() == (1, 0)
    assert storage.clean() == (1, 0)
    assert storage.clean(seconds=0) == (0, 1)
    assert find_orphans(storage) == set()
    assert storage.verify() == []


def test_half_a_blob_of_a_killed_writer_is_deleted_after_a_day(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    blob = storage.blobs.put(b"whole")
    old, young = (tmp_path / "blobs" / blob[:2] / f".{blob}.{digit * 32}" for digit in "ab")
    for half, hours in ((old, 25), (young, 23)):
        half.write_bytes(b"wh")
        os.utime(half, (at := time.time() - 3600 * hours, at))
    storage.clean()
    assert not old.exists() and young.exists()  # whose writer may be at it still
    assert storage.blobs.get(blob) == b"whole"


def test_a_document_keeps_its_cells_and_files(storage: Storage) -> None:
    ids = [save_cell(storage, number) for number in (1, 2)]
    night = DocumentRow(kind="night", key="2026-11-24", content={"cells": 1}, cells=ids[:1])
    storage.save(night, {"table.csv": b"a,b"})
    assert storage.remove(storage.read_rows(CellRow)) == 1
    assert storage.read_cells()["cell_id"].tolist() == ids[:1]
    assert (storage.clean(seconds=0), storage.clean(seconds=0)) == ((1, 0), (0, 1))
    (kept,) = storage.read_rows(DocumentRow, kind="night")
    assert storage.blobs.get(kept.files["table.csv"]) == b"a,b"


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_what_was_removed_long_ago_leaves_nothing(
    storage: Storage, is_rebuilt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog of a year would hold mostly what is no longer there."""
    storage.save(ArtifactRow(kind="reduction", key="stays"), {"x": b"stays"})
    storage.save(ArtifactRow(kind="reduction", key="goes"), {"x": b"goes"})
    storage.remove([ArtifactRow(kind="reduction", key="goes")])

    storage.clean(seconds=0)
    assert count_rows(storage, ARTIFACT) == 2  # copies of this week bring back nothing that was removed
    monkeypatch.setattr(storages, "WEEK", -1.0)
    assert storage.clean(seconds=0) == (0, 2)  # of what went
    assert count_rows(storage, ARTIFACT) == 1
    if is_rebuilt:  # the entry that says so is still there
        assert storage.rebuild() == [] and count_rows(storage, ARTIFACT) == 2
        storage.clean(seconds=0)
        assert count_rows(storage, ARTIFACT) == 1
    assert (storage.clean(seconds=0), storage.clean(seconds=0)) == ((1, 0), (0, 1))
    assert storage.rebuild() == [] and count_rows(storage, ARTIFACT) == 1
    assert [row.key for row in storage.read_rows(ArtifactRow)] == ["stays"]


def test_a_blob_that_is_cleaned_under_its_writer_is_put_again(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = storage.blobs.put(b"of a run that was killed")
    assert storage.clean() == (1, 0)
    enter = storage.catalog.enter

    def enter_late(*arguments: object, **others: object) -> bool:
        assert storage.clean(seconds=0) == (1, 1)  # the writer's entry is young, what it found is old
        assert not storage.blobs.exists(orphan)
        return enter(*arguments, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(storage.catalog, "enter", enter_late)
    storage.save(ArtifactRow(kind="reduction", key="k"), {"x": b"of a run that was killed"})
    assert storage.blobs.get(orphan) == b"of a run that was killed"


def test_the_catalog_of_another_blob_store_is_refused(
    storage: Storage, open_storage: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "elsewhere"
    monkeypatch.setenv("TRAUBE_BLOBS", str(other))
    with refused(Conflict, other, storage.catalog.name):
        open_storage()
    FolderBlobs(other).get_identity()
    with refused(Conflict, storage.catalog.name):
        open_storage()
    storage.catalog.close()
    with refused(Conflict, storage.catalog.name):
        Storage(storage.folder, is_read_only=True)


def test_a_catalog_of_another_version_is_refused(storage: Storage, open_storage: Open) -> None:
    storage.catalog.write(
        lambda c: c.execute(SETTING.update().where(SETTING.c.name == "schema").values(content="0")).close()
    )
    with refused(Corrupt, "traube rebuild", 0, int(SCHEMA_VERSION)):
        open_storage()


@pytest.mark.parametrize("has_links", [True, False])
def test_a_blob_is_written_to_a_file_by_a_link_or_where_there_are_none_by_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    blobs, path = FolderBlobs(tmp_path / "blobs"), tmp_path / "file"
    name = blobs.put(b"x")
    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: path.parent.joinpath("none").rename(path))
    blobs.write_to(name, path)
    assert path.read_bytes() == b"x"
    assert path.samefile(blobs.get_path(name)) == has_links


def test_a_cell_whose_blob_is_gone_counts_as_absent_from_then_on(storage: Storage) -> None:
    cell_id = save_cell(storage, 1)
    cell = storage.get_cell(cell_id)
    assert cell is not None
    storage.blobs.delete(cell.blob)
    with refused(Corrupt, "traube run"):
        storage.read_assignments(cell_id)
    assert storage.get_cell(cell_id) is None
    save_cell(storage, 1)
    assert storage.verify() == []


def test_only_the_nodes_data_directory_is_shared(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch storages, as of `evaluate` and `reproduce`, write nothing to where others read."""
    monkeypatch.setenv("TRAUBE_BLOBS", str(tmp_path / "shared"))
    scratch, own = open_storage(tmp_path / "scratch"), open_storage(home)
    assert own.blobs.url == str(tmp_path / "shared")
    assert scratch.blobs.url == str(tmp_path / "scratch" / "blobs")
    assert open_storage(home) is own
