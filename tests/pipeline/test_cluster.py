"""From vectors to clusters: what is shared, what fails alone, and own methods in the workers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.made import cells_of, damage_blob
from traube._pipeline import units
from traube._pipeline.cluster import REDUCTION, CellResult, cluster_cells, make_reduction_key
from traube._pipeline.embed import embed_task
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.executors import ProcessExecutor
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._storage import ArtifactRow, Storage
from traube.components import CLUSTERERS, parse_method, register_clusterer, register_reducer
from traube.models import Vectors, load_model
from traube.tasks.task import Task, TaskCard, index_texts, make_split

OWN = Protocol(reducers=("none",), clusterers=("kmeans",))


@pytest.mark.usefixtures("registries", "two_workers")
def test_a_method_of_ones_own_works_in_the_workers_and_labels_items_in_their_order(tiny_task: Task) -> None:
    class Sum:
        def fit_transform(self, X: np.ndarray) -> np.ndarray:
            return np.asarray(X).sum(axis=1, keepdims=True)

    class Turns:
        def __init__(self, n_clusters: int, random_state: int, step: int = 1) -> None:
            self.n_clusters, self.start, self.step = n_clusters, random_state, step

        def fit_predict(self, X: np.ndarray) -> np.ndarray:
            assert X.shape[1] == 1
            return (self.start + self.step * np.arange(len(X))) % self.n_clusters

    register_reducer("sum", Sum)
    register_clusterer("turns", Turns)
    method = parse_method("sum/turns", {"turns": {"step": 2}})
    requested = cells(tiny_task, load_model("bow"), OWN, methods=[method], seeds=[1])
    _, found = evaluate_cells(tiny_task, load_model("bow"), requested)
    coarse = found[(found["split"] == "late") & (found["level"] == "coarse")]
    assert coarse["item"].tolist() == list(range(36))
    assert coarse["cluster"].tolist() == [(1 + 2 * i) % 3 for i in range(36)]


def test_an_item_that_occurs_twice_is_assigned_twice() -> None:
    texts = ["cat dog", "cat owl", "goal ball", "goal net", "cat dog"]
    corpus, records = index_texts(pd.DataFrame({"text": texts, "label": ["a", "a", "b", "b", "b"]}))
    task = Task(TaskCard(name="twice"), corpus, make_split(records, "all", "area", label="label"))
    _, assignments = evaluate_cells(task, load_model("bow"), cells_of(task, "none/kmeans"))
    assert assignments["item"].tolist() == [0, 1, 2, 3, 4]
    assert assignments["cluster"].iloc[0] == assignments["cluster"].iloc[4]


# reductions


def test_reductions_are_computed_once_per_split_and_found_again(
    results: Callable[..., dict[str, CellResult]], storage: Storage
) -> None:
    def state() -> list[ArtifactRow]:
        return storage.read_rows(ArtifactRow, kind=REDUCTION)

    first = results("pca/kmeans", "pca/agglomerative")
    before = state()
    assert len(before) == 2  # one a split, for both levels and both clusterers
    second = results("pca/kmeans", "pca/agglomerative", "pca/minibatch_kmeans")
    assert state() == before
    for result in (*first.values(), *second.values()):  # each method's cost has the reduction's in it
        assert result.cost is not None and result.cost.seconds > result.seconds
        assert result.cost.texts == 4 * 36  # two splits, two levels
    for name, result in first.items():
        assert result.assignments is not None and result.assignments.equals(second[name].assignments)


def test_a_corrupt_reduction_is_computed_again(results: Callable[..., dict[str, CellResult]], storage: Storage) -> None:
    first, storage = results("pca/kmeans")["pca/kmeans"], storage
    rows = storage.read_rows(ArtifactRow, kind=REDUCTION)
    for row in rows:
        damage_blob(storage, row.files["matrix"])
    second = results("pca/kmeans")["pca/kmeans"]
    assert first.assignments is not None and first.assignments.equals(second.assignments)
    assert storage.verify() == []
    assert [row.files for row in storage.read_rows(ArtifactRow, kind=REDUCTION)] == [row.files for row in rows]


def test_reductions_and_vectors_of_other_versions_are_not_used_again(
    tiny_task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After an upgrade, what an earlier version computed stays, under a name of its own."""
    ids = tiny_task.corpus["text_id"].to_numpy()
    method, model = parse_method("pca/kmeans"), load_model("bow")
    before = make_reduction_key("f", model.numerics, method, 1, ids)
    assert before == make_reduction_key("f", model.numerics, parse_method("pca/hdbscan"), 1, ids)
    assert before != make_reduction_key("f", {**model.numerics, "scikit-learn": "0.1"}, method, 1, ids)
    storage = Storage(tmp_path)
    embed_task(tiny_task, model, storage)
    monkeypatch.setattr("traube.components.registry.get_versions", lambda packages: dict.fromkeys(packages, "9.9"))
    assert before != make_reduction_key("f", model.numerics, method, 1, ids)
    monkeypatch.setattr("traube.models.lexical.get_versions", lambda packages: dict.fromkeys(packages, "9.9"))
    _, encoded = embed_task(tiny_task, model, storage)
    assert encoded == len(tiny_task.texts)
    assert len(storage.read_rows(ArtifactRow, kind="matrix")) == 2


def test_a_unit_of_work_is_handed_its_part_and_changes_no_registry(vectors: Vectors) -> None:
    own, before = replace(CLUSTERERS["kmeans"], name="own"), dict(CLUSTERERS)
    assert set(units.cluster_split(None, vectors, None, None, own, {}, 3, seed=0, memory=10**9).labels) == {0, 1, 2}
    assert before == CLUSTERERS


# what goes wrong


@pytest.mark.usefixtures("registries")
def test_one_failing_cell_says_where_and_stops_no_other(results: Callable[..., dict[str, CellResult]]) -> None:
    class Odd(Exception):
        """Cannot be sent from process to process."""

        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"{a} and {b}\nand more")

    class Moody:
        def __init__(self, n_clusters: int) -> None:
            self.n_clusters = n_clusters

        def fit_predict(self, X: np.ndarray) -> np.ndarray:
            if self.n_clusters == 6:
                raise Odd(1, 2)
            return np.zeros(len(X), dtype=np.int64)

    class Broken:
        def fit_transform(self, X: np.ndarray) -> np.ndarray:
            raise ValueError("no\n  way")

    register_clusterer("moody", Moody)
    register_reducer("broken", Broken)
    found = results("none/moody", "broken/kmeans", "none/hdbscan", "pca/agglomerative_cosine", "none/kmeans")
    assert {name: result.status for name, result in found.items()} == {
        "none/moody": "failed",
        "broken/kmeans": "failed",
        "none/hdbscan": "unsupported",
        "pca/agglomerative_cosine": "unsupported",
        "none/kmeans": "done",
    }
    assert found["none/moody"].reason in ("early (fine): Odd: 1 and 2", "late (fine): Odd: 1 and 2")
    assert found["broken/kmeans"].reason.endswith("): broken: no way")
    assert found["none/hdbscan"].reason.startswith("hdbscan looks for dense regions")
    assert found["none/moody"].assignments is None


def test_a_split_set_without_test_splits_fails(tiny_task: Task, vectors: Vectors, storage: Storage) -> None:
    train = Task(tiny_task.card, tiny_task.corpus, tiny_task.splits.assign(part="train"))
    (result,) = cluster_cells(train, vectors, cells_of(train, "none/kmeans"), storage, ProcessExecutor())
    assert (result.status, result.reason) == ("failed", "there are no test splits in the split set 'default'")


@pytest.mark.usefixtures("registries")
def test_a_clusterer_of_texts_is_handed_each_splits_texts(tiny_task: Task, vectors: Vectors, storage: Storage) -> None:
    class ByLastWord:
        def fit_predict(self, texts: list[str]) -> np.ndarray:
            return np.array([int(text.split()[-1].removeprefix("n")) for text in texts])

    register_clusterer("by_last_word", ByLastWord, input_kind="texts")
    (found,) = cluster_cells(tiny_task, vectors, cells_of(tiny_task, "none/by_last_word"), storage, ProcessExecutor())
    assert found.assignments is not None
    for split in tiny_task.test_splits("default"):
        rows = found.assignments
        rows = rows[(rows["split"] == split.split) & (rows["level"] == split.level)]
        assert rows["cluster"].tolist() == [int(tiny_task.texts[row].split()[-1][1:]) for row in split.rows]

    other = cells_of(tiny_task, "none/by_last_word", model=load_model("tfidf"))
    (refused,) = cluster_cells(tiny_task, vectors, other, storage, ProcessExecutor())
    assert refused.status == "unsupported"
    assert refused.reason == "by_last_word works on texts whatever the model: its result stands under bow"
    (reduced,) = cluster_cells(tiny_task, vectors, cells_of(tiny_task, "pca/by_last_word"), storage, ProcessExecutor())
    assert reduced.reason == "by_last_word works on texts, and pca reduces vectors: use none/by_last_word"


def test_k_auto_is_chosen_from_a_splits_vectors(tiny_task: Task, vectors: Vectors, storage: Storage) -> None:
    """Of 36 texts at most four clusters are tried; the fine level has six classes."""
    requested = [parse_method("none/kmeans", params) for params in (None, {"kmeans": {"k": "auto"}})]
    given, chosen = (cells(tiny_task, load_model("bow"), OWN, methods=[method], seeds=[1])[0] for method in requested)
    assert given.cell_id != chosen.cell_id
    found = {
        r.cell.cell_id: r.assignments
        for r in cluster_cells(tiny_task, vectors, [given, chosen], storage, ProcessExecutor())
    }
    fine = {name: frame[frame["level"] == "fine"]["cluster"] for name, frame in found.items() if frame is not None}
    assert fine[given.cell_id].nunique() == 6
    assert fine[chosen.cell_id].nunique() <= 4
