"""Similarities that need no training, and the models that they are part of."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tests.made import cells_of
from traube.engine.cluster import cluster
from traube.engine.workbench import Workbench
from traube.foundation.errors import TraubeError
from traube.metrics.pairs import page_auc
from traube.models import load_model, model_of
from traube.models.base import ModelCard
from traube.models.catalogue import catalogue
from traube.models.similarities import Divergence, Jaccard, JensenShannon
from traube.tasks.task import Task


def compared(name: str, texts: list[str]) -> np.ndarray:
    model = load_model(name)
    assert model.similarity is not None
    return model.similarity.compare(model.encode(texts), None)


def test_jaccard_is_the_share_of_common_tokens() -> None:
    alike = compared("jaccard", ["brine salts cheese", "salts cheese twice", "Cheese", "salts cheese twice twice"])
    assert alike[0, 1] == pytest.approx(2 / 4)
    assert alike[0, 2] == 0  # letters' case counts
    assert alike[1, 3] == 1  # how often a token occurs does not


texts = st.lists(st.sampled_from("abcdef"), max_size=5).map(" ".join)


@given(st.lists(texts, min_size=1, max_size=6).filter(lambda some: any(some)))
def test_jaccard_is_always_that_of_the_sets(some: list[str]) -> None:
    sets = [set(text.split()) for text in some]
    expected = [[len(a & b) / len(a | b) if a | b else 0 for b in sets] for a in sets]
    vectors = load_model("jaccard").encode(some)
    assert sparse.issparse(vectors)
    assert Jaccard().compare(vectors, None) == pytest.approx(np.array(expected))
    assert Jaccard().compare(vectors.toarray(), None) == pytest.approx(np.array(expected))


def test_jensen_shannon_of_equal_and_of_disjoint_topics() -> None:
    topics = np.array([[1, 0], [1, 0], [0, 1], [0.5, 0.5]], dtype=np.float32)
    alike = JensenShannon().compare(topics, None)
    assert alike[0, :3].tolist() == [1, 1, 0]
    assert alike[0, 3] == pytest.approx(1 - 0.3112781)
    assert Divergence().compare(topics, None) == pytest.approx(1 - alike)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(2, 30), st.sampled_from([1.0, 1e-6, 1e-12]))
def test_jensen_shannon_is_always_symmetric_in_range_and_as_defined(seed: int, n: int, d: int, spread: float) -> None:
    """Also for topics that differ by rounding alone."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(d, 0.2)) + spread * rng.dirichlet(np.full(d, 0.2), n)
    topics /= topics.sum(axis=1, keepdims=True)
    alike = JensenShannon().compare(topics, None)
    assert alike.shape == (n, n) and np.array_equal(alike, alike.T)
    assert (alike >= 0).all() and (alike <= 1).all() and (alike.diagonal() == 1).all()
    p, q = topics[0], topics[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.nansum(np.where(x > 0, x * np.log2(2 * x / (p + q)), 0)) for x in (p, q)]
    assert alike[0, -1] == pytest.approx(1 - sum(logs) / 2, abs=1e-6)


def test_vectors_that_are_not_numbers_are_no_distances() -> None:
    topics = np.array([[np.nan, 0.5], [1, 0], [0, 1]], dtype=np.float32)
    with pytest.raises(TraubeError, match="NaN or infinite"):
        JensenShannon().distances(topics)


@pytest.mark.parametrize("name", ["jaccard", "lda", "lda_inverted"])
def test_distances_are_in_the_scale_of_the_page(name: str, tiny_task: Task) -> None:
    model = load_model(name)
    assert model.similarity is not None
    distances = model.similarity.distances(model.encode(tiny_task.texts))
    assert distances.dtype == np.float32 and np.array_equal(distances, distances.T)
    assert (distances.diagonal() == 0).all()
    assert distances.min() == 0 and distances.max() == 1


def test_both_baselines_know_groups_and_the_inverted_reading_is_upside_down(tiny_task: Task) -> None:
    (split, *_) = tiny_task.test_splits()
    assert split.labels is not None
    texts = [tiny_task.texts[row] for row in split.rows]
    topics = model_of(ModelCard(name="few", kind="lda", dimensions=3)).encode(texts)
    right = page_auc(JensenShannon().compare(topics, None), split.labels)
    assert min(right, page_auc(compared("jaccard", texts), split.labels)) > 0.8
    assert page_auc(Divergence().compare(topics, None), split.labels) == pytest.approx(1 - right, abs=1e-4)


def test_they_are_clustered_by_their_distances_and_nothing_else(tmp_path: Path, tiny_task: Task) -> None:
    model, bench = load_model("jaccard"), Workbench.at(tmp_path)
    methods = ["none/agglomerative_average", "none/kmeans", "pca/agglomerative_average"]
    asked = cells_of(tiny_task, *methods, model=model)
    results = {
        r.cell.method.name: r
        for r in cluster(tiny_task, bench.vectors(tiny_task, model), asked, bench.store, similarity=model.similarity)
    }
    assert {name: r.status for name, r in results.items()} == dict(
        zip(methods, ["done", "unsupported", "unsupported"], strict=True)
    )
    assert results["none/kmeans"].reason.startswith("a similarity gives distances, and kmeans works on vectors")


@pytest.mark.parametrize("card", [c for c in catalogue().values() if c.similarity], ids=lambda c: c.name)
def test_every_such_model_of_the_catalogue_says_what_it_is(card: ModelCard) -> None:
    model = load_model(card.name)
    assert model.similarity is not None and model.encoder.similarity is None
    assert model.fingerprint != model.encoder.fingerprint
    assert model.numerics.items() > model.encoder.numerics.items()


def test_a_similarity_of_other_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="jaccard compares vectors of tokens, not of tfidf"):
        ModelCard(name="mine", kind="tfidf", similarity="jaccard")
