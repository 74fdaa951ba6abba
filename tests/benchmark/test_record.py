"""One writer for what became of a cell: files in an order that leaves nothing half done, and a
record that says where from.
"""

from pathlib import Path

import pandas as pd
import pytest

from tests.made import with_replicates
from traube import methods
from traube.benchmark.params import Protocol
from traube.benchmark.plan import Cell, cells, stored
from traube.benchmark.record import Recorder, library_versions
from traube.models import load_model
from traube.store import Store
from traube.tasks.task import Task

ASSIGNMENTS = pd.DataFrame({"split": "early", "level": "fine", "item": [0, 1, 2], "cluster": [0, 0, 1]})
SCORES = with_replicates(pd.DataFrame({"split": ["early"], "level": ["fine"], "metric": ["acc"], "value": [0.5]}))


@pytest.fixture
def cell(tiny_task: Task) -> Cell:
    protocol = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1,))
    return cells(tiny_task, load_model("bow"), protocol)[0]


def test_a_cell_counts_once_it_is_scored(tmp_path: Path, cell: Cell) -> None:
    store = Store(tmp_path)
    recorder = Recorder(store, "cuda", "run 7")
    recorder.clustered(cell, ASSIGNMENTS, 1.25)
    assert store.cell("tiny", cell.cell_id) is None and not stored(cell, store)
    frame, seconds = store.assignments("tiny", cell.cell_id)
    assert frame["cluster"].tolist() == [0, 0, 1] and seconds == 1.25

    recorder.scored(cell, SCORES, seconds)
    assert stored(cell, store)
    record = store.cell("tiny", cell.cell_id)
    assert record is not None
    assert (record["status"], record["seconds"], record["device"], record["run_id"]) == ("done", 1.25, "cuda", "run 7")
    assert store.scores(store.cells())["value"].tolist() == [0.5]


@pytest.mark.parametrize(("status", "again"), [("failed", True), ("unavailable", True), ("unsupported", False)])
def test_a_cell_without_clusters_says_why_and_may_be_tried_again(
    tmp_path: Path, cell: Cell, status: str, again: bool
) -> None:
    store = Store(tmp_path)
    Recorder(store).without_clusters(cell, status, "no way")
    record = store.cell("tiny", cell.cell_id)
    assert record is not None and (record["status"], record["reason"]) == (status, "no way")
    assert stored(cell, store) != again
    assert store.scores(store.cells()).empty


def test_every_library_that_numbers_depend_on_is_recorded() -> None:
    parts = [*methods.REDUCERS.values(), *methods.CLUSTERERS.values()]
    needed = {library for part in parts for library in part.libraries}
    needed |= {library for name in ("bow", "minilm", "hashed") for library in load_model(name).numerics} - {"encoder"}
    assert needed <= library_versions().keys()
