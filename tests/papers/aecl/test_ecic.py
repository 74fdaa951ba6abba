"""Iterative classification and its isolation forests: what they mend, beside scikit-learn's own
forest, and odd input.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score

from tests.clustering import cluster
from tests.errors import refused
from traube._core.errors import DoesNotFit, Failed, Invalid
from traube.components import parse_method
from traube.papers.aecl.ecic import IterativeClassification
from traube.papers.aecl.isolation import depths

Blobs = tuple[NDArray[np.float32], NDArray[np.int64]]


@pytest.fixture(scope="module")
def cloud() -> NDArray[np.float64]:
    """400 points about the origin, the first ten of them far out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    X[:10] *= 6
    return X


def counts(n: int = 400, seed: int = 0) -> sparse.csr_matrix:
    """Weights of words in short texts."""
    made = sparse.random(n, 90, 0.08, format="csr", random_state=seed)
    made.sort_indices()
    return made


# isolation forests


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_texts_lie_as_deep_as_in_scikit_learns_forest(cloud: NDArray[np.float64], kind: str) -> None:
    X = cloud if kind == "dense" else counts()
    ours = depths(X, np.zeros(400, dtype=np.int64), 500, 1)
    peer = IsolationForest(n_estimators=500, max_samples=256, random_state=0).fit(X).score_samples(X)
    assert spearmanr(ours, peer).statistic > 0.95


def test_far_points_lie_less_deep_than_all_others_whatever_is_beside_them(cloud: NDArray[np.float64]) -> None:
    found = depths(cloud, np.zeros(400, dtype=np.int64), 100, 0)
    assert set(np.argsort(found)[:10]) == set(range(10))
    labels = np.repeat([0, 1], 200)
    moved = cloud + 100.0 * labels[:, None]
    near, far = depths(cloud, labels, 200, 0), depths(moved, labels, 200, 0)
    assert spearmanr(near, far).statistic > 0.99


def test_sparse_vectors_lie_as_deep_as_the_same_ones_made_dense() -> None:
    X = counts()
    as_sparse, as_dense = (depths(V, np.zeros(400, dtype=np.int64), 500, 0) for V in (X, X.toarray()))
    assert spearmanr(as_sparse, as_dense).statistic > 0.95


@pytest.mark.parametrize("X", [np.ones((20, 3)), sparse.csr_matrix((20, 3)), sparse.csr_matrix(np.eye(20, 3))])
def test_equal_texts_and_texts_without_words_lie_equally_deep(X: object) -> None:
    found = depths(X, np.zeros(20, dtype=np.int64), 50, 0)
    assert np.isfinite(found).all()
    assert np.ptp(found[3:]) < 1e-9  # numbers are summed in the same order


# iterative classification


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("start", ["kmeans", "agglomerative_average"])
def test_it_finds_the_groups_and_repeats_itself(blobs: Blobs, kind: type, start: str) -> None:
    vectors, gold = blobs
    once, twice = (cluster("ecic", {"start": start}, kind(vectors), 4, 3) for _ in range(2))
    assert adjusted_rand_score(gold, once) > 0.95
    assert np.array_equal(once, twice)


def test_it_mends_clusters_that_are_partly_wrong(blobs: Blobs) -> None:
    vectors, gold = blobs
    rng = np.random.default_rng(0)
    begun = np.where(rng.random(300) < 0.3, rng.integers(4, size=300), gold)
    fitted = IterativeClassification(4, start=begun, steady=0, random_state=0).fit(vectors)
    assert np.array_equal(fitted.start_, begun)
    assert adjusted_rand_score(gold, begun) < 0.7
    assert adjusted_rand_score(gold, fitted.labels_) > 0.95


def test_it_ends_when_the_sizes_are_steady_and_not_before(blobs: Blobs) -> None:
    at_once = IterativeClassification(4, steady=1e9, random_state=0).fit(blobs[0])
    assert at_once.n_iter_ == 1
    noise = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    never = IterativeClassification(30, steady=0, iterations=4, random_state=0).fit(noise)
    assert never.n_iter_ == 4


def test_the_inner_part_leaves_out_outliers_and_the_surplus_of_large_clusters(cloud: NDArray[np.float64]) -> None:
    labels = np.repeat([0, 1], [300, 100])
    clusterer = IterativeClassification(2, least=0.5, most=0.5, outliers=0.1)
    inner = clusterer._draw_inner(cloud, labels, np.random.RandomState(0))
    assert np.bincount(labels[inner]).tolist() == [100, 90]  # .5 n / k of the large one, nine tenths of the small one
    assert len(set(inner) & set(range(10))) == 0


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_equal_texts_stay_in_one_cluster(kind: type) -> None:
    assert set(cluster("ecic", None, kind(np.ones((40, 3), dtype=np.float32)), 4, 0)) == {0}


def test_a_cluster_of_one_text_and_as_many_clusters_as_texts(blobs: Blobs) -> None:
    X = np.concatenate([blobs[0][:60], -10 * np.ones((1, 20), dtype=np.float32)])
    found = cluster("ecic", {"outliers": 0.9}, X, 5, 0)
    assert (found == found[-1]).sum() == 1
    assert len(set(cluster("ecic", None, blobs[0][:12], 12, 0))) == 12


def test_what_cannot_be_is_one_line(blobs: Blobs) -> None:
    with refused(Failed, "ecic"):
        cluster("ecic", {"least": 0.9, "most": 0.1}, blobs[0], 4, 0)
    with refused(Invalid, "ecic", "dbstream"):
        parse_method("none/ecic", {"ecic": {"start": "dbstream"}})
    with refused(Invalid, "ecic", "1.0"):
        parse_method("none/ecic", {"ecic": {"outliers": 1}})
    average = {"start": "agglomerative_average"}
    with refused(DoesNotFit, "ecic", 300):
        cluster("ecic", average, blobs[0], 4, 0, memory=8 * 300 * 300 - 1)
    assert len(cluster("ecic", None, blobs[0], 4, 0, memory=0)) == 300
