"""The driver does what a plan says is missing, stores before it tells, and stops where the plan does."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.made import store_task
from traube._core.errors import TraubeError
from traube._pipeline.evaluate import evaluate
from traube._pipeline.params import Protocol
from traube._pipeline.plan import Plan, Request
from traube._pipeline.run import Clustered, Encoded, Event, Failed, Scored, run
from traube._pipeline.survey import survey_stored
from traube._pipeline.workbench import Workbench
from traube.models import load_model
from traube.models._lexical import Lexical
from traube.tasks._task import Stage, Task

PROTOCOL = Protocol(reducers=("none",), clusterers=("kmeans", "agglomerative", "hdbscan"), seeds=(1,))
REQUEST = Request(["tiny"], ["bow"], "own", PROTOCOL)


@pytest.fixture
def bench(tiny_task: Task, tmp_path: Path) -> Workbench:
    """A workbench whose store has read a task."""
    bench = Workbench.at(tmp_path)
    store_task(bench.storage, tiny_task)
    return bench


@pytest.fixture
def plan(bench: Workbench) -> Callable[[], Plan]:
    """Return the cells that are missing now."""
    return lambda: Plan.of(REQUEST, survey_stored(["tiny"], load_model("bow"), bench.storage))


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_a_stage_computes_is_stored_only_under_its_lease(
    bench: Workbench, plan: Callable[[], Plan], is_lost: bool
) -> None:
    with bench.storage.hold("tiny", "bow", Stage.CLUSTERINGS) as lease:
        if is_lost:
            lease.release()  # as if it had expired and another process had taken it over
        expected: Any = (
            pytest.raises(TraubeError, match="another one may have taken over") if is_lost else nullcontext()
        )
        stages = Stage.EMBEDDINGS, Stage.CLUSTERINGS
        with expected:
            assert list(run(plan().only(*stages), replace(bench, lease=lease)))
    assert (bench.storage.find_clustered("tiny") == set()) == is_lost


def statuses(bench: Workbench) -> list[str]:
    return sorted(bench.storage.read_cells("tiny")["status"])


def test_each_event_tells_of_something_that_is_stored(bench: Workbench, plan: Callable[[], Plan]) -> None:
    """hdbscan makes no sense on the words of texts, and stops no other."""
    kinds: list[type[Event]] = []
    for event in run(plan(), bench):
        kinds.append(type(event))
        match event:
            case Encoded():
                assert (event.texts, event.encoded, event.blocking) == (48, 48, [])
            case Clustered():
                stored = bench.storage.read_cell_table(event.cell.cell_id)
                assert stored["cluster"].tolist() == event.assignments["cluster"].tolist()
            case Scored():
                assert bench.storage.read_cells(ids=[event.cell.cell_id])["status"].item() == "done"
            case Failed():
                assert bench.storage.read_cells(ids=[event.cell.cell_id])["reason"].item() == event.reason
    assert kinds[0] is Encoded
    assert sorted(kind.__name__ for kind in kinds[1:]) == ["Clustered", "Clustered", "Failed", "Scored", "Scored"]
    assert kinds[-2:] == [Scored, Scored]
    assert not plan().missing
    assert list(run(plan(), bench)) == []


def test_a_plan_of_one_stage_stops_there_and_the_next_goes_on(bench: Workbench, plan: Callable[[], Plan]) -> None:
    assert list(run(plan().only(Stage.SCORES), bench)) == []  # nothing is clustered
    assert [type(event) for event in run(plan().only(Stage.EMBEDDINGS), bench)] == [Encoded]
    found = [event for event in run(plan().only(Stage.CLUSTERINGS), bench) if isinstance(event, Clustered)]
    assert (len(found), statuses(bench)) == (2, ["unsupported"])
    assert plan().at_hand.clustered == {event.cell.cell_id for event in found}
    assert not plan().to_compute("bow", "tiny")
    assert [type(event) for event in run(plan().only(Stage.SCORES), bench)] == [Scored, Scored]
    assert statuses(bench) == ["done", "done", "unsupported"]
    assert plan().count == 0


def test_a_cell_whose_clusters_are_damaged_is_clustered_again(bench: Workbench, plan: Callable[[], Plan]) -> None:
    first, *_ = (event for event in run(plan().only(Stage.CLUSTERINGS), bench) if isinstance(event, Clustered))
    path = bench.storage.get_path(bench.storage.read_rows("cell", cell_id=first.cell.cell_id)[0]["blob"])
    path.write_bytes(path.read_bytes()[:-8])
    assert plan().to_compute("bow", "tiny") == [first.cell]
    again = [event.cell for event in run(plan(), bench) if isinstance(event, Clustered)]
    assert again == [first.cell]


def test_vectors_that_are_not_finite_are_not_clustered(
    tiny_task: Task, bench: Workbench, plan: Callable[[], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lexical, "encode", lambda model, texts: np.full((len(texts), 4), np.nan, dtype=np.float32))
    (event,) = run(plan(), bench)
    assert isinstance(event, Encoded)
    assert [check.name for check in event.blocking] == ["finite"]
    with pytest.raises(TraubeError, match=r"^tiny x bow: its vectors fail the check 'finite': No NaN and no infinity"):
        evaluate(tiny_task, load_model("bow"))
