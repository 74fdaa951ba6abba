"""A clustering by a trained similarity is served: a new passage joins the cluster it is most like on average."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from traube._core import paths
from traube._grouping import served as serving
from traube._grouping.served import Served
from traube.components import DistanceView, fit, parse_method
from traube.components.new_points import find_nearest_on_average
from traube.models import ModelCard, load_model, model_of
from traube.models.lexical import Lexical

TEXTS = [
    f"{topic} {topic} {topic} {rest}" for topic in ("cat", "star", "soup") for rest in ("the", "a", "the a", "a a")
]
NEW = ["cat cat cat a the", "star star star the the", "soup soup soup", "bread dog"]
Serve = Callable[..., Served]


@pytest.fixture
def serve(drop_similarity: Callable[..., Path]) -> Serve:
    """A served clustering of twelve texts on three topics, for a query."""

    def make(**settings: object) -> Served:
        model = load_model(drop_similarity(**settings).name, "cpu")
        method = parse_method("none/agglomerative_average")
        vectors, query = model.encode(TEXTS), model.encode(["query"])[0]
        assert model.similarity is not None
        clusters = fit(method, DistanceView(model.similarity.distances(vectors, query)), 3).labels
        words = {c: [f"word{c}"] for c in range(3)}
        return Served(
            model.card, model.fingerprint, method, 0, None, vectors, vectors, clusters, words, query=query[None]
        )

    return make


every = pytest.mark.parametrize(
    "settings",
    [
        {"network": "qss", "query": "text"},
        {"network": "qs3m", "query": "passages", "output": "sigmoid"},
        {"network": "qs3m", "query": "none", "output": "sigmoid"},
        {"network": "attention", "query": "text", "output": "sigmoid"},
        {"network": "qs3m", "query": "text", "output": "sigmoid", "symmetric": False},
    ],
    ids=str,
)


@every
def test_a_new_passage_joins_the_cluster_nearest_on_average(serve: Serve, settings: dict[str, object]) -> None:
    served = serve(**settings)
    similarity = served.model.similarity
    assert similarity is not None
    query = similarity.make_query(
        served.vectors, served.model.encode(["query"])[0]
    )  # of the split, not of the new ones
    found = served.predict(NEW)
    for i, text in enumerate(NEW):
        together = similarity.compare(np.vstack([served.vectors, served.model.encode([text])]), query)
        alike = [together[-1, :-1][served.clusters == c].mean() for c in range(3)]
        assert found["cluster"][i] == int(np.argmax(alike))
        assert found["words"][i] == f"word{found['cluster'][i]}"
    assert (found["distance"] >= 0).all()


@pytest.mark.parametrize("card", ["query_space", "jaccard"])
def test_similarities_without_weights_are_served_too(tiny_bert: Path, card: str) -> None:
    about = {"kind": "tokens"} if card == "jaccard" else {"model": str(tiny_bert)}
    model = model_of(ModelCard.model_validate({"name": "mine", "similarity": card, **about}), "cpu")
    corpus, clusters = [*TEXTS, "query"], np.repeat([0, 1, 2], 4)
    encoded = model.encode(corpus)
    vectors, fitted = encoded[:-1], Lexical(model.card).fit_words(corpus) if model.corpus_bound else None
    method = parse_method("none/agglomerative_average")
    served = Served(
        model.card, model.fingerprint, method, 0, fitted, vectors, vectors, clusters, {}, query=encoded[-1:]
    )
    together = served.predict(NEW)
    assert together["cluster"].tolist()[:3] == [0, 1, 2]
    alone = pd.concat([served.predict([text]) for text in NEW], ignore_index=True)
    pd.testing.assert_frame_equal(together, alone, atol=1e-5)


@every
def test_what_was_saved_predicts_the_same(serve: Serve, tmp_path: Path, settings: dict[str, object]) -> None:
    served = serve(**settings)
    serving.save(served, tmp_path / "served")
    again = serving.load(tmp_path / "served", paths.checkpoints() / "mine")
    assert again.query is not None and np.array_equal(again.query, served.query)
    pd.testing.assert_frame_equal(again.predict(NEW), served.predict(NEW), rtol=1e-5)
    together = served.predict(NEW * 70)  # more than are compared at once
    alone = pd.concat([served.predict([text]) for text in NEW] * 70, ignore_index=True)
    pd.testing.assert_frame_equal(together, alone, atol=1e-4)


def test_the_query_of_the_split_counts(serve: Serve) -> None:
    served = serve()
    other = replace(served, query=served.model.encode(["dog bread the"]))
    assert not np.allclose(served.predict(NEW)["distance"], other.predict(NEW)["distance"])


def test_noise_is_no_cluster_to_join() -> None:
    distances = np.array([[0.0, 0.9, 0.5], [0.9, 0.2, 0.6]])
    clusters, means = find_nearest_on_average(distances, np.array([-1, 0, 0]))
    assert clusters.tolist() == [0, 0] and means == pytest.approx([0.7, 0.4])
    clusters, means = find_nearest_on_average(distances, np.array([-1, -1, -1]))
    assert clusters.tolist() == [-1, -1] and np.isnan(means).all()
