"""The engine: from texts to scores, in real worker processes, with nothing else running."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from traube.benchmark.params import Protocol
from traube.benchmark.plan import Cell, cells
from traube.engine import workers
from traube.engine.cluster import CellResult, cluster, reduction_path
from traube.engine.embed import embed, embed_task
from traube.engine.evaluate import evaluate_cells
from traube.engine.progress import Progress
from traube.engine.score import score
from traube.foundation.errors import TraubeError
from traube.methods import parse_method, register_clusterer, register_reducer
from traube.models import EmbeddingCache, Model, Vectors, load_model
from traube.models.transformer import Transformer
from traube.store import Store
from traube.tasks.task import Task, TaskCard, index_texts, make_split

OWN = Protocol(reducers=("none",), clusterers=("kmeans",))


def cells_of(task: Task, *methods: str, model: Model | None = None, seeds: Sequence[int] = (1,)) -> list[Cell]:
    return cells(task, model or load_model("bow"), OWN, methods=[parse_method(m) for m in methods], seeds=seeds)


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Cells come as they are finished; their rows are compared in one order."""
    return table.sort_values([c for c in table if c not in ("value", "cluster", "replicates")], ignore_index=True)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def vectors(tiny_task: Task, tmp_path: Path) -> Vectors:
    return embed(tiny_task.texts, load_model("bow"), EmbeddingCache(tmp_path / "cache"), tmp_path / "bow")[0]


@pytest.fixture
def results(tiny_task: Task, vectors: Vectors, store: Store) -> Callable[..., dict[str, CellResult]]:
    """What becomes of the cells of some methods, by method."""

    def run(*methods: str) -> dict[str, CellResult]:
        found = list(cluster(tiny_task, vectors, cells_of(tiny_task, *methods), store))
        assert len(found) == len(methods)
        return {result.cell.method.name: result for result in found}

    return run


# from texts to scores


def test_texts_with_clear_topics_are_found_by_every_method(tiny_task: Task) -> None:
    asked = cells_of(tiny_task, "none/kmeans", "none/agglomerative_cosine", "pca/minibatch_kmeans", seeds=(1, 2))
    scores, assignments = evaluate_cells(tiny_task, load_model("bow"), asked)

    assert list(scores.columns) == ["cell_id", "split", "level", "metric", "value", "replicates"]
    assert not scores.duplicated(["cell_id", "split", "level", "metric"]).any()
    problems = {("early", "coarse"), ("early", "fine"), ("late", "coarse"), ("late", "fine")}
    names = set(scores["metric"])
    assert {"v_measure/noise_as_cluster", "acc/noise_dropped", "ari/noise_as_singletons", "clusters"} <= names
    for _, of_cell in scores.groupby("cell_id"):
        assert set(of_cell[["split", "level"]].itertuples(index=False, name=None)) == problems
        assert len(of_cell) == len(problems) * len(names)
    assert set(scores["cell_id"]) == {c.cell_id for c in asked}
    assert len(assignments) == len(asked) * 4 * 36

    methods = {c.cell_id: c.method.name for c in asked}
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


def test_a_transformer_encodes_each_text_once_however_many_splits_hold_it(
    tiny_task: Task, minilm: Transformer, tmp_path: Path
) -> None:
    asked = cells_of(tiny_task, "none/kmeans", model=minilm)
    encoded: Counter[str] = Counter()
    progress = Progress(total=lambda stage, n: encoded.update({stage: n}))
    first, _ = evaluate_cells(tiny_task, minilm, asked, tmp_path, progress)
    second, _ = evaluate_cells(tiny_task, minilm, asked, tmp_path, progress)
    assert encoded["texts"] == 48  # in splits: 144
    assert ordered(first).equals(ordered(second))
    values = first.set_index(["split", "level", "metric"])["value"]
    assert values["early", "coarse", "v_measure/noise_as_cluster"] > 0.6
    assert values["early", "coarse", "clusters"] == 3 and values["late", "fine", "clusters"] == 6


def test_the_same_inputs_give_the_same_numbers_from_cold(tiny_task: Task) -> None:
    asked = cells_of(tiny_task, "none/kmeans", "pca/minibatch_kmeans", "pca/agglomerative", seeds=(1, 2))
    first, second = (evaluate_cells(tiny_task, load_model("bow"), asked) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        assert ordered(a).equals(ordered(b))


def test_seeds_make_a_difference(tiny_task: Task) -> None:
    asked = cells_of(tiny_task, "none/minibatch_kmeans", seeds=range(6))
    _, assignments = evaluate_cells(tiny_task, load_model("bow"), asked)
    fine = assignments[(assignments["level"] == "fine") & (assignments["split"] == "early")]
    assert len(set(fine.groupby("cell_id")["cluster"].agg(tuple))) > 1


# scores


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
        scores = score(tiny_task, table)
        for metric in ("v_measure/noise_as_cluster", "acc/noise_as_cluster", "ari/noise_dropped"):
            assert scores[scores["metric"] == metric]["value"].tolist() == pytest.approx([1] * 4)


def test_nothing_to_score_gives_an_empty_table(tiny_task: Task) -> None:
    assert score(tiny_task, gold(tiny_task)[:0]).empty


def test_without_labels_there_is_only_what_the_vectors_say(unlabelled_task: Task) -> None:
    scores, _ = evaluate_cells(unlabelled_task, load_model("bow"), cells_of(unlabelled_task, "none/kmeans"))
    values = scores.set_index("metric")["value"]
    assert set(values.index) == {"silhouette", "clusters", "noise_share"}
    assert 0 < values["silhouette"] < 1
    assert values["clusters"] == 3  # the card says so


def test_without_labels_or_a_number_of_clusters_one_is_chosen(unlabelled_task: Task) -> None:
    task = Task(TaskCard(name="unlabelled"), unlabelled_task.corpus, unlabelled_task.splits)
    _, assignments = evaluate_cells(task, load_model("lsa"), cells_of(task, "none/kmeans", model=load_model("lsa")))
    assert 2 <= assignments["cluster"].nunique() <= 10


# own methods


@pytest.mark.usefixtures("registries")
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
    asked = cells(tiny_task, load_model("bow"), OWN, methods=[method], seeds=[1])
    _, found = evaluate_cells(tiny_task, load_model("bow"), asked)
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
    results: Callable[..., dict[str, CellResult]], store: Store
) -> None:
    def state() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (store.folder / "reductions").iterdir()}

    first = results("pca/kmeans", "pca/agglomerative")
    before = state()
    assert len(before) == 2  # one a split, for both levels and both clusterers
    second = results("pca/kmeans", "pca/agglomerative", "pca/minibatch_kmeans")
    assert state() == before
    for name, result in first.items():
        assert result.assignments is not None and result.assignments.equals(second[name].assignments)


@pytest.mark.parametrize("keep", [0, 60, 200])
def test_a_damaged_reduction_is_computed_again(
    results: Callable[..., dict[str, CellResult]], store: Store, keep: int
) -> None:
    first = results("pca/kmeans")["pca/kmeans"]
    whole = {path: path.read_bytes() for path in (store.folder / "reductions").iterdir()}
    for path, content in whole.items():
        path.write_bytes(content[:keep])
    second = results("pca/kmeans")["pca/kmeans"]
    assert first.assignments is not None and first.assignments.equals(second.assignments)
    assert {path: path.read_bytes() for path in whole} == whole


# what goes wrong


@pytest.mark.usefixtures("registries")
def test_one_failing_cell_does_not_stop_the_others_and_says_what_and_where(
    results: Callable[..., dict[str, CellResult]],
) -> None:
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


def test_evaluate_refuses_a_faulty_task_and_what_it_cannot_do(tiny_task: Task) -> None:
    bow = load_model("bow")
    one_class = Task(tiny_task.card, tiny_task.corpus, tiny_task.splits.assign(label="same"))
    with pytest.raises(TraubeError, match=r"^tiny: split 'early' \(coarse\): there is only one class"):
        evaluate_cells(one_class, bow, cells_of(tiny_task, "none/kmeans"))
    with pytest.raises(TraubeError, match=r"^task 'tiny': there are no cells to evaluate$"):
        evaluate_cells(tiny_task, bow, [])
    with pytest.raises(TraubeError, match=r"^tiny x bow x none/hdbscan: unsupported: hdbscan looks for dense regions"):
        evaluate_cells(tiny_task, bow, cells_of(tiny_task, "none/hdbscan"))


def test_a_split_set_without_test_splits_fails_with_the_reason(tiny_task: Task, vectors: Vectors, store: Store) -> None:
    train = Task(tiny_task.card, tiny_task.corpus, tiny_task.splits.assign(part="train"))
    (result,) = cluster(train, vectors, cells_of(train, "none/kmeans"), store)
    assert (result.status, result.reason) == ("failed", "there are no test splits in the split set 'default'")


@pytest.mark.parametrize("value", ["0", "two", ""])
def test_a_number_of_workers_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TRAUBE_WORKERS", value)
    with pytest.raises(TraubeError, match=f"^TRAUBE_WORKERS is '{value}'; it must be a whole number from 1$"):
        workers.count()


# progress


def test_progress_adds_up(tiny_task: Task, store: Store) -> None:
    expected: Counter[str] = Counter()
    done: Counter[str] = Counter()
    progress = Progress(
        total=lambda stage, n: expected.update({stage: n}), done=lambda stage, n: done.update({stage: n})
    )
    asked = cells_of(tiny_task, "none/kmeans", "pca/kmeans")
    evaluate_cells(tiny_task, load_model("bow"), asked, store.folder, progress)
    assert expected == {"texts": 48, "clusterings": 8, "scores": 8}
    assert done == {**expected, "cells": 2}


# killed workers: last, because the next test would have to wait for new ones


@pytest.mark.usefixtures("registries")
def test_a_killed_worker_is_one_clear_error_and_the_next_run_works(tiny_task: Task) -> None:
    class Doomed:
        def __init__(self, n_clusters: int) -> None: ...

        def fit_predict(self, X: np.ndarray) -> np.ndarray:
            os.kill(os.getpid(), signal.SIGKILL)  # as the system does to a process that takes too much memory
            return np.zeros(len(X), dtype=np.int64)

    register_clusterer("doomed", Doomed)
    with pytest.raises(TraubeError, match=r"^a worker process was killed, most likely for lack of memory; what is fin"):
        evaluate_cells(tiny_task, load_model("bow"), cells_of(tiny_task, "none/doomed"))
    scores, _ = evaluate_cells(tiny_task, load_model("bow"), cells_of(tiny_task, "none/kmeans"))
    assert len(scores)


def test_a_worker_killed_while_scoring_is_the_same_clear_error(tiny_task: Task) -> None:
    class Bomb(str):
        __slots__ = ()

        def __reduce__(self) -> tuple[object, ...]:
            return os._exit, (1,)  # what a worker does as soon as it is given this label

    splits = tiny_task.splits.astype({"label": "object"})
    splits.loc[0, "label"] = Bomb("boom")
    with pytest.raises(TraubeError, match=r"^a worker process was killed"):
        score(Task(tiny_task.card, tiny_task.corpus, splits), gold(tiny_task))


def test_reductions_and_vectors_of_other_versions_are_not_used_again(
    store: Store, tiny_task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After an upgrade, what an earlier version of a library computed stays, under a name of its own."""
    ids = tiny_task.corpus["text_id"].to_numpy()
    method, model = parse_method("pca/kmeans"), load_model("bow")
    before = reduction_path(store, "f", model.numerics, method, 1, ids)
    assert before == reduction_path(store, "f", model.numerics, parse_method("pca/hdbscan"), 1, ids)
    assert before != reduction_path(store, "f", {**model.numerics, "scikit-learn": "0.1"}, method, 1, ids)
    embed_task(tiny_task, model, EmbeddingCache(tmp_path / "cache"), tmp_path / "matrix")
    monkeypatch.setattr("traube.methods.parts.versions", lambda packages: dict.fromkeys(packages, "9.9"))
    assert before != reduction_path(store, "f", model.numerics, method, 1, ids)
    monkeypatch.setattr("traube.models.lexical.versions", lambda packages: dict.fromkeys(packages, "9.9"))
    _, encoded = embed_task(tiny_task, model, EmbeddingCache(tmp_path / "cache"), tmp_path / "matrix")
    assert encoded == len(tiny_task.texts)
    assert len(list(tmp_path.glob("matrix-*"))) == 2
