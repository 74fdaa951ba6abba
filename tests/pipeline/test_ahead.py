"""While a model is clustered, the texts of those to come are encoded in another process, as they would be here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from tests.made import cells_of
from traube._cli.launcher import LocalLauncher
from traube._cli.run import _requests_ahead
from traube._core.progress import SILENT, Progress
from traube._pipeline.ahead import encode_ahead
from traube._pipeline.embed import embed_task
from traube._pipeline.params import Protocol
from traube._pipeline.plan import Plan
from traube._pipeline.request import Request
from traube._storage import Storage
from traube._storage.costs import get_cost
from traube.models import load_model
from traube.tasks.stored import read_task
from traube.tasks.task import Task

REQUEST = Request(["subjects"], ["minilm"], "own", Protocol(reducers=("none",), clusterers=("kmeans",)))


def read(cards: Path, topics: pd.DataFrame) -> Storage:
    """Read a task from a card by which no text may occur twice."""
    topics.to_csv(cards / "subjects.csv", index=False)
    card = "file: subjects.csv\ntext: text\nlabels: subject\nblocking: [texts_once]\n"
    (cards / "subjects.yaml").write_text(card)
    with LocalLauncher(SILENT) as launcher:
        launcher.datasets(["subjects"])
        return launcher.storage


@pytest.mark.usefixtures("two_workers")
def test_waiting_for_vectors_reports_their_number_and_takes_those_of_this_process(
    cards: Path, topics: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, model, reported = read(cards, topics), load_model("minilm"), list[tuple[str, int]]()
    monkeypatch.setattr("traube._pipeline.ahead.SECONDS", 0.001)
    with encode_ahead(storage, [replace(REQUEST, models=["bow"]), REQUEST]) as wait:
        wait(0, SILENT)  # nothing is encoded for it
        wait(1, Progress(lambda name, n: reported.append(("of", n)), lambda name, n: reported.append(("done", n))))
    task = read_task(storage, "subjects")
    assert ("of", len(task.scored)) in reported
    ahead, encoded = embed_task(task, model, storage)
    here, all_texts = embed_task(task, model, Storage(tmp_path))
    assert (encoded, all_texts) == (0, len(task.scored))
    np.testing.assert_array_equal(ahead.load(), here.load())
    cost = get_cost(storage, "subjects", model.fingerprint)
    assert cost is not None and cost.texts == all_texts and 0 < cost.seconds < 60
    before = psutil.Process().children()
    with encode_ahead(storage, [REQUEST]) as wait:  # no process is started for texts that are encoded
        wait(0, SILENT)
        assert psutil.Process().children() == before


def test_texts_of_a_task_that_a_check_stops_are_not_encoded(cards: Path, topics: pd.DataFrame) -> None:
    storage = read(cards, pd.concat([topics, topics]))
    with encode_ahead(storage, [REQUEST]) as wait:
        wait(0, SILENT)
    task = read_task(storage, "subjects")
    assert embed_task(task, load_model("minilm"), storage)[1] == len(task.scored)


@pytest.mark.parametrize(
    ("methods", "models", "engine", "ahead"),
    [
        (["none/kmeans"], ["bow", "minilm"], "local", ["bow", "minilm"]),
        (["none/kmeans"], ["minilm"], "local", []),  # one turn: nothing is to come
        (["none/kmeans", "none/aecl"], ["bow", "minilm"], "local", []),  # a training needs the processor
        (["none/kmeans"], ["bow", "minilm"], "ray", []),  # the cluster encodes
    ],
)
def test_nothing_is_encoded_ahead_where_that_would_be_in_the_way(
    tiny_task: Task,
    monkeypatch: pytest.MonkeyPatch,
    methods: list[str],
    models: list[str],
    engine: str,
    ahead: list[str],
) -> None:
    monkeypatch.setenv("TRAUBE_ENGINE", engine)
    plan = Plan({name: {"tiny": list(cells_of(tiny_task, *methods))} for name in models})
    requests = _requests_ahead(plan, REQUEST, list(plan.in_turn(None)))
    assert [request.models for request in requests] == [[name] for name in ahead]
    assert all(request.tasks == ["tiny"] for request in requests)
