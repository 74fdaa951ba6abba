"""The driver does what a plan says is missing, stores before it tells, and stops where the plan does."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.errors import refused
from traube._core.errors import Busy, Failed
from traube._pipeline.evaluate import evaluate
from traube._pipeline.events import Clustered
from traube._pipeline.params import Protocol
from traube._pipeline.plan import Plan
from traube._pipeline.request import Request
from traube._pipeline.run import cluster, encode, score
from traube._pipeline.survey import plan_stored
from traube._pipeline.workbench import Workbench
from traube._storage import CellRow
from traube.models import load_model
from traube.models.lexical import Lexical
from traube.tasks.task import Stage, Task

PROTOCOL = Protocol(reducers=("none",), clusterers=("kmeans", "agglomerative", "hdbscan"), seeds=(1,))
REQUEST = Request(["tiny"], ["bow"], "own", PROTOCOL)


@pytest.fixture
def plan(bench: Workbench) -> Callable[[], Plan]:
    """Return the cells that are missing now."""
    return lambda: plan_stored(REQUEST, load_model("bow"), bench.storage)


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_a_stage_computes_is_stored_only_under_its_lease(
    bench: Workbench, plan: Callable[[], Plan], is_lost: bool
) -> None:
    with bench.storage.hold("tiny", "bow", Stage.CLUSTERINGS) as lease:
        if is_lost:
            lease.release()  # as if it had expired and another process had taken it over
        expected: Any = refused(Busy, "traube run", "bow") if is_lost else nullcontext()
        with expected:
            assert list(cluster(plan().only(Stage.CLUSTERINGS), replace(bench, lease=lease)))
    assert (bench.storage.find_clustered("tiny") == set()) == is_lost


def statuses(bench: Workbench) -> list[str]:
    return sorted(bench.storage.read_cells("tiny")["status"])


def test_each_event_tells_of_something_that_is_stored(bench: Workbench, plan: Callable[[], Plan]) -> None:
    """hdbscan makes no sense on the words of texts, and stops no other."""
    (encoded,) = encode(plan(), bench)
    assert (encoded.texts, encoded.encoded, encoded.blocking) == (48, 48, [])
    statuses = []
    for event in cluster(plan(), bench):
        statuses.append(event.status)
        if isinstance(event, Clustered):
            stored = bench.storage.read_assignments(event.cell.cell_id)
            assert stored["cluster"].tolist() == event.assignments["cluster"].tolist()
        else:
            assert bench.storage.read_cells(ids=[event.cell.cell_id])["reason"].item() == event.reason
    assert sorted(statuses) == ["done", "done", "unsupported"]
    for scored in score(plan(), bench):
        assert bench.storage.read_cells(ids=[scored.cell.cell_id])["status"].item() == scored.status == "done"
    assert not plan().missing
    assert [*cluster(plan(), bench), *score(plan(), bench)] == []
    assert [event.encoded for event in encode(plan(), bench)] == [0]


def test_a_plan_of_one_stage_stops_there_and_the_next_goes_on(bench: Workbench, plan: Callable[[], Plan]) -> None:
    clusterings, scores = (lambda stage=stage: plan().only(stage) for stage in (Stage.CLUSTERINGS, Stage.SCORES))
    assert list(score(scores(), bench)) == []  # nothing is clustered
    assert list(encode(scores(), bench)) == list(cluster(scores(), bench)) == list(score(clusterings(), bench)) == []
    found = [event.cell for event in cluster(clusterings(), bench) if event.status == "done"]
    assert (len(found), statuses(bench)) == (2, ["unsupported"])
    assert plan().at_hand.clustered == {cell.cell_id for cell in found}
    assert not plan().to_cluster
    assert [event.status for event in score(scores(), bench)] == ["done", "done"]
    assert statuses(bench) == ["done", "done", "unsupported"]
    assert plan().count == 0


def test_a_plan_goes_on_after_its_own_clusterings(bench: Workbench, plan: Callable[[], Plan]) -> None:
    whole = plan()
    clustered = [event.cell for event in cluster(whole, bench) if event.status == "done"]
    assert list(score(whole, bench)) == []
    assert [event.cell for event in score(whole.after(clustered), bench)] == clustered


def test_a_cell_whose_clusters_are_damaged_is_clustered_again(bench: Workbench, plan: Callable[[], Plan]) -> None:
    first, *_ = (event.cell for event in cluster(plan(), bench) if event.status == "done")
    path = bench.storage.get_path(bench.storage.read_rows(CellRow, cell_id=first.cell_id)[0].blob)
    path.write_bytes(path.read_bytes()[:-8])
    assert plan().to_cluster == {"bow": {"tiny": [first]}}
    assert [event.cell for event in cluster(plan(), bench)] == [first]


def test_vectors_that_are_not_finite_are_not_clustered(
    tiny_task: Task, bench: Workbench, plan: Callable[[], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lexical, "encode", lambda model, texts: np.full((len(texts), 4), np.nan, dtype=np.float32))
    (encoded,) = encode(plan(), bench)
    assert [check.name for check in encoded.blocking] == ["finite"]
    with refused(Failed, "finite", "bow", "NaN"):
        evaluate(tiny_task, load_model("bow"))
