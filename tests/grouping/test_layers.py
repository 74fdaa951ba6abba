"""Layers: the same texts in fewer and in more groups, each nested in those before."""

import numpy as np
import pandas as pd
import pytest

from tests.errors import refused
from tests.made import make_nested_texts
from traube import EmbeddingClusterer, TextClusterer
from traube._core.errors import Conflict, Missing, Unknown
from traube._grouping.cluster_texts import cluster_texts
from traube._grouping.clustering import Clustering


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return make_nested_texts()


@pytest.fixture(scope="module")
def clustering(texts: list[str]) -> Clustering:
    return cluster_texts([*texts, "", texts[0]], model="tfidf")


def test_a_layer_is_taken_with_all_that_is_said_of_it(clustering: Clustering, texts: list[str]) -> None:
    assert len(clustering.layers) > 1
    assert np.array_equal(clustering.layers[clustering.level].labels, clustering.labels)
    for level, layer in enumerate(clustering.layers):
        found = clustering.at_layer(level)
        assert (found.level, found.layers) == (level, clustering.layers)
        assert np.array_equal(found.labels, layer.labels)
        assert (found.words, found.typical, found.stability) == (layer.words, layer.typical, layer.stability)
        assert found.labels[-2] == -1 and np.isnan(found.distances[-2]) and found.distances[-1] == found.distances[0]
        assert len(found.summary()) == len(found.sizes()) and f"{len(found.sizes())} cluster" in repr(found)
    assert clustering.at_layer("coarse").level == 0
    assert clustering.at_layer("fine").level == len(clustering.layers) - 1
    assert clustering.at_layer("coarse").at_layer(clustering.level).distances == pytest.approx(
        clustering.distances, nan_ok=True
    )


def test_every_text_has_its_path_down_to_its_group(clustering: Clustering) -> None:
    fine = clustering.at_layer("fine")
    frame = fine.to_frame()
    assert frame["path"].tolist() == fine.paths() and fine.paths()[-2] == ""
    for path, own in zip(frame["path"].drop(120), frame["name"].drop(120), strict=True):
        assert path.split(" > ")[-1] == own and len(path.split(" > ")) == len(fine.layers)
    by_path = frame.drop(120).groupby("path")["cluster"].nunique()
    assert (by_path == 1).all()  # nested: a path leads to one group
    assert clustering.at_layer("coarse").paths()[0].count(" > ") == 0


@pytest.mark.parametrize("layer", [-1, 99, "middle", ""])
def test_a_layer_that_is_none_is_refused_with_those_there_are(clustering: Clustering, layer: int | str) -> None:
    last = len(clustering.layers) - 1
    with refused(Unknown, layer, last, 0):
        clustering.at_layer(layer)


def test_groups_without_layers_say_so(texts: list[str]) -> None:
    with refused(Missing, "none/stable_kmeans"):
        cluster_texts(texts, model="tfidf", algorithm="none/kmeans", n_clusters=3).at_layer("coarse")
    with refused(TypeError, "float"):
        cluster_texts(texts, model="tfidf").at_layer(1.5)  # type: ignore[arg-type]


@pytest.mark.slow
def test_estimators_take_a_layer_and_predict_its_groups(texts: list[str]) -> None:
    default = TextClusterer(model="tfidf").fit(texts)
    fine = TextClusterer(model="tfidf", layer="fine").fit(texts)
    assert fine.n_clusters_ == len(fine.clustering_.sizes()) >= default.n_clusters_
    predicted = fine.predict(texts)
    assert set(predicted) <= set(fine.labels_) and (predicted == fine.labels_).mean() > 0.9
    pd.testing.assert_frame_equal(fine.tree_, default.tree_)
    vectors = default.clustering_.vectors
    found = EmbeddingClusterer(layer=0).fit(vectors)
    assert np.array_equal(found.labels_, default.clustering_.at_layer(0).labels)
    assert found.stability_.shape == (found.n_clusters_,)
    for estimator in (TextClusterer(model="tfidf", n_clusters=3, layer=0), EmbeddingClusterer(3, layer=0)):
        with refused(Conflict):
            estimator.fit(texts if isinstance(estimator, TextClusterer) else vectors)


def test_texts_that_fit_no_group_are_apart_on_all_layers(clustering: Clustering) -> None:
    apart = clustering.without_strays()
    assert all((layer.labels[clustering.strays] == -1).all() for layer in apart.layers)
