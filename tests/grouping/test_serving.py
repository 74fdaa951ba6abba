"""A served clustering puts its own texts where they were, and new ones where they belong."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tests.clustering import cluster
from tests.errors import refused
from traube import components
from traube._core.errors import Changed, Missing
from traube._grouping import served as serving
from traube._grouping.describe import find_keywords
from traube._grouping.known_groups import assign_by_served
from traube._grouping.served import Served
from traube.components import parse_method
from traube.components.new_points import place_by_neighbors
from traube.models import Model, load_model
from traube.models.lexical import FittedWords, Lexical
from traube.tasks.task import Task

METHODS = [
    "none/kmeans",
    "none/agglomerative_cosine",
    "pca/minibatch_kmeans",
    "pca/hdbscan",
    "umap/agglomerative",
    "umap/hdbscan",
]


def served(tiny_task: Task, model_name: str, method_name: str) -> Served:
    method, model, texts = parse_method(method_name), load_model(model_name), tiny_task.texts
    vectors = model.encode(texts)
    points = components.reduce(method.reducer, method.reducer_params, vectors, 0)
    clusters = cluster(method.clusterer, method.clusterer_params, points, 3, 0)
    words = find_keywords(texts, clusters)
    return Served(model.card, model.fingerprint, method, 0, fit(model, texts), vectors, points, clusters, words)


def fit(model: Model, texts: list[str]) -> FittedWords | None:
    return Lexical(model.card).fit_words(texts) if model.corpus_bound else None


@pytest.mark.parametrize(
    ("model", "method"),
    [
        pytest.param(model, method, marks=pytest.mark.slow if "umap" in method else [])
        for model, methods in (("lsa", METHODS), ("tfidf", METHODS[:-1]))
        for method in methods
    ],
)
def test_its_own_texts_stay_in_their_clusters(tiny_task: Task, model: str, method: str) -> None:
    clustering = served(tiny_task, model, method)
    found = clustering.predict(tiny_task.texts)
    kept = clustering.clusters >= 0
    assert (found["cluster"].to_numpy()[kept] == clustering.clusters[kept]).mean() > 0.9
    assert (found["distance"][found["cluster"] >= 0] >= 0).all()


def test_a_new_text_joins_its_topic_and_gets_its_words(tiny_task: Task) -> None:
    clustering = served(tiny_task, "lsa", "none/kmeans")
    old, new = clustering.predict(["kitchen oven salt recipe bread dough", "kitchen oven taste soup broth"])["cluster"]
    other = clustering.predict(["telescope astronomer sky orbit mars"]).iloc[0]
    assert old == new != other["cluster"]
    assert set(str(other["words"]).split(", ")) & {"telescope", "astronomer", "sky", "light", "distance"}


@pytest.mark.parametrize(
    ("model", "method"),
    [("tfidf", "none/kmeans"), ("lsa", "pca/kmeans"), pytest.param("lsa", "umap/hdbscan", marks=pytest.mark.slow)],
)
def test_what_was_saved_predicts_the_same(tiny_task: Task, tmp_path: Path, model: str, method: str) -> None:
    clustering = served(tiny_task, model, method)
    serving.save(clustering, tmp_path / "served")
    assert {path.suffix for path in (tmp_path / "served").iterdir()} <= {".json", ".npy", ".npz"}
    again = serving.load(tmp_path / "served")
    assert sparse.issparse(again.vectors) == (model == "tfidf")
    texts = ["goal keeper penalty match", "nova galaxy telescope"]
    pd.testing.assert_frame_equal(
        again.predict(texts), clustering.predict(texts), rtol=1e-6
    )  # sums of single precision, in another order


def test_a_split_of_some_of_the_texts_is_served_by_a_model_of_all(tiny_task: Task) -> None:
    model, texts = load_model("tfidf"), tiny_task.texts
    some = np.arange(0, len(texts), 3)
    vectors = model.encode(texts)[some]
    method = parse_method("none/kmeans")
    clusters = cluster("kmeans", None, vectors, 2, 0)
    part = [texts[i] for i in some]
    clustering = Served(model.card, model.fingerprint, method, 0, fit(model, texts), vectors, vectors, clusters, {})
    assert clustering.predict(part)["cluster"].tolist() == clusters.tolist()


@pytest.mark.parametrize("method", ["none/kmeans", "pca/hdbscan"])
def test_a_blank_text_joins_no_cluster_and_the_others_join_theirs(tiny_task: Task, method: str) -> None:
    clustering, texts = served(tiny_task, "lsa", method), tiny_task.texts[:3]
    alone = clustering.predict(texts)
    mixed = clustering.predict([texts[0], " ", texts[1], None, texts[2], float("nan")])
    pd.testing.assert_frame_equal(mixed.iloc[[0, 2, 4]].reset_index(drop=True), alone)
    blank = mixed.iloc[[1, 3, 5]]
    assert blank["cluster"].tolist() == [-1] * 3 and blank["distance"].isna().all() and set(blank["words"]) == {""}
    assert clustering.predict(["", " "])["cluster"].tolist() == [-1, -1]
    assert len(clustering.predict([])) == 0


def test_the_answer_has_the_index_of_what_was_passed(tiny_task: Task) -> None:
    """So that it can be a column of the table that was filtered before."""
    clustering = served(tiny_task, "lsa", "none/kmeans")
    table = pd.DataFrame({"body": tiny_task.texts[:4], "year": [1, 2, 3, 4]}).iloc[[3, 1]]
    expected = clustering.predict(table["body"].tolist())["cluster"].tolist()
    for given in (table, table["body"], table[["body"]]):
        found = clustering.predict(given)
        assert found.index.tolist() == [3, 1] and found["cluster"].tolist() == expected
    two = table.assign(title="news")
    assert clustering.predict(two, text_column="body")["cluster"].tolist() == expected
    assert clustering.predict(tiny_task.texts[:2]).index.tolist() == [0, 1]
    with refused(TypeError, "text 0", "int"):
        clustering.predict([3])


def test_a_checkpoint_is_served_by_the_weights_that_came_along(
    tiny_bert: Path, tiny_task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(tmp_path / "checkpoints"))
    shutil.copytree(tiny_bert, tmp_path / "checkpoints" / "mine")
    clustering = served(tiny_task, "mine", "none/kmeans")
    texts = ["goal keeper penalty match", "nova galaxy telescope"]
    expected = clustering.predict(texts)
    serving.save(clustering, tmp_path / "served")
    (tmp_path / "checkpoints" / "mine").rename(tmp_path / "weights")  # another machine has no such checkpoint
    pd.testing.assert_frame_equal(serving.load(tmp_path / "served", tmp_path / "weights").predict(texts), expected)
    with refused(Missing, "mine"):
        serving.load(tmp_path / "served").predict(texts)


def test_a_model_whose_weights_have_changed_is_refused(tiny_bert: Path) -> None:
    from traube.models import ModelCard, model_of

    model = model_of(ModelCard(name="tiny", model=str(tiny_bert)))
    texts = ["the cat", "a dog", "soup bread", "star"]
    vectors = np.asarray(model.encode(texts))
    clusters = np.array([0, 0, 1, 1])
    method = parse_method("none/kmeans")
    clustering = Served(model.card, "another", method, 0, None, vectors, vectors, clusters, {})
    with refused(Changed, "tiny"):
        clustering.predict(["the dog"])


# what a part declares of itself


class Halved:
    """A reducer: the first half of the dimensions."""

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X)[:, : X.shape[1] // 2]


def halve(build: object, vectors: np.ndarray, points: np.ndarray, new: np.ndarray) -> np.ndarray:
    return new[:, : points.shape[1]]


class Signs:
    """A clusterer: by the sign of the second number; the seed says which is 1."""

    def __init__(self, random_state: int, margin: float = 0.0) -> None:
        self.flip, self.margin = random_state % 2, margin

    def fit_predict(self, X: np.ndarray) -> np.ndarray:
        return (X[:, 1] > self.margin).astype(np.int64) ^ self.flip


def by_sign(build: Callable[..., Signs], points: np.ndarray, clusters: np.ndarray, new: np.ndarray) -> np.ndarray:
    return build().fit_predict(new)


@pytest.mark.usefixtures("registries")
def test_new_texts_go_where_the_parts_say(tiny_task: Task) -> None:
    components.register_reducer("halved", Halved, place=halve)
    components.register_clusterer("signs", Signs, assign=by_sign)
    clustering = served(tiny_task, "lsa", "halved/signs")
    new = tiny_task.texts[:5]
    again = clustering.predict(new)["cluster"].to_numpy()
    assert np.array_equal(again, clustering.clusters[:5])
    other = replace(clustering, seed=1)  # a part that is built again has the seed of the clustering
    assert np.array_equal(other.predict(new)["cluster"], 1 - again)


@pytest.mark.usefixtures("registries")
def test_parts_that_say_nothing_use_the_neighbors_and_the_nearest_center(tiny_task: Task) -> None:
    components.register_reducer("halved", Halved)
    components.register_clusterer("signs", Signs)
    clustering = served(tiny_task, "lsa", "halved/signs")
    points = place_by_neighbors(Halved, clustering.vectors, clustering.points, clustering.vectors[:5])
    means = np.stack([clustering.points[clustering.clusters == c].mean(axis=0) for c in (0, 1)])
    nearest = np.linalg.norm(points[:, None] - means[None], axis=2).argmin(axis=1)
    assert clustering.predict(tiny_task.texts[:5])["cluster"].tolist() == nearest.tolist()


def test_where_all_is_noise_new_texts_are_noise_too(tiny_task: Task) -> None:
    clustering = served(tiny_task, "lsa", "none/kmeans")
    clustering.clusters[:] = -1
    found = clustering.predict(["kitchen oven salt"])
    assert found["cluster"].tolist() == [-1] and found["distance"].isna().all()


@pytest.mark.parametrize("method", ["none/kmeans", "pca/kmeans"])
def test_a_text_on_nothing_that_was_clustered_fits_no_cluster(tiny_task: Task, method: str) -> None:
    """It is put beside the nearest ones all the same; a text of which no word is known is nowhere."""
    clustering = served(tiny_task, "tfidf", method)
    own = clustering.predict(tiny_task.texts)
    assert own["fits"].mean() > 0.9
    mixed = "kitchen telescope referee oven sky coach salt light stadium recipe astronomer player"
    found = clustering.predict(["kitchen oven salt recipe bread dough", mixed, "quarterly dividend statement", ""])
    assert found["fits"].tolist() == [True, False, False, False]
    assert found["cluster"].tolist()[2:] == [-1, -1] and found["cluster"][1] >= 0
    assert found["distance"].isna().tolist() == [False, False, True, True]
    grouped = assign_by_served(clustering, ["kitchen oven salt recipe bread dough", mixed, "quarterly dividend"])
    assert grouped.strays.tolist() == [False, True, False]
    assert grouped.without_strays().labels.tolist()[1:] == [-1, -1]
