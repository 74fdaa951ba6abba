"""Clusterers on distances that are given: which can, and that they find what they find on vectors."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from tests.clustering import cluster
from tests.errors import Refusal, refused
from traube._core.errors import Invalid, Unsupported
from traube.components import CLUSTERERS, DistanceView, parse_method
from traube.components.fitting import fit_clusterer

Blobs = tuple[NDArray[np.float32], NDArray[np.int64]]


def distances_of(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.linalg.norm(vectors[:, None] - vectors[None], axis=2)


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
def test_linkages_give_on_distances_what_they_give_on_the_vectors(blobs: Blobs, linkage: str) -> None:
    vectors = blobs[0][:80]
    params = {"linkage": linkage}
    by_distance = fit_clusterer("agglomerative", params, DistanceView(distances_of(vectors)), 7).labels
    assert adjusted_rand_score(by_distance, cluster("agglomerative", params, vectors, 7, None)) == 1
    peer = AgglomerativeClustering(7, metric="precomputed", linkage=linkage).fit_predict(distances_of(vectors))
    assert adjusted_rand_score(by_distance, peer) == 1


def test_hdbscan_finds_dense_regions_by_distance(blobs: Blobs) -> None:
    found = fit_clusterer("hdbscan", None, DistanceView(distances_of(blobs[0]))).labels
    assert adjusted_rand_score(blobs[1][found >= 0], found[found >= 0]) == 1


@pytest.mark.parametrize("clusterer", ["agglomerative_average", "hdbscan"])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("apart", [0, 1])
def test_few_items_and_items_that_are_all_the_same_are_clustered(clusterer: str, n: int, apart: int) -> None:
    view, k = DistanceView(apart * (1 - np.eye(n, dtype=np.float32))), None if clusterer == "hdbscan" else 1
    found = fit_clusterer(clusterer, None, view, k).labels
    assert found.shape == (n,) and found.dtype == np.int64


def test_clusterers_that_work_on_vectors_say_so() -> None:
    able = {"agglomerative_average", "hdbscan"}
    unable = {name for name in CLUSTERERS if parse_method(f"none/{name}").unsupported_by_distance()}
    assert unable == CLUSTERERS.keys() - able
    for name in unable:
        with refused(Unsupported, name, CLUSTERERS[name].fitted_on):
            fit_clusterer(name, None, DistanceView(1 - np.eye(3)), 2, 0)


def test_another_linkage_than_wards_is_one_of_distances() -> None:
    assert parse_method("none/agglomerative").unsupported_by_distance()
    assert (
        parse_method("none/agglomerative", {"agglomerative": {"linkage": "complete"}}).unsupported_by_distance() is None
    )


@pytest.mark.parametrize(("k", "refusal"), [("2", (Invalid, 2)), (0, (Invalid, 1)), (4, (Invalid, 3))])
def test_impossible_numbers_of_clusters(k: Any, refusal: Refusal) -> None:
    with refused(*refusal):
        fit_clusterer("agglomerative_average", None, DistanceView(1 - np.eye(3)), k)
