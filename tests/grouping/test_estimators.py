"""Grouping as scikit-learn estimators, by scikit-learn's own checks and in a pipeline."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.errors import Refusal, refused
from traube import EmbeddingClusterer, TextClusterer, cluster_texts
from traube._core.errors import Malformed, Unsupported
from traube.models.transformer import Transformer

TEXTS = [f"{topic} {topic} {rest}" for topic in ("bread", "goal", "moon") for rest in ("a b", "b c", "c d", "d e")]
TOPICS = np.repeat([0, 1, 2], 4)
EMBEDDINGS = np.eye(3)[TOPICS] + np.arange(12)[:, None] / 1000
QUICK = ("check_estimators_nan_inf", "check_clustering", "check_fit2d_1sample", "check_n_features_in")
CHECKS = [
    pytest.param(estimator, check, marks=[] if check.func.__name__ in QUICK else pytest.mark.slow)
    for estimator, check in estimator_checks_generator(EmbeddingClusterer())
]


def name(value: Any) -> str:
    return getattr(getattr(value, "func", value), "__name__", type(value).__name__)


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=name)
@pytest.mark.filterwarnings("ignore")
def test_embeddings_are_grouped_as_scikit_learn_expects(estimator: Any, check: Any) -> None:
    """No check is left out. Those of `TextClusterer` would hand it numbers for texts."""
    check(estimator)


def test_a_fitted_clusterer_says_what_it_found() -> None:
    clusterer = EmbeddingClusterer(n_clusters=3).fit(EMBEDDINGS)
    assert adjusted_rand_score(TOPICS, clusterer.labels_) == 1
    assert clusterer.n_clusters_ == 3 and clusterer.stability_.shape == (3,) and clusterer.k_table_ is None
    assert list(clusterer.tree_) == ["layer", "cluster", "parent", "size", "stability"]
    assert np.array_equal(clusterer.predict(EMBEDDINGS), clusterer.labels_)
    chosen = EmbeddingClusterer().fit(np.repeat(EMBEDDINGS, 3, axis=0) + np.arange(36)[:, None] / 10_000)
    assert chosen.k_table_ is not None


def test_it_is_a_step_of_a_pipeline() -> None:
    pipeline = make_pipeline(TfidfVectorizer(), TruncatedSVD(3, random_state=0), EmbeddingClusterer(n_clusters=3))
    labels = pipeline.fit_predict(TEXTS)
    assert adjusted_rand_score(TOPICS, labels) == 1
    assert pipeline.predict(["moon"])[0] == labels[-1]
    sparse = make_pipeline(TfidfVectorizer(), EmbeddingClusterer(n_clusters=3)).fit(TEXTS)
    assert sparse.predict(["moon"])[0] == sparse[-1].labels_[-1]


def test_parameters_are_kept_as_they_are_given_and_set_by_name() -> None:
    algorithm = KMeans(2)
    clusterer = EmbeddingClusterer(algorithm=algorithm, random_state=np.random.RandomState(1))
    assert clusterer.get_params(deep=False)["algorithm"] is algorithm
    assert clusterer.fit(EMBEDDINGS).n_clusters_ == 2 and not hasattr(algorithm, "labels_")
    assert clone(clusterer).set_params(algorithm__n_clusters=3).fit(EMBEDDINGS).n_clusters_ == 3
    assert np.isnan(clusterer.stability_).all()  # nobody measured it


def test_noise_is_no_cluster_and_attracts_nothing() -> None:
    embeddings = np.vstack([np.repeat(np.eye(2, 4), 20, axis=0), np.eye(4)[3:]])
    embeddings += np.random.default_rng(0).normal(scale=0.01, size=embeddings.shape)
    clusterer = EmbeddingClusterer(algorithm="pca/hdbscan").fit(embeddings)
    assert clusterer.n_clusters_ == 2 and clusterer.labels_[-1] == -1
    assert set(clusterer.predict(embeddings[-1:])) <= {0, 1}


@pytest.mark.parametrize(
    ("parameters", "refusal"),
    [
        ({"n_clusters": 13}, (ValueError, "n_clusters=13", "n_samples=12")),
        ({"algorithm": 3}, (TypeError, "int")),
        ({"algorithm": "none/gsdmm"}, (Unsupported, "gsdmm")),
        ({"algorithm": "none/aecl"}, (Unsupported, "none/aecl")),
    ],
)
def test_what_cannot_group_embeddings_is_refused(parameters: dict[str, Any], refusal: Refusal) -> None:
    with refused(*refusal):
        EmbeddingClusterer(**parameters).fit(EMBEDDINGS)


# texts


def test_texts_are_grouped_as_by_cluster_texts_and_new_ones_join() -> None:
    texts = pd.Series([*TEXTS, None, TEXTS[0]])
    clusterer = TextClusterer(model="tfidf", n_clusters=3)
    labels = clusterer.fit_predict(texts)
    assert np.array_equal(labels, cluster_texts(texts, model="tfidf", n_clusters=3).labels)
    assert clusterer.n_clusters_ == 3 and clusterer.stability_.shape == (3,) and clusterer.tree_.empty
    assert clusterer.clustering_.summary()["size"].tolist() == [5, 4, 4]
    assert clusterer.predict(["the moon", "", None, "bread"]).tolist() == [labels[8], -1, -1, labels[0]]
    assert clusterer.predict([" "]).tolist() == [-1]
    assert clone(clusterer).get_params() == clusterer.get_params()


def test_texts_are_encoded_by_what_was_passed(minilm: Transformer, home: Path) -> None:
    network, before = minilm.network, set(home.iterdir())
    clusterer = TextClusterer(model=network, n_clusters=3, cache=False).fit(pd.DataFrame({"body": TEXTS}))
    assert clusterer.predict(["a loaf of bread"])[0] == clusterer.labels_[0]
    assert set(home.iterdir()) == before  # nothing was written


def test_a_new_text_joins_the_cluster_to_whose_texts_a_similarity_finds_it_nearest() -> None:
    compared = TextClusterer(model="jaccard", n_clusters=3).fit(TEXTS)
    again: TextClusterer = pickle.loads(pickle.dumps(compared))
    for fitted in (compared, again):
        assert fitted.predict(TEXTS).tolist() == compared.labels_.tolist()
        assert fitted.predict(["", TEXTS[0]]).tolist() == [-1, compared.labels_[0]]


def test_what_cannot_take_new_texts_says_why() -> None:
    with pytest.raises(NotFittedError):
        TextClusterer().predict(TEXTS)
    fitted = TextClusterer(model=lambda texts: TfidfVectorizer().fit_transform(texts), n_clusters=3).fit(TEXTS)
    with refused(Malformed, 1):
        fitted.predict(["moon"])
    with refused(TypeError, "cluster_texts", "ndarray"):
        TextClusterer().fit(EMBEDDINGS)
