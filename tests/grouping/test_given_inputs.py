"""`cluster_texts` takes what people have, and its result is shown, tabulated and drawn."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.cluster import DBSCAN, KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.errors import Refusal, refused
from traube import Clustering, cluster_texts
from traube._core import paths
from traube._core.errors import Conflict, Failed, Invalid, Malformed, Unsupported
from traube._grouping.clustering import map_layers
from traube._grouping.layers import Layer, make_tree
from traube._reports.placing import color_groups, place_texts
from traube.models.transformer import Transformer

TEXTS = [f"{topic} {topic} {rest}" for topic in ("bread", "goal", "moon") for rest in ("a b", "b c", "c d", "d e")]
TOPICS = np.repeat([0, 1, 2], 4)
EMBEDDINGS = np.eye(3)[TOPICS] + np.arange(12)[:, None] / 1000
FRAME = pd.DataFrame({"body": TEXTS, "year": range(12)}, index=pd.Index(range(100, 112), name="ticket"))


def found_topics(groups: Clustering) -> bool:
    return adjusted_rand_score(TOPICS, groups.labels) == 1


@pytest.mark.parametrize(
    "texts", [FRAME, FRAME["body"], np.array(TEXTS), pa.chunked_array([TEXTS]), pa.table({"body": TEXTS}), tuple(TEXTS)]
)
def test_texts_are_grouped_as_people_have_them(texts: Any) -> None:
    assert found_topics(cluster_texts(texts, model="tfidf", n_clusters=3))


def test_embeddings_are_grouped_without_a_model_and_nothing_is_written(home: Path) -> None:
    for embeddings in (EMBEDDINGS, EMBEDDINGS.tolist(), sparse.csr_matrix(EMBEDDINGS)):
        groups = cluster_texts(TEXTS, embeddings=embeddings, n_clusters=3)
        assert found_topics(groups) and set(groups.words[groups.labels[0]]) >= {"bread"}
    assert not any(home.iterdir())
    with refused(Malformed, "cluster_texts", 12, 11):
        cluster_texts(TEXTS, embeddings=EMBEDDINGS[1:])
    with refused(Invalid, "embeddings"):
        cluster_texts(TEXTS, embeddings=EMBEDDINGS, query="a meal")


def test_a_model_may_be_a_network_in_memory_or_a_function(minilm: Transformer, home: Path) -> None:
    by_name = cluster_texts(TEXTS, model="minilm", n_clusters=3, precision=None)
    by_network = cluster_texts(TEXTS, model=minilm.network, n_clusters=3)
    assert np.array_equal(by_name.labels, by_network.labels)
    assert np.allclose(by_name.distances, by_network.distances, atol=1e-3)
    assert found_topics(cluster_texts(TEXTS, model=TfidfVectorizer().fit_transform, n_clusters=3))


def test_the_algorithm_may_be_any_clusterer_of_scikit_learn() -> None:
    groups = cluster_texts(TEXTS, embeddings=EMBEDDINGS, algorithm=KMeans(3))
    assert found_topics(groups) and groups.k_table is None and not groups.stability
    assert len(cluster_texts(TEXTS, embeddings=EMBEDDINGS, algorithm=KMeans(), n_clusters=2).sizes()) == 2
    assert found_topics(
        cluster_texts(TEXTS, embeddings=EMBEDDINGS, algorithm=make_pipeline(StandardScaler(), KMeans(3)))
    )
    apart = cluster_texts(TEXTS, embeddings=EMBEDDINGS, algorithm=DBSCAN(eps=1e-9, min_samples=2))
    assert apart.noise == 12 and apart.sizes() == {}
    again = [cluster_texts(TEXTS, embeddings=EMBEDDINGS, algorithm=KMeans(5, n_init=1)).labels for _ in range(2)]
    assert np.array_equal(*again)  # `random_state` is given to it


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"texts": "one text"}, (TypeError, "cluster_texts", "str")),
        ({"texts": EMBEDDINGS}, (TypeError, "cluster_texts", "ndarray")),
        ({"texts": [1, 2]}, (TypeError, "cluster_texts", "text 0", "int")),
        ({"model": 3}, (TypeError, "int")),
        ({"algorithm": 3}, (TypeError, "int")),
        ({"algorithm": KMeans}, (TypeError, "ABCMeta", "KMeans")),
        ({"n_clusters": "3"}, (TypeError, "str", "n_clusters")),
        ({"cache": 3}, (TypeError, "int")),
        ({"algorithm": DBSCAN(), "n_clusters": 3}, (Conflict, "DBSCAN")),
        ({"algorithm": KMeans(99)}, (Failed, "KMeans", "n_samples=12", "n_clusters=99")),
        ({"model": "jaccard", "algorithm": KMeans(3)}, (Unsupported,)),
    ],
)
def test_what_cannot_be_taken_is_one_error_that_says_what_to_pass(arguments: dict[str, Any], refusal: Refusal) -> None:
    with refused(*refusal):
        cluster_texts(**{"texts": TEXTS, "model": "tfidf", **arguments})


# where vectors are kept


@pytest.mark.slow
def test_vectors_are_kept_in_the_data_directory_in_a_folder_or_nowhere(home: Path, tmp_path: Path) -> None:
    first = cluster_texts(TEXTS, model="minilm", n_clusters=3, cache=False)
    assert not any(home.iterdir())
    own = tmp_path / "own"
    second = cluster_texts(TEXTS, model="minilm", n_clusters=3, cache=own)
    assert not any(home.iterdir()) and any(own.iterdir())
    third = cluster_texts(TEXTS, model="minilm", n_clusters=3)
    assert any(home.iterdir()) and paths.home() == home
    assert first.labels.tolist() == second.labels.tolist() == third.labels.tolist()


# what a result shows


@pytest.fixture(scope="module")
def groups() -> Clustering:
    texts = FRAME["body"].copy()
    texts.loc[200] = None
    texts.loc[201] = texts.loc[100]  # once more
    embeddings = np.vstack([EMBEDDINGS, np.zeros((1, 3)), EMBEDDINGS[:1]])
    return cluster_texts(texts, embeddings=embeddings, n_clusters=3)


def test_a_result_is_short_to_print(groups: Clustering) -> None:
    assert re.fullmatch(r"Clustering\(14 texts, 3 clusters, stability \d\.\d\d\)", repr(groups))
    chosen = cluster_texts([f"{text} {i}" for i in range(4) for text in TEXTS], model="tfidf")
    assert re.fullmatch(r"Clustering\(48 texts, \d+ clusters, \w+ groups, stability \d\.\d\d\)", repr(chosen))
    assert repr(cluster_texts(["bread"], model="bow", n_clusters=1)) == "Clustering(1 text, 1 cluster)"


def test_a_frame_has_a_row_for_each_text_and_the_index_of_what_was_passed(groups: Clustering) -> None:
    frame = groups.to_frame()
    assert list(frame) == ["text", "cluster", "name", "distance", "stability"]
    assert frame.index.tolist() == [*range(100, 112), 200, 201] and frame.index.name == "ticket"
    assert frame.loc[101, "text"] == TEXTS[1]
    assert frame.loc[100, "cluster"] == frame.loc[201, "cluster"] and frame.loc[200, "cluster"] == -1
    assert frame["distance"].isna().tolist() == [False] * 12 + [True, False]
    joined = FRAME.join(frame[["cluster"]])  # so that it goes back to the table
    assert joined["cluster"].notna().all()


def test_a_summary_has_a_row_for_each_cluster_the_largest_first(groups: Clustering) -> None:
    table = groups.summary()
    assert table["size"].tolist() == [5, 4, 4]
    largest = table.iloc[0]
    assert largest["key_words"][0] == "bread" and largest["name"].startswith("bread")
    assert set(largest["typical_texts"]) <= set(TEXTS[:4]) and 0 <= largest["stability"] <= 1


def test_a_notebook_shows_the_summary_and_runs_nothing_of_the_texts() -> None:
    shown = cluster_texts(["<script>alert(1)</script> x", "yes <b>"], model="bow", n_clusters=2)._repr_html_()
    assert "Clustering(2 texts, 2 clusters" in shown and "<table" in shown
    assert "<script>" not in shown and "<b>" not in shown and "&lt;script&gt;" in shown


def test_a_map_names_each_cluster(groups: Clustering) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = groups.plot()
    assert {text.get_text() for text in axes.texts} == set(groups.summary()["name"])
    assert sum(len(points.get_offsets()) for points in axes.collections) == 13  # without the blank text
    beside = pyplot.subplots()[1]
    assert cluster_texts(["bread $ moon", "goal $"], model="bow", n_clusters=2).plot(ax=beside) is beside
    pyplot.close("all")


def test_the_figure_and_the_page_have_the_same_names_colors_and_layer(groups: Clustering) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    colors = pytest.importorskip("matplotlib.colors")
    rows = np.flatnonzero(groups.rows >= 0)
    layers, chosen = map_layers(groups, rows)
    assert np.array_equal(layers[chosen].labels, groups.labels[rows])
    axes = groups.plot(random_state=42)
    drawn = {colors.to_hex(color) for color in axes.collections[0].get_facecolors()}
    assert groups.vectors is not None
    assert drawn == set(color_groups(place_texts(groups.vectors[groups.rows[rows]]), layers[chosen].labels).values())
    page = groups.to_html()
    assert all(name in page for name in layers[chosen].names.values())
    pyplot.close("all")


def test_texts_that_were_compared_by_a_similarity_have_no_map() -> None:
    compared = cluster_texts(TEXTS, model="jaccard", n_clusters=3)
    with refused(Unsupported, "plot"):
        compared.plot()


def test_layers_are_columns_of_the_frame_and_a_tree() -> None:
    coarse = Layer(np.array([0, 0, 0, 1, -1]), stability={0: 0.9, 1: 0.5})
    fine = Layer(np.array([0, 1, 1, 2, -1]), typical={0: [0], 1: [1], 2: [3]})
    tree = make_tree((coarse, fine))
    assert tree[["layer", "cluster", "size"]].to_numpy().tolist() == [
        [0, 0, 3],
        [0, 1, 1],
        [1, 0, 1],
        [1, 1, 2],
        [1, 2, 1],
    ]
    assert tree["parent"].isna().tolist() == [True, True, False, False, False]
    assert tree["parent"].tolist()[2:] == [0, 0, 1] and tree["stability"].tolist()[:2] == [0.9, 0.5]
    found = Clustering(fine.labels, np.zeros(5), {}, {}, None, layers=(coarse, fine))
    of_all = found.of_all(np.array([0, 2, 3, 4, 5]), np.array([0, -1, 1, 2, 3, 4, 0]))
    assert of_all.to_frame()["layer_1"].tolist() == [0, -1, 1, 1, 2, -1, 0]
    assert of_all.layers[1].typical == {0: [0], 1: [2], 2: [4]}
    assert of_all.tree["size"].tolist() == [4, 1, 2, 2, 1]
    assert make_tree(()).empty and list(make_tree(())) == list(tree)
