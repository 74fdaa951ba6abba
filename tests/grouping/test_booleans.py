"""True is no number: nobody means one cluster, or the seed 1, by it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.clustering import cluster
from tests.errors import refused
from traube import EmbeddingClusterer, TextClusterer, cluster_texts, evaluate, make_task
from traube._core.errors import Invalid, TooFew

TEXTS = ["the dough of the bread", "a loaf of bread", "the crew of the ship", "a ship and its crew"]
VECTORS = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]], dtype=np.float32)
CALLS: dict[str, Callable[..., Any]] = {
    "cluster_texts": lambda **given: cluster_texts(TEXTS, embeddings=VECTORS, **given),
    "TextClusterer": lambda **given: TextClusterer("tfidf", **given).fit(TEXTS),
    "EmbeddingClusterer": lambda **given: EmbeddingClusterer(**given).fit(VECTORS),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["n_clusters", "random_state"])
@pytest.mark.parametrize("value", [True, False, np.True_, 2.0, "2"])
def test_what_is_no_whole_number_is_refused(call: str, name: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{name}|seed"):
        CALLS[call](**{name: value})


@pytest.mark.parametrize("value", [True, np.True_, 2.0])
def test_tasks_evaluations_and_components_refuse_it_too(value: Any) -> None:
    with refused(TypeError, "clusters"):
        make_task(TEXTS, clusters=value)
    with refused(TypeError, "seed"):
        evaluate(TEXTS, "tfidf", "none/kmeans", labels=["food", "food", "sea", "sea"], seeds=[value])
    with refused(Invalid, "kmeans"):
        cluster("kmeans", None, VECTORS, value, 42)
    assert len(set(cluster("kmeans", None, VECTORS, 2, 42))) == make_task(TEXTS, clusters=2).card.clusters == 2


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", [1, np.int64(1), np.uint8(1)])
def test_whole_numbers_of_any_kind_are_taken(call: str, value: Any) -> None:
    CALLS[call](n_clusters=value, random_state=value)


def test_one_cluster_is_one_that_was_requested() -> None:
    assert cluster_texts(TEXTS, embeddings=VECTORS, n_clusters=1).labels.tolist() == [0] * 4
    with refused(TooFew, 0, 4):
        cluster_texts(TEXTS, embeddings=VECTORS, n_clusters=0)
