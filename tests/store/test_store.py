"""What is stored counts when it is whole, and only then."""

from pathlib import Path

import pandas as pd
import pytest

from tests.made import with_replicates
from traube.benchmark.plan import Cell, stored
from traube.benchmark.record import record
from traube.foundation.errors import TraubeError
from traube.methods import parse_method
from traube.store import Store
from traube.tasks.task import Task, index_texts

CELL = Cell("tiny", "own", "bow", "f1", parse_method("none/kmeans"), 1, "own", "default", "d1")
SCORES = with_replicates(
    pd.DataFrame({"split": "all", "level": "area", "metric": ["v_measure", "ari"], "value": [0.75, 0.5]})
)
ASSIGNMENTS = pd.DataFrame({"split": "all", "level": "area", "item": [0, 1, 2], "cluster": [1, 0, -1]})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def full(store: Store) -> Store:
    """A store with one cell."""
    store.save_assignments("tiny", CELL.cell_id, ASSIGNMENTS, 1.25)
    store.save_scores("tiny", CELL.cell_id, SCORES)
    store.save_cell(record(CELL, "done", seconds=1.25))
    return store


def save_task(store: Store, task: Task, topics: pd.DataFrame) -> None:
    store.save_corpus(task.name, task.corpus, index_texts(topics)[1], "raw 1")
    store.complete(task.card, store.save_splits(task.card, task.splits))


def file(store: Store, suffix: str) -> Path:
    return store.folder / "results" / "tiny" / f"{CELL.cell_id}{suffix}"


# cells


def test_a_cell_comes_back_as_it_was_stored(full: Store) -> None:
    (cell,) = full.cells().to_dict("records")
    assert (cell["cell_id"], cell["seed"], cell["status"], cell["seconds"]) == (CELL.cell_id, 1, "done", 1.25)
    assert cell["params"] == CELL.method.params()
    frame, seconds = full.assignments("tiny", CELL.cell_id)
    assert frame.drop(columns="cell_id").equals(ASSIGNMENTS) and seconds == 1.25
    scores = full.scores(full.cells())
    assert scores["value"].tolist() == [0.75, 0.5] and set(scores["cell_id"]) == {CELL.cell_id}
    assert full.scores(full.cells(), ["ari"])["value"].tolist() == [0.5]


def test_a_cell_remembers_where_its_number_comes_from(full: Store) -> None:
    cell = full.cell("tiny", CELL.cell_id)
    assert cell is not None
    assert {"python", "numpy", "scikit-learn", "traube"} <= cell["library_versions"].keys()
    assert (cell["fingerprint"], cell["data_version"], cell["protocol"]) == ("f1", "d1", "own")


def test_a_cell_counts_only_once_its_record_is_there(store: Store) -> None:
    store.save_assignments("tiny", CELL.cell_id, ASSIGNMENTS, 1.25)
    store.save_scores("tiny", CELL.cell_id, SCORES)
    assert store.cells().empty
    assert not stored(CELL, store)


@pytest.mark.parametrize("content", ["", "{", "null", "[]", "7", '{"cell_id": "x"}'])
def test_a_cell_with_a_damaged_record_counts_as_missing(full: Store, content: str) -> None:
    file(full, ".json").write_text(content)
    assert full.cell("tiny", CELL.cell_id) is None
    assert full.cells().empty
    assert not stored(CELL, full)


def test_only_cells_that_are_done_have_scores(full: Store) -> None:
    full.save_cell(record(CELL, "failed", reason="too tired"))
    assert full.scores(full.cells()).empty
    assert full.cells_by_id("tiny", [CELL.cell_id, "another"])["reason"].tolist() == ["too tired"]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone"])
@pytest.mark.parametrize("kind", ["scores", "assignments"])
def test_a_damaged_table_of_a_cell_is_one_line_that_names_it(full: Store, kind: str, damage: str) -> None:
    path, cells = file(full, f".{kind}.parquet"), full.cells()
    content = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "flipped":
            flip(path, content.index(CELL.cell_id.encode()))
        case "gone":
            path.unlink()
    with pytest.raises(TraubeError, match=f"^{path}: ") as error:
        full.assignments("tiny", CELL.cell_id) if kind == "assignments" else full.scores(cells)
    assert "\n" not in str(error.value)


# tasks


def test_a_task_comes_back_as_it_was_stored(store: Store, tiny_task: Task, topics: pd.DataFrame) -> None:
    save_task(store, tiny_task, topics)
    manifest = store.manifest("tiny")
    assert manifest is not None
    assert manifest.raw_version == "raw 1"
    assert store.task(tiny_task.card).data_version == manifest.data_version == tiny_task.data_version
    assert store.card("tiny") == tiny_task.card
    assert len(store.records("tiny")) == len(topics)


def test_a_task_whose_corpus_is_new_is_absent_until_its_splits_are_there(
    store: Store, tiny_task: Task, topics: pd.DataFrame
) -> None:
    save_task(store, tiny_task, topics)
    store.save_corpus("tiny", tiny_task.corpus[:9], index_texts(topics)[1], "raw 2")
    assert store.manifest("tiny") is None
    with pytest.raises(TraubeError, match=r"^task 'tiny' has not been read yet; `traube run --task tiny` reads it$"):
        store.task(tiny_task.card)


@pytest.mark.parametrize("content", ["", "{", "null", "[]", '"text"', "{}"])
def test_a_task_with_a_damaged_manifest_counts_as_unread(
    store: Store, tiny_task: Task, topics: pd.DataFrame, content: str
) -> None:
    save_task(store, tiny_task, topics)
    (store.folder / "tasks" / "tiny" / "manifest.json").write_text(content)
    assert store.manifest("tiny") is None
    assert store.card("tiny") is None


@pytest.mark.parametrize("table", ["corpus", "splits"])
def test_a_damaged_table_of_a_task_is_one_line_that_names_it(
    store: Store, tiny_task: Task, topics: pd.DataFrame, table: str
) -> None:
    save_task(store, tiny_task, topics)
    path = store.folder / "tasks" / "tiny" / f"{table}.parquet"
    flip(path, 60)
    with pytest.raises(TraubeError, match=rf"^{path}: damaged \(.+\); `traube run` makes it again$"):
        store.task(tiny_task.card)


def test_an_empty_store_has_empty_tables(store: Store) -> None:
    assert store.cells().empty
    assert store.scores(store.cells()).empty
    assert store.manifest("tiny") is None
