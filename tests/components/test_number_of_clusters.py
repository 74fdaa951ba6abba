import numpy as np
import pytest
from scipy import sparse

from tests.components.test_by_distance import distances_of
from tests.errors import Refusal, refused
from traube._core.errors import TooFew
from traube.components import DistanceView, VectorView, get_clusterer
from traube.components import _number_of_clusters as module

KMEANS, AVERAGE = get_clusterer("kmeans"), get_clusterer("agglomerative_average")


def choose(X, seed=0):
    return VectorView(X).choose_n_clusters(KMEANS, {}, seed)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_finds_the_number_of_groups(blobs, kind):
    k, table = choose(kind(blobs[0]))
    assert k == 4
    assert list(table) == ["k", "silhouette"]
    assert table["k"].is_monotonic_increasing
    assert (table["k"].min(), table["k"].max()) == (2, 25)  # 1.5 sqrt(300)
    assert table.set_index("k")["silhouette"].idxmax() == k


def test_the_same_twice(blobs, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 100)
    first, second = (choose(blobs[0], seed=5)[1] for _ in range(2))
    assert first.equals(second)
    assert not first.equals(choose(blobs[0], seed=6)[1])


def test_never_more_than_a_hundred(blobs):
    assert max(module._list_candidates(10**6, 3_000)) == 100
    assert module._list_candidates(3, 3) == [2]
    assert module._list_candidates(4, 4) == [2, 3]
    assert module._list_candidates(300, 300)[:4] == [2, 3, 4, 5]


def test_two_texts_and_equal_vectors_have_no_number_of_clusters(blobs):
    with refused(TooFew, 2):
        choose(blobs[0][:2])
    with refused(TooFew):
        choose(np.ones((20, 3), dtype=np.float32))


# where distances are given


def choose_by_distance(distances, clusterer=AVERAGE, params=None, seed=0):
    return DistanceView(distances).choose_n_clusters(clusterer, clusterer.resolve(params), seed)


@pytest.mark.parametrize("clusterer", ["agglomerative_average", "agglomerative"])
def test_finds_the_number_of_groups_by_distance(blobs, clusterer):
    params = {"linkage": "complete"} if clusterer == "agglomerative" else None
    k, table = choose_by_distance(distances_of(blobs[0]), get_clusterer(clusterer), params)
    assert k == 4
    assert (table["k"].min(), table["k"].max()) == (2, 25)


def test_of_many_texts_some_are_compared(blobs, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 60)
    first, second = (choose_by_distance(distances_of(blobs[0]), seed=5) for _ in range(2))
    assert first[0] == 4 and first[1].equals(second[1])


@pytest.mark.parametrize(
    ("distances", "refusal"), [(1 - np.eye(2), (TooFew, 2)), (1 - np.eye(9), (TooFew,)), (np.zeros((9, 9)), (TooFew,))]
)
def test_distances_that_say_nothing_are_refused(distances, refusal: Refusal):
    with refused(*refusal):
        choose_by_distance(distances)


def test_by_distance_one_far_text_does_not_hide_the_groups() -> None:
    """Average linkage takes the far one apart first; the silhouette would leave it at that."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(5, 8)) * 2
    points = np.concatenate([*(center + rng.normal(size=(12, 8)) * 0.6 for center in centers), np.full((1, 8), 4.0)])
    k, table = choose_by_distance(np.linalg.norm(points[:, None] - points[None, :], axis=2))
    assert 5 <= k <= 7
    assert list(table) == ["k", "correlation"] and table.set_index("k")["correlation"].idxmax() == k
