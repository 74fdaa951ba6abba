"""One writer for what became of a cell: files in an order that leaves nothing half done, and a
record that says where from.
"""

from pathlib import Path

import pandas as pd
import pytest

from tests.errors import refused
from tests.made import is_finished, with_replicates
from traube import components
from traube._core.errors import Busy
from traube._pipeline.cell import Cell
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import Recorder, library_versions, make_scores
from traube._storage import open_storage
from traube.models import load_model
from traube.tasks.task import Task

ASSIGNMENTS = pd.DataFrame({"split": "early", "level": "fine", "item": [0, 1, 2], "cluster": [0, 0, 1]})
SCORES = with_replicates(pd.DataFrame({"split": ["early"], "level": ["fine"], "metric": ["acc"], "value": [0.5]}))


@pytest.fixture
def cell(tiny_task: Task) -> Cell:
    protocol = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1,))
    return cells(tiny_task, load_model("bow"), protocol)[0]


def test_a_cell_counts_once_it_is_scored(tmp_path: Path, cell: Cell, tiny_task: Task) -> None:
    storage = open_storage(tmp_path)
    recorder = Recorder(storage, "cuda", "run 7")
    recorder.save_clusters(cell, ASSIGNMENTS, 1.25)
    assert storage.read_cells().empty and not is_finished(cell, storage)
    assert storage.read_assignments(cell.cell_id)["cluster"].tolist() == [0, 0, 1]

    storage.save_splits_of(cell.data_version, tiny_task.splits)
    recorder.save_scores(cell, SCORES)
    assert is_finished(cell, storage)
    record = storage.get_cell(cell.cell_id)
    assert record is not None
    assert (record.status, record.seconds, record.device, record.run_id) == ("done", 1.25, "cuda", "run 7")
    assert {"python", "numpy", "scikit-learn", "traube"} <= record.library_versions.keys()
    assert storage.read_scores(storage.read_cells())["value"].tolist() == [0.5]


@pytest.mark.parametrize(("status", "again"), [("failed", True), ("unavailable", True), ("unsupported", False)])
def test_a_cell_without_clusters_says_why(tmp_path: Path, cell: Cell, status: str, again: bool) -> None:
    storage = open_storage(tmp_path)
    Recorder(storage).save_failure(cell, status, "no way")
    record = storage.get_cell(cell.cell_id)
    assert record is not None and (record.status, record.reason) == (status, "no way")
    assert is_finished(cell, storage) != again
    assert storage.read_scores(storage.read_cells()).empty


def test_what_is_stored_under_a_lease_counts_only_while_it_lasts(tmp_path: Path, cell: Cell) -> None:
    storage = open_storage(tmp_path)
    with storage.hold(cell.task, cell.model, "clusterings") as lease:
        Recorder(storage, lease=lease).save_clusters(cell, ASSIGNMENTS, 1.25)
    with storage.hold(cell.task, cell.model, "clusterings") as lease:
        lease.release()  # as if it had expired
        with refused(Busy, "traube run", "bow"):
            Recorder(storage, lease=lease).save_failure(cell, "failed", "late")
    record = storage.get_cell(cell.cell_id)
    assert record is not None and record.status == "clustered"


def test_scores_that_lack_a_split_say_which_they_are_of() -> None:
    splits = pd.DataFrame({"name": ["a", "b", "c"], "level": "class", "position": [0, 1, 2]})
    table = pd.DataFrame({"split": ["c", "a", "b"], "level": "class", "metric": "ami", "value": [0.3, 0.1, 0.2]})
    table["replicates"] = None
    (whole,), (partial,) = make_scores(table, splits), make_scores(table.iloc[:2], splits)
    assert whole.values.tolist() == [0.1, 0.2, 0.3] and whole.positions is None
    assert partial.values.tolist() == [0.1, 0.3]
    assert partial.positions is not None and partial.positions.tolist() == [0, 2]


def test_every_library_that_numbers_depend_on_is_recorded() -> None:
    used = [*components.REDUCERS.values(), *components.CLUSTERERS.values()]
    needed = {library for component in used for library in component.libraries}
    needed |= {library for name in ("bow", "minilm", "hashed") for library in load_model(name).numerics} - {
        "encoder",
        "words",
    }  # no libraries
    assert needed <= library_versions().keys()
