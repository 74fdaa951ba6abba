"""A stored cell computed again: equal if nothing changed, and said so if it is not."""

from dataclasses import replace

import numpy as np
import pytest

from tests.errors import refused
from tests.made import save_scored, store_task
from traube._core.errors import Missing
from traube._pipeline.cell import Cell
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import Recorder, record
from traube._reports.reproduce import reproduce
from traube._storage import Storage
from traube.models import load_model
from traube.tasks.task import Task

OWN = Protocol(reducers=("pca",), clusterers=("minibatch_kmeans",), seeds=(1,))


@pytest.fixture
def cell(storage: Storage, tiny_task: Task) -> Cell:
    store_task(storage, tiny_task)
    (cell,) = cells(tiny_task, load_model("lsa"), OWN)
    scores, assignments = evaluate_cells(tiny_task, load_model("lsa"), [cell], storage.folder)
    Recorder(storage).save_clusters(cell, assignments, 0.0)
    Recorder(storage).save_scores(cell, scores)
    return cell


def test_a_cell_is_equal_to_itself(storage: Storage, cell: Cell) -> None:
    found = reproduce(storage, {"own": OWN}, cell.cell_id[:8])
    assert found.equal
    assert found.difference < 1e-9
    assert found.changed == []


def test_a_wrong_score_and_a_wrong_cluster_are_found(storage: Storage, cell: Cell) -> None:
    scores = storage.read_scores(storage.read_cells(), replicates=True)
    assignments = storage.read_assignments(cell.cell_id)
    save_scored(storage, record(cell, "done"), scores.assign(value=scores["value"] + 0.01), assignments)
    found = reproduce(storage, {"own": OWN}, cell.cell_id)
    assert not found.equal
    assert found.clusters_equal
    assert found.difference == pytest.approx(0.01)
    shuffled = np.random.default_rng(0).permutation(assignments["cluster"].to_numpy())
    save_scored(storage, record(cell, "done"), scores, assignments.assign(cluster=shuffled))
    assert not reproduce(storage, {"own": OWN}, cell.cell_id).clusters_equal


def test_what_cannot_be_computed_again_is_refused(storage: Storage, cell: Cell) -> None:
    stored = storage.get_cell(cell.cell_id)
    assert stored is not None
    storage.save_cell(replace(stored, fingerprint="another"))
    with refused(Missing, cell.cell_id, "another"):
        reproduce(storage, {"own": OWN}, cell.cell_id)
