import numpy as np
import pytest
from scipy import sparse

from traube._core.errors import TraubeError
from traube.components import _number_of_clusters as module
from traube.components import choose_k, choose_k_by_distance


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_finds_the_number_of_groups(blobs, metric, kind):
    k, table = choose_k(kind(blobs[0]), seed=0, metric=metric)
    assert k == 4
    assert list(table) == ["k", "silhouette"]
    assert table["k"].is_monotonic_increasing
    assert (table["k"].min(), table["k"].max()) == (2, 25)  # 1.5 sqrt(300)
    assert table.set_index("k")["silhouette"].idxmax() == k


def test_the_same_twice(blobs, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 100)
    first, second = (choose_k(blobs[0], seed=5)[1] for _ in range(2))
    assert first.equals(second)
    assert not first.equals(choose_k(blobs[0], seed=6)[1])


def test_candidates_are_sorted_and_unique(blobs):
    k, table = choose_k(blobs[0], seed=0, candidates=[5, 3, 5, 4])
    assert k == 4
    assert table["k"].tolist() == [3, 4, 5]


def test_never_more_than_a_hundred(blobs):
    assert max(module._make_grid(10**6)) == 100
    assert module._make_grid(3) == [2]
    assert module._make_grid(300)[:4] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("n", "candidates", "message"),
    [
        (2, None, "takes three distinct texts, not 2"),
        (10, [1, 3], r"between 2 and 9; got \[1\]"),
        (10, [10], r"got \[10\]"),
        (10, [], "got none"),
    ],
)
def test_refuses(blobs, n, candidates, message):
    with pytest.raises(TraubeError, match=message):
        choose_k(blobs[0][:n], seed=0, candidates=candidates)


def test_equal_vectors_have_no_number_of_clusters():
    with pytest.raises(TraubeError, match="all the same"):
        choose_k(np.ones((20, 3), dtype=np.float32), seed=0)


# where distances are given


def distances_of(vectors):
    return np.linalg.norm(vectors[:, None] - vectors[None], axis=2)


@pytest.mark.parametrize("clusterer", ["agglomerative_average", "agglomerative"])
def test_finds_the_number_of_groups_by_distance(blobs, clusterer):
    params = {"linkage": "complete"} if clusterer == "agglomerative" else None
    k, table = choose_k_by_distance(clusterer, params, distances_of(blobs[0]), seed=0)
    assert k == 4
    assert (table["k"].min(), table["k"].max()) == (2, 25)


def test_of_many_texts_some_are_compared(blobs, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 60)
    distances = distances_of(blobs[0])
    first, second = (choose_k_by_distance("agglomerative_average", None, distances, seed=5) for _ in range(2))
    assert first[0] == 4 and first[1].equals(second[1])


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (1 - np.eye(2), "choosing a number of clusters takes three distinct texts, not 2"),
        (1 - np.eye(9), "they are all equally alike"),
        (np.zeros((9, 9)), "they are all equally alike"),
    ],
)
def test_distances_that_say_nothing_are_refused(distances, message):
    with pytest.raises(TraubeError, match=message):
        choose_k_by_distance("agglomerative_average", None, distances, seed=0)


def test_by_distance_one_far_text_does_not_hide_the_groups() -> None:
    """Average linkage takes the far one apart first; the silhouette would leave it at that."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(5, 8)) * 2
    points = np.concatenate([*(center + rng.normal(size=(12, 8)) * 0.6 for center in centers), np.full((1, 8), 4.0)])
    distances = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    k, table = choose_k_by_distance("agglomerative_average", None, distances, 0)
    assert 5 <= k <= 7
    assert list(table) == ["k", "correlation"] and table.set_index("k")["correlation"].idxmax() == k
