"""From clusters to scores, in real worker processes."""

import os

import pandas as pd
import pytest

from tests.errors import refused
from tests.made import cells_of
from traube._core.errors import Failed
from traube._pipeline.cell import Cell
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.executors import Failure, ProcessExecutor
from traube._pipeline.record import Recorder
from traube._pipeline.score import score_assignments, score_cells
from traube._storage import Storage
from traube.models import load_model
from traube.tasks.task import Task, TaskCard


def gold(task: Task) -> pd.DataFrame:
    """Assignments that agree with the labels."""
    rows = [
        {
            "cell_id": "c",
            "split": s.split,
            "level": s.level,
            "item": item,
            "cluster": sorted(set(s.labels)).index(label),
        }
        for s in task.test_splits()
        if s.labels is not None
        for item, label in zip(s.items, s.labels, strict=True)
    ]
    return pd.DataFrame(rows)


def test_the_gold_labels_themselves_score_one_in_whatever_order_they_come(tiny_task: Task) -> None:
    for table in (gold(tiny_task), gold(tiny_task).sample(frac=1, random_state=0)):
        scores = score_assignments(tiny_task, table, ProcessExecutor())
        for metric in ("v_measure/noise_as_cluster", "acc/noise_as_cluster", "ari/noise_dropped"):
            assert scores[scores["metric"] == metric]["value"].tolist() == pytest.approx([1] * 4)


def test_nothing_to_score_gives_an_empty_table(tiny_task: Task) -> None:
    assert score_assignments(tiny_task, gold(tiny_task)[:0], ProcessExecutor()).empty


def test_without_labels_the_vectors_say_how_good_the_cards_number_of_clusters_is(unlabeled_task: Task) -> None:
    scores, _ = evaluate_cells(unlabeled_task, load_model("bow"), cells_of(unlabeled_task, "none/kmeans"))
    values = scores.set_index("metric")["value"]
    assert set(values.index) == {"silhouette", "clusters", "noise_share"}
    assert 0 < values["silhouette"] < 1
    assert values["clusters"] == 3  # the card says so; where it does not, a number is chosen
    task = Task(TaskCard(name="unlabeled"), unlabeled_task.corpus, unlabeled_task.splits)
    _, assignments = evaluate_cells(task, load_model("lsa"), cells_of(task, "none/kmeans", model=load_model("lsa")))
    assert 2 <= assignments["cluster"].nunique() <= 10


class Bomb(str):
    """Ends any process that is sent it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (1,)


def deadly(task: Task) -> Task:
    """The task with a label that kills whoever scores it."""
    splits = task.splits.astype({"label": "object"})
    splits.loc[0, "label"] = Bomb(splits.loc[0, "label"])
    return Task(task.card, task.corpus, splits)


@pytest.mark.slow
@pytest.mark.usefixtures("in_a_process")
def test_a_worker_killed_while_scoring_is_the_same_clear_error(tiny_task: Task) -> None:
    with refused(Failed):
        score_assignments(deadly(tiny_task), gold(tiny_task), ProcessExecutor())


@pytest.mark.slow
@pytest.mark.usefixtures("in_a_process")
def test_a_cell_that_fails_stops_no_other_and_is_scored_the_next_time(tiny_task: Task, storage: Storage) -> None:
    sound, odd = cells_of(tiny_task, "none/kmeans", "pca/kmeans")
    recorder, frame = Recorder(storage), gold(tiny_task).drop(columns="cell_id")
    recorder.save_clusters(sound, frame[frame["split"] == "late"], 0.5)
    recorder.save_clusters(odd, frame, 0.5)

    def scored(task: Task, *cells: Cell) -> dict[str, bool]:
        found = score_cells(task, cells, storage, ProcessExecutor())
        return {cell.cell_id: not isinstance(outcome, Failure) for cell, outcome in found}

    assert scored(deadly(tiny_task), sound, odd) == {sound.cell_id: True, odd.cell_id: False}
    assert scored(tiny_task, odd) == {odd.cell_id: True}
