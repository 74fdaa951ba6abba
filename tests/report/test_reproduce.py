"""A stored cell computed again: equal if nothing changed, and said so if it is not."""

from pathlib import Path

import numpy as np
import pytest

from traube.benchmark.params import Protocol
from traube.benchmark.plan import Cell, cells
from traube.benchmark.record import Recorder
from traube.engine.evaluate import evaluate_cells
from traube.foundation.errors import TraubeError
from traube.models import EmbeddingCache, load_model
from traube.report.reproduce import Reproduction, reproduce
from traube.store import Store
from traube.tasks.task import Task

OWN = Protocol(reducers=("pca",), clusterers=("minibatch_kmeans",), seeds=(1,))


@pytest.fixture
def home_(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def cell(home_: Path, tiny_task: Task) -> Cell:
    store = Store(home_ / "store")
    store.save_corpus("tiny", tiny_task.corpus, tiny_task.corpus[["text_id"]], "raw")
    store.complete(tiny_task.card, store.save_splits(tiny_task.card, tiny_task.splits))
    (cell,) = cells(tiny_task, load_model("lsa"), OWN)
    scores, assignments = evaluate_cells(tiny_task, load_model("lsa"), [cell], home_)
    Recorder(store).clustered(cell, assignments, 0.0)
    Recorder(store).scored(cell, scores, 0.0)
    return cell


def again(folder: Path, cell_id: str) -> Reproduction:
    return reproduce(Store(folder / "store"), EmbeddingCache(folder / "embeddings"), {"own": OWN}, cell_id)


def test_a_cell_is_equal_to_itself(home_: Path, cell: Cell) -> None:
    found = again(home_, cell.cell_id[:8])
    assert found.equal
    assert found.difference < 1e-9
    assert found.changed == []


def test_a_wrong_score_and_a_wrong_cluster_are_found(home_: Path, cell: Cell, tiny_task: Task) -> None:
    store = Store(home_ / "store")
    scores = store.scores(store.cells(), replicates=True)
    store.save_scores("tiny", cell.cell_id, scores.assign(value=scores["value"] + 0.01))
    found = again(home_, cell.cell_id)
    assert not found.equal
    assert found.clusters_equal
    assert found.difference == pytest.approx(0.01)
    assignments, _ = store.assignments("tiny", cell.cell_id)
    shuffled = np.random.default_rng(0).permutation(assignments["cluster"].to_numpy())
    store.save_assignments("tiny", cell.cell_id, assignments.assign(cluster=shuffled), 0.0)
    assert not again(home_, cell.cell_id).clusters_equal


def test_what_cannot_be_computed_again_is_refused(home_: Path, cell: Cell) -> None:
    store = Store(home_ / "store")
    with pytest.raises(TraubeError, match="unknown cell"):
        again(home_, "zzzz")
    stored = store.cell("tiny", cell.cell_id)
    assert stored is not None
    store.save_cell({**stored, "fingerprint": "another"})
    with pytest.raises(TraubeError, match="cannot be computed again: model fingerprint another ->"):
        again(home_, cell.cell_id)
