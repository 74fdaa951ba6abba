"""While a model is clustered, the texts of those to come are encoded in another process, as they would be here."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.made import cells_of
from traube._cli.launcher import LocalLauncher
from traube._cli.run import _requests_ahead
from traube._core import paths
from traube._core.measure import Cost
from traube._core.progress import SILENT, Progress
from traube._pipeline.ahead import encode_ahead
from traube._pipeline.embed import embed_task
from traube._pipeline.params import Protocol
from traube._pipeline.plan import Plan
from traube._pipeline.request import Request
from traube._storage import Storage
from traube._storage.costs import get_cost, save_cost
from traube.models import load_model
from traube.tasks.stored import read_task
from traube.tasks.task import Task

REQUEST = Request(["subjects"], ["mine"], "own", Protocol(reducers=("none",), clusterers=("kmeans",)))


@pytest.fixture
def storage(cards: Path, topics: pd.DataFrame, tiny_bert: Path) -> Storage:
    """A storage with two tasks in which no text may occur twice, and one in which each does; `mine` is a model."""
    shutil.copytree(tiny_bert, paths.checkpoints() / "mine")
    others = topics.assign(text=topics["text"] + " again")
    for name, rows in {"subjects": topics, "doubled": pd.concat([others, others])}.items():
        rows.to_csv(cards / f"{name}.csv", index=False)
        card = f"file: {name}.csv\ntext: text\nlabels: subject\nblocking: [texts_once]\n"
        (cards / f"{name}.yaml").write_text(card)
    with LocalLauncher(SILENT) as launcher:
        launcher.datasets(["subjects", "doubled"])
        return launcher.storage


@pytest.mark.usefixtures("two_workers")
def test_waiting_for_vectors_reports_their_number_and_takes_those_of_this_process(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, reported = load_model("mine"), list[tuple[str, int]]()
    monkeypatch.setattr("traube._pipeline.ahead.SECONDS", 0.001)
    monkeypatch.setattr("traube._pipeline.ahead.FEW", 48 + 48 - 1)
    both = replace(REQUEST, tasks=["doubled", "subjects"])
    with encode_ahead(storage, [replace(REQUEST, models=["bow"]), both]) as wait:
        wait(0, SILENT)  # nothing is encoded for it
        wait(1, Progress(lambda name, n: reported.append(("of", n)), lambda name, n: reported.append(("done", n))))
    task, stopped = (read_task(storage, name) for name in both.tasks[::-1])
    assert ("of", len(task.scored)) in reported
    ahead, encoded = embed_task(task, model, storage)
    here, all_texts = embed_task(task, model, Storage(tmp_path))
    assert (encoded, all_texts) == (0, len(task.scored))
    np.testing.assert_array_equal(ahead.load(), here.load())
    cost = get_cost(storage, "subjects", model.fingerprint)
    assert cost is not None and cost.texts == all_texts and 0 < cost.seconds < 60
    assert embed_task(stopped, model, storage)[1] == len(stopped.scored) == 48  # a check stops its task


@pytest.mark.parametrize(("most", "has_cost"), [(0, True), (48, False)])
def test_no_process_is_started_for_texts_that_are_encoded_or_few(
    most: int, has_cost: bool, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traube._pipeline.ahead.FEW", most)
    monkeypatch.setattr("traube._pipeline.ahead.start_processes", lambda _: pytest.fail("starts a process"))
    if has_cost:
        save_cost(storage, "subjects", load_model("mine").fingerprint, Cost(48, 1.0, math.nan))
    with encode_ahead(storage, [REQUEST]) as wait:
        wait(0, SILENT)


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
