"""The engine: from texts to scores, in real worker processes, with nothing else running."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.cluster import KMeans

from tests.errors import refused
from tests.made import cells_of
from traube._core.errors import Failed, TooFew
from traube._core.progress import Progress
from traube._pipeline.default_model import DefaultModel
from traube._pipeline.evaluate import evaluate, evaluate_cells
from traube._storage import Storage
from traube.models import load_model
from traube.models.transformer import Transformer
from traube.tasks.task import Task


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Cells come as they are finished; their rows are compared in one order."""
    return table.sort_values([c for c in table if c not in ("value", "cluster", "replicates")], ignore_index=True)


def test_texts_with_clear_topics_are_found_by_every_method(tiny_task: Task) -> None:
    requested = cells_of(tiny_task, "none/kmeans", "none/agglomerative_cosine", "pca/minibatch_kmeans", seeds=(1, 2))
    scores, assignments = evaluate_cells(tiny_task, load_model("bow"), requested)

    assert list(scores.columns) == ["cell_id", "split", "level", "metric", "value", "replicates"]
    assert not scores.duplicated(["cell_id", "split", "level", "metric"]).any()
    problems = {("early", "coarse"), ("early", "fine"), ("late", "coarse"), ("late", "fine")}
    names = set(scores["metric"])
    assert {"v_measure/noise_as_cluster", "acc/noise_dropped", "ari/noise_as_singletons", "clusters"} <= names
    for _, of_cell in scores.groupby("cell_id"):
        assert set(of_cell[["split", "level"]].itertuples(index=False, name=None)) == problems
        assert len(of_cell) == len(problems) * len(names)
    assert set(scores["cell_id"]) == {c.cell_id for c in requested}
    assert len(assignments) == len(requested) * 4 * 36

    methods = {c.cell_id: c.method.name for c in requested}
    chosen = scores[(scores["metric"] == "v_measure/noise_as_cluster") & (scores["level"] == "coarse")]
    means = chosen.groupby(chosen["cell_id"].map(methods))["value"].mean()
    assert (means > 0.5).all(), means
    assert means["none/agglomerative_cosine"] > 0.9


@pytest.mark.slow
def test_umap_and_hdbscan_find_clear_topics_too(tiny_task: Task) -> None:
    early = tiny_task.splits[(tiny_task.splits["split"] == "early") & (tiny_task.splits["level"] == "coarse")]
    task = Task(tiny_task.card, tiny_task.corpus, early)
    scores, _ = evaluate_cells(task, load_model("bow"), cells_of(task, "umap/hdbscan"))
    values = scores.set_index("metric")["value"]
    assert values["v_measure/noise_as_cluster"] > 0.5
    assert 0 <= values["noise_share"] < 0.5


def test_a_transformer_encodes_each_text_of_splits_once(tiny_task: Task, minilm: Transformer, tmp_path: Path) -> None:
    requested = cells_of(tiny_task, "none/kmeans", model=minilm)
    encoded: Counter[str] = Counter()
    progress = Progress(total=lambda stage, n: encoded.update({stage: n}))
    first, _ = evaluate_cells(tiny_task, minilm, requested, tmp_path, progress=progress)
    second, _ = evaluate_cells(tiny_task, minilm, requested, tmp_path, progress=progress)
    assert encoded["texts"] == 48  # in splits: 144
    assert ordered(first).equals(ordered(second))
    values = first.set_index(["split", "level", "metric"])["value"]
    assert values["early", "coarse", "v_measure/noise_as_cluster"] > 0.6
    assert values["early", "coarse", "clusters"] == 3 and values["late", "fine", "clusters"] == 6


@pytest.mark.slow
def test_the_same_inputs_give_the_same_numbers_from_cold(tiny_task: Task) -> None:
    requested = cells_of(tiny_task, "none/kmeans", "pca/minibatch_kmeans", "pca/agglomerative", seeds=(1, 2))
    first, second = (evaluate_cells(tiny_task, load_model("bow"), requested) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert ordered(a).equals(ordered(b))


def test_seeds_make_a_difference(tiny_task: Task) -> None:
    requested = cells_of(tiny_task, "none/minibatch_kmeans", seeds=range(6))
    _, assignments = evaluate_cells(tiny_task, load_model("bow"), requested)
    fine = assignments[(assignments["level"] == "fine") & (assignments["split"] == "early")]
    assert len(set(fine.groupby("cell_id")["cluster"].agg(tuple))) > 1


def test_evaluate_refuses_a_faulty_task_and_what_it_cannot_do(tiny_task: Task) -> None:
    bow = load_model("bow")
    one_class = Task(tiny_task.card, tiny_task.corpus, tiny_task.splits.assign(label="same"))
    with refused(TooFew, "tiny", "early"):
        evaluate_cells(one_class, bow, cells_of(tiny_task, "none/kmeans"))
    with refused(TooFew, "tiny"):
        evaluate_cells(tiny_task, bow, [])
    with refused(Failed, "bow", "none/hdbscan"):
        evaluate_cells(tiny_task, bow, cells_of(tiny_task, "none/hdbscan"))


@pytest.mark.parametrize("algorithm", [KMeans, object(), 3])
def test_what_is_no_estimator_is_no_algorithm(algorithm: Any, tiny_task: Task) -> None:
    with pytest.raises(TypeError, match=type(algorithm).__name__):
        evaluate(tiny_task, "bow", algorithm)


def test_auto_is_the_model_for_the_language_of_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    requested = []

    def choose(languages: Sequence[str]) -> DefaultModel:
        requested.append(tuple(languages))
        return DefaultModel("bow", tuple(languages))

    monkeypatch.setattr("traube._pipeline.evaluate.choose_model", choose)
    texts = ["Der Zug nach Hamburg hat heute Verspätung.", "Die Bahn fährt wieder nicht."]
    texts += ["Das Brot ist noch warm.", "Wir backen heute frisches Brot."]
    found = evaluate(texts, ["auto", "tfidf"], "none/kmeans", labels=["Bahn", "Bahn", "Brot", "Brot"])
    assert [cell.model for cell in found.cells] == ["bow", "tfidf"] and requested == [("de",)]


def test_progress_adds_up(tiny_task: Task, storage: Storage) -> None:
    expected: Counter[str] = Counter()
    done: Counter[str] = Counter()
    progress = Progress(
        total=lambda stage, n: expected.update({stage: n}), done=lambda stage, n: done.update({stage: n})
    )
    requested = cells_of(tiny_task, "none/kmeans", "pca/kmeans")
    evaluate_cells(tiny_task, load_model("bow"), requested, storage.folder, progress=progress)
    assert expected == {"texts": 48, "clusterings": 8, "scores": 8}
    assert done == {**expected, "cells": 2}
