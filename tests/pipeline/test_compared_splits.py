"""Splits whose texts a trained similarity compares: which cells make sense, and what they are made of."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score, silhouette_score

from tests.errors import check_names
from tests.made import cells_of
from traube._core import paths
from traube._pipeline.cluster import CellResult, cluster_cells
from traube._pipeline.evaluate import evaluate
from traube._pipeline.workbench import Workbench
from traube.models import Model, load_model
from traube.models.similarity import Similarity
from traube.tasks.task import Task, TaskCard, index_texts, make_split

METHOD = "none/agglomerative_average"
WORDS = ["the", "a", "cat", "dog", "star", "soup", "bread"]
Drop = Callable[..., Model]


def records() -> pd.DataFrame:
    """Twelve texts about the first query, and twelve about the second."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"text": " ".join([topic] * 3 + list(rng.choice(WORDS, 3))) + f" {i}", "topic": topic, "query": query}
            for query in ("query star", "query a soup")
            for topic in ("cat", "dog", "bread")
            for i in range(4)
        ]
    )


def task_of(frame: pd.DataFrame) -> Task:
    """A split for each query."""
    corpus, indexed = index_texts(frame)
    parts = {"first": indexed[:12], "second": indexed[12:]}
    return Task(
        TaskCard(name="queried"),
        corpus,
        pd.concat([make_split(r, n, "topic", label="topic") for n, r in parts.items()]),
    ).validate()


@pytest.fixture
def requested() -> Task:
    """A task whose splits have queries."""
    return task_of(records())


@pytest.fixture
def drop(drop_similarity: Callable[..., Path]) -> Drop:
    return lambda **settings: load_model(drop_similarity(**settings).name)


def results(task: Task, model: Model, home: Path, *methods: str) -> dict[str, CellResult]:
    bench = Workbench.at(home)
    cells = cells_of(task, *methods, model=model)
    found = cluster_cells(
        task, bench.vectors(task, model), cells, bench.storage, bench.executor, similarity=model.similarity
    )
    return {result.cell.method.name: result for result in found}


# what is clustered


@pytest.mark.parametrize(
    "settings",
    [
        {"network": "qss", "query": "text"},
        {"network": "qss", "query": "passages"},
        {"network": "qs3m", "query": "none", "output": "sigmoid"},
        {"network": "attention", "query": "text", "output": "sigmoid"},
    ],
    ids=str,
)
def test_scores_are_those_of_average_linkage_on_the_similaritys_distances(
    requested: Task, drop: Drop, settings: dict[str, str]
) -> None:
    model = drop(**settings)
    scores = evaluate(requested, model, [METHOD]).scores
    found = scores[scores["metric"] == "ari/noise_as_cluster"].set_index("split")["value"]
    for split in requested.test_splits():
        vectors = model.encode([requested.texts[i] for i in split.rows])
        assert split.query is not None and split.labels is not None
        query = model.encode([requested.texts[split.query]])[0]
        distances = model.similarity.distances(vectors, query)  # type: ignore[union-attr]
        by_hand = fcluster(linkage(squareform(distances.astype(np.float64)), "average"), 3, "maxclust")
        assert found[split.split] == pytest.approx(adjusted_rand_score(split.labels, by_hand))


def test_other_queries_make_other_clusters_only_where_they_count(requested: Task, drop: Drop) -> None:
    other = task_of(records().replace({"query star": "query bread the a"}))
    model = drop()

    def distances_of(task: Task, similarity: Similarity) -> np.ndarray:
        split = next(task.test_splits())
        query = model.encode([task.texts[split.query or 0]])[0]
        return similarity.distances(model.encode([task.texts[i] for i in split.rows]), query)

    assert model.similarity is not None
    assert not np.allclose(distances_of(requested, model.similarity), distances_of(other, model.similarity))


# which cells make sense


def test_what_works_on_vectors_is_unsupported_and_no_other(requested: Task, drop: Drop, home: Path) -> None:
    good = ["none/agglomerative_average", "none/hdbscan"]
    bad = [
        "none/kmeans",
        "none/agglomerative",
        "none/agglomerative_cosine",
        "pca/agglomerative_average",
        "umap/hdbscan",
    ]
    found = results(requested, drop(), home, *good, *bad)
    assert {name: found[name].status for name in good} == dict.fromkeys(good, "done")
    assert {name: found[name].status for name in bad} == dict.fromkeys(bad, "unsupported")
    check_names(found["none/kmeans"].reason, "kmeans", "none/agglomerative_average")
    check_names(found["umap/hdbscan"].reason, "umap", "none/agglomerative_average")


def test_the_same_methods_stay_as_they_are_for_the_encoder_alone(requested: Task, tiny_bert: Path, home: Path) -> None:
    copytree(tiny_bert, paths.checkpoints() / "plain")
    found = results(requested, load_model("plain"), home, "none/kmeans", "none/hdbscan")
    assert {name: result.status for name, result in found.items()} == {
        "none/kmeans": "done",
        "none/hdbscan": "unsupported",
    }


@pytest.mark.parametrize("lacking", [slice(0, 24), slice(12, 24)], ids=["both splits", "one split"])
def test_without_a_query_one_that_compares_for_it_is_unsupported(lacking: slice, drop: Drop, home: Path) -> None:
    frame = records()
    frame.loc[lacking, "query"] = None
    (result,) = results(task_of(frame), drop(query="text"), home, METHOD).values()
    assert result.status == "unsupported"
    check_names(result.reason, "mine", "queried")


@pytest.mark.parametrize("settings", [{"query": "passages"}, {"network": "qs3m", "query": "none"}], ids=str)
def test_without_queries_one_that_needs_none_is_scored(drop: Drop, home: Path, settings: dict[str, str]) -> None:
    (result,) = results(task_of(records().drop(columns="query")), drop(**settings), home, METHOD).values()
    assert result.status == "done" and result.assignments is not None and len(result.assignments) == 24


# what goes wrong


def test_vectors_of_other_weights_fail_with_the_reason(requested: Task, drop: Drop, home: Path) -> None:
    (result,) = results(requested, drop(dimensions=16), home, METHOD).values()
    assert result.status == "failed"
    assert "similarity/config.json: dimensions: 16" in result.reason


def test_without_labels_the_number_of_clusters_is_that_of_the_best_silhouette(drop: Drop) -> None:
    corpus, indexed = index_texts(records()[:12])
    task = Task(TaskCard(name="unlabeled"), corpus, make_split(indexed, "all", "none")).validate()
    model = drop()
    assignments = evaluate(task, model, [METHOD]).assignments
    (split,) = task.test_splits()
    assert model.similarity is not None and split.query is not None
    vectors = model.encode([task.texts[i] for i in split.rows])
    distances = model.similarity.distances(vectors, model.encode([task.texts[split.query]])[0]).astype(np.float64)
    tree = linkage(squareform(distances), "average")
    silhouettes = {
        k: silhouette_score(distances, fcluster(tree, k, "maxclust"), metric="precomputed") for k in range(2, 6)
    }
    assert assignments["cluster"].nunique() == max(silhouettes, key=lambda k: silhouettes[k])
