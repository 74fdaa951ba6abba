"""Similarities that need no training, and the models that they are part of."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist

from tests.errors import refused
from tests.made import cells_of
from traube._core.errors import Failed, Invalid
from traube._pipeline.cluster import CellResult, cluster_cells
from traube._pipeline.workbench import Workbench
from traube.models import Model, load_model, model_of
from traube.models._similarities import Divergence, Jaccard, JensenShannon, QuerySpace
from traube.models.card import ModelCard, catalogue
from traube.papers.qs3m.auc import page_auc
from traube.tasks.task import Task, TaskCard, index_texts, make_split


def compared(name: str, texts: list[str]) -> np.ndarray:
    model = load_model(name)
    assert model.similarity is not None
    return model.similarity.compare(model.encode(texts), None)


def cluster(model: Model, task: Task, folder: Path, *methods: str) -> list[CellResult]:
    """Cluster a task by the distances of a model."""
    bench = Workbench.at(folder)
    requested, vectors = cells_of(task, *methods, model=model), bench.vectors(task, model)
    return [*cluster_cells(task, vectors, requested, bench.storage, bench.executor, similarity=model.similarity)]


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
    with refused(Failed):
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
    methods = ("none/agglomerative_average", "none/kmeans", "pca/agglomerative_average")
    found = {
        result.cell.method.name: result for result in cluster(load_model("jaccard"), tiny_task, tmp_path, *methods)
    }
    assert [found[name].status for name in methods] == ["done", "unsupported", "unsupported"]
    assert "kmeans" in found["none/kmeans"].reason


@pytest.mark.parametrize("card", [c for c in catalogue().values() if c.similarity], ids=lambda c: c.name)
def test_every_such_model_of_the_catalogue_says_what_it_is(card: ModelCard) -> None:
    model = load_model(card.name)
    assert model.similarity is not None and model.encoder.similarity is None
    assert model.fingerprint != model.encoder.fingerprint
    assert model.numerics.items() > model.encoder.numerics.items()


def test_a_model_in_the_space_of_queries_has_the_vectors_of_that_without() -> None:
    assert load_model("minilm_query_space").encoder.fingerprint == load_model("minilm").fingerprint


def test_a_card_may_name_a_similarity_that_fits_its_vectors(cards: Path) -> None:
    (cards / "mine.yaml").write_text("model: me/mine\nsimilarity: query_space\nshare: 0.4\n")
    assert load_model("mine").similarity == QuerySpace(share=0.4)
    (cards / "other.yaml").write_text("model: me/other\nsimilarity: jaccard\n")
    with refused(Invalid, "jaccard"):
        load_model("other")


# in the space of the query

SPACE = QuerySpace(share=0.5, directions=2, metric="euclidean")


def page(rng: np.random.Generator, n: int = 9, d: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Passages, float32 [n, d], and a query."""
    return rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=d).astype(np.float32)


def test_what_the_nearest_passages_do_not_know_is_left_out() -> None:
    """Of three subtopics of cheese two are seen by the query's nearest passages, what else is in a passage is not."""
    passages = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0.1, 0, 5, 0], [0.1, 0, 0, 5]], dtype=np.float32)
    query = np.array([1, 1, 0, 0], dtype=np.float32)
    alike = SPACE.compare(passages, query)
    assert alike[2, 3] == pytest.approx(0, abs=1e-5)  # both are about something else
    assert alike[0, 1] == pytest.approx(-np.sqrt(2), abs=1e-5)
    other = np.array([0, 0, 1, 1], dtype=np.float32)  # for it they are different
    assert SPACE.compare(passages, other)[2, 3] == pytest.approx(-np.sqrt(50), rel=1e-2)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_with_all_passages_and_directions_the_space_is_that_of_the_vectors(metric: str) -> None:
    vectors, query = page(np.random.default_rng(1))
    alike = QuerySpace(1, 100, metric).compare(vectors, query)
    expected = -cdist(vectors, vectors) if metric == "euclidean" else 1 - cdist(vectors, vectors, "cosine")
    assert alike == pytest.approx(expected, abs=1e-3)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0.01, 1), st.integers(1, 12))
def test_the_order_of_passages_never_matters(seed: int, n: int, share: float, directions: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, query = page(rng, n)
    space = QuerySpace(share, directions, "euclidean")
    alike, order = space.compare(vectors, query), rng.permutation(n)
    assert alike.shape == (n, n) and np.allclose(alike, alike.T, atol=1e-4)
    assert space.compare(vectors[order], query) == pytest.approx(alike[np.ix_(order, order)], abs=1e-3)


def test_passages_that_are_all_the_same_are_alike() -> None:
    vectors, query = page(np.random.default_rng(1), n=1)
    for space in (SPACE, QuerySpace()):
        assert space.distances(np.repeat(vectors, 4, axis=0), query).max() <= 1


def test_without_a_text_the_passages_themselves_are_the_query() -> None:
    vectors, _ = page(np.random.default_rng(1))
    mean = QuerySpace(0.5, 2, query="passages").distances(vectors)
    assert np.array_equal(mean, QuerySpace(0.5, 2).distances(vectors, vectors.mean(axis=0)))
    with refused(Invalid):
        QuerySpace(0.5, 2).distances(vectors)


def test_it_shares_the_vectors_of_its_encoder_and_settings_are_part_of_what_it_is(
    tmp_path: Path, tiny_bert: Path, tiny_task: Task
) -> None:
    card = ModelCard(name="tiny", model=str(tiny_bert))
    models = [
        model_of(card.model_copy(update={"similarity": "query_space", "share": share}), "cpu") for share in (1, 0.5)
    ]
    bench = Workbench.at(tmp_path)
    vectors, encoded = bench.encoded(tiny_task, model_of(card, "cpu"))
    assert encoded == len(tiny_task.texts)
    assert [bench.encoded(tiny_task, model)[1] for model in models] == [0, 0]
    assert bench.vectors(tiny_task, models[0]).path == vectors.path
    assert len({model_of(card, "cpu").fingerprint, *(model.fingerprint for model in models)}) == 3
    assert not models[0].trainable


def test_splits_with_queries_are_clustered_and_others_are_unsupported(
    tmp_path: Path, tiny_bert: Path, tiny_task: Task, topics: pd.DataFrame
) -> None:
    model = model_of(ModelCard(name="tiny", model=str(tiny_bert), similarity="query_space"), "cpu")
    (result,) = cluster(model, tiny_task, tmp_path, "none/agglomerative_average")
    assert result.status == "unsupported" and "tiny" in result.reason
    corpus, records = index_texts(topics[:36].assign(query="the cat"))
    queried = Task(TaskCard(name="queried"), corpus, make_split(records, "all", "topic", label="topic")).validate()
    (result,) = cluster(model, queried, tmp_path, "none/agglomerative_average")
    assert (result.status, result.reason) == ("done", "")
    assert result.assignments is not None and len(result.assignments) == 36
