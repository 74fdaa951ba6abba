"""While a model is clustered, the texts of those to come are encoded in another process, as they would be here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from traube.cli.launcher import Launcher
from traube.core.progress import SILENT
from traube.models import load_model
from traube.pipeline.ahead import encode_ahead
from traube.pipeline.embed import embed_task
from traube.pipeline.params import Protocol
from traube.pipeline.plan import Request
from traube.storage import Storage
from traube.storage.costs import get_cost
from traube.tasks.stored import read_task

REQUEST = Request(["subjects"], ["minilm"], "own", Protocol(reducers=("none",), clusterers=("kmeans",)))


def read(cards: Path, topics: pd.DataFrame) -> Storage:
    """Read a task from a card by which no text may occur twice."""
    topics.to_csv(cards / "subjects.csv", index=False)
    card = "file: subjects.csv\ntext: text\nlabels: subject\nblocking: [texts_once]\n"
    (cards / "subjects.yaml").write_text(card)
    with Launcher(SILENT) as launcher:
        launcher.datasets(["subjects"])
        return launcher.storage


def test_vectors_are_there_when_they_are_waited_for_and_are_those_of_this_process(
    cards: Path, topics: pd.DataFrame, tmp_path: Path
) -> None:
    storage, model = read(cards, topics), load_model("minilm")
    with encode_ahead(storage, [replace(REQUEST, models=["bow"]), REQUEST]) as wait:
        wait(0, SILENT)  # nothing is encoded for it
        wait(1, SILENT)
    task = read_task(storage, "subjects")
    ahead, encoded = embed_task(task, model, storage)
    here, all_texts = embed_task(task, model, Storage(tmp_path))
    assert (encoded, all_texts) == (0, len(task.scored))
    np.testing.assert_array_equal(ahead.load(), here.load())
    cost = get_cost(storage, "subjects", model.fingerprint)
    assert cost is not None and cost.texts == all_texts and 0 < cost.seconds < 60


def test_texts_of_a_task_that_a_check_stops_are_not_encoded(cards: Path, topics: pd.DataFrame) -> None:
    storage = read(cards, pd.concat([topics, topics]))
    with encode_ahead(storage, [REQUEST]) as wait:
        wait(0, SILENT)
    task = read_task(storage, "subjects")
    assert embed_task(task, load_model("minilm"), storage)[1] == len(task.scored)
