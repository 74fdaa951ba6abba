"""Objects print in a few lines in a notebook or a debugger, however large they are."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from traube import EmbeddingClusterer, TextClusterer, cluster_texts, load_model, make_task
from traube._core.short_repr import ShortRepr
from traube._grouping.served import Served
from traube.comparison import Sample, rank
from traube.components import get_clusterer, parse_method
from traube.models import FunctionModel
from traube.plotting import MapLayer
from traube.tasks import get_source

TEXTS = [f"a text about {'bread' if i % 2 else 'ships'}, and a number: {i}" for i in range(60)]
LABELS = ["food", "sea"] * 30


@dataclass(frozen=True, repr=False)
class Example(ShortRepr):
    values: np.ndarray
    table: pd.DataFrame
    name: str
    names: tuple[str, ...] = ()
    nothing: None = None


def test_arrays_and_tables_are_shown_by_their_shape_and_long_values_cut() -> None:
    small = Example(np.zeros(3), pd.DataFrame({"a": [1, 2]}), "bread", ("one",))
    assert (
        repr(small)
        == "Example(values=<ndarray 3>, table=<DataFrame 2 x 1>, name='bread', names=('one',), nothing=None)"
    )
    large = Example(np.zeros((4, 5)), pd.DataFrame(), "bread" * 100, ("one",) * 100)
    assert "values=<ndarray 4 x 5>" in repr(large) and len(repr(large)) < 200


@pytest.fixture(scope="module")
def objects() -> dict[str, object]:
    """The public objects, as large as they get in a notebook."""
    task, bow = make_task(TEXTS, LABELS), load_model("tfidf")
    vectors = np.asarray(load_model("hashed").encode(TEXTS))
    clusters = np.arange(60) % 2
    clustering = cluster_texts(TEXTS, embeddings=vectors, n_clusters=2)
    equal = Sample(tuple(map(str, range(40))), np.random.default_rng(0).normal(size=(40, 21)), noise=0.0, noise_df=1.0)
    method = parse_method("umap/hdbscan")
    return {
        "task": task,
        "card of a task": task.card,
        "split": next(task.test_splits()),
        "source": get_source("pydocs_s2s"),
        "model": bow,
        "network": load_model("minilm"),
        "function": FunctionModel(lambda texts: [[len(text)] for text in texts], "length"),
        "card of a model": bow.card,
        "clustering": clustering,
        "layer": clustering.cuts[0],
        "layer of a map": MapLayer(clusters, {0: "ships"}, {0: TEXTS}, {0: [1, 2]}, {}),
        "served": Served(bow.card, bow.fingerprint, method, 42, None, vectors, vectors, clusters, {0: TEXTS, 1: TEXTS}),
        "sample": equal,
        "ranking": rank([f"model {i}" for i in range(9)], [equal] * 9),
        "component": get_clusterer("hdbscan"),
        "method": method,
        "text clusterer": TextClusterer(load_model("minilm"), 3),
        "embedding clusterer": EmbeddingClusterer(3, method),
    }


def test_every_public_object_takes_three_lines_at_most(objects: dict[str, object]) -> None:
    for name, value in objects.items():
        shown = repr(value)
        assert len(shown.splitlines()) <= 3 and len(shown) <= 480, (name, len(shown), shown[:600])
        assert not any(text in shown for text in TEXTS[20:]), name


def test_what_is_printed_says_what_it_is(objects: dict[str, object]) -> None:
    assert repr(objects["task"]) == "Task('texts', 60 texts, 1 split, 2 classes)"
    assert repr(make_task(TEXTS)) == "Task('texts', 60 texts, 1 split, 0 classes)"
    assert repr(objects["method"]) == "Method('umap/hdbscan')" and repr(objects["component"]) == "Component('hdbscan')"
    assert repr(parse_method("umap/kmeans", {"umap": {"n_neighbors": 30}})) == "Method('umap/kmeans', n_neighbors=30)"
    assert repr(objects["model"]) == "Lexical('tfidf')" and repr(objects["function"]) == "FunctionModel('length')"
