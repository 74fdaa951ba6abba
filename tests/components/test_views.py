"""Views: what holds of vectors, distances and texts alike, and how fit decides on input and number of clusters."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, pairwise_distances

from tests.errors import refused
from traube._core.errors import Conflict, Malformed, TooFew, Unsupported
from traube.components import Component, DistanceView, TextView, VectorView, View, fit, parse_method
from traube.components.fitting import fit_clusterer
from traube.components.new_points import assign_to_nearest_center

Blobs = tuple[NDArray[np.float32], NDArray[np.int64]]


def draw(seed: int, n: int) -> tuple[list[View], NDArray[np.int64]]:
    """The three views of n texts, and labels of which some are noise."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, 5)).astype(np.float32)
    views: list[View] = [
        VectorView(vectors),
        VectorView(sparse.csr_matrix(vectors)),
        DistanceView(pairwise_distances(vectors)),
        TextView([f"text {i}" for i in range(n)], rng.random(n)),
    ]
    return views, rng.integers(-1, 3, size=n)


@given(seed=st.integers(0, 2**31), n=st.integers(2, 20))
def test_noise_has_no_distance_and_is_no_stray_and_rows_may_be_taken(seed: int, n: int) -> None:
    views, labels = draw(seed, n)
    for view in views:
        distance = view.to_own_cluster(labels)
        assert len(view) == n and np.array_equal(np.isnan(distance), labels < 0)
        assert not view.strays(labels)[labels < 0].any() and not view.find_unknown().any()
        order = np.random.default_rng(seed).permutation(n)
        assert view.take(order).to_own_cluster(labels[order]) == pytest.approx(distance[order], nan_ok=True, rel=1e-4)
        rows = np.flatnonzero(labels == labels.max())[:3]
        likeness = view.likeness(rows, distance[rows])
        assert likeness == pytest.approx(likeness.T, abs=1e-6)


def test_by_distance_a_text_is_as_far_from_its_cluster_as_from_the_others_in_it() -> None:
    apart = np.array([[0, 0.2, 0.6, 0.9], [0.2, 0, 0.4, 0.9], [0.6, 0.4, 0, 0.9], [0.9, 0.9, 0.9, 0]])
    view, labels, rows = DistanceView(apart), np.array([0, 0, 0, 1]), np.array([0, 1])
    distance = view.to_own_cluster(labels)
    assert distance == pytest.approx([0.4, 0.3, 0.5, 0])
    near = 1 - 0.2 / 0.35  # of a distance to the mean of both distances
    assert view.likeness(rows, distance[rows]) == pytest.approx(np.array([[1, near], [near, 1]]))
    with warnings.catch_warnings(action="error"):
        assert not view.strays(np.zeros(4, dtype=np.int64)).any()  # there is no other cluster that could be nearer


@given(seed=st.integers(0, 2**31), n=st.integers(2, 20))
def test_dense_and_sparse_vectors_are_one_view(seed: int, n: int) -> None:
    (dense, thin, *_), labels = draw(seed, n)
    assert dense.vectors is not None and thin.vectors is not None
    assert dense.to_own_cluster(labels) == pytest.approx(thin.to_own_cluster(labels), nan_ok=True, rel=1e-4)
    for one, other in zip(dense.nearest(dense.vectors, labels), thin.nearest(thin.vectors, labels), strict=True):
        assert one == pytest.approx(other, nan_ok=True, rel=1e-4)


def test_new_texts_join_where_old_ones_are(blobs: Blobs) -> None:
    vectors, gold = blobs
    known, new = VectorView(vectors[:200]), vectors[200:]
    labels, distance = known.nearest(known.compare(new), gold[:200])
    means = np.stack([vectors[:200][gold[:200] == c].mean(axis=0) for c in np.unique(gold)])
    assert np.array_equal(labels, gold[200:])
    assert distance == pytest.approx(np.linalg.norm(new - means[labels], axis=1), rel=1e-4)
    elsewhere = (labels + 1) % len(means)
    assert not known.strays(gold[:200], new, labels).any() and known.strays(gold[:200], new, elsewhere).all()
    apart = DistanceView(pairwise_distances(vectors[:200]))
    assert np.array_equal(apart.nearest(pairwise_distances(new, vectors[:200]), gold[:200])[0], gold[200:])
    by_rule, same = known.nearest(new, gold[:200], lambda *given: assign_to_nearest_center(KMeans, *given))
    assert np.array_equal(by_rule, labels) and same == pytest.approx(distance)
    alone, none = known.nearest(new, np.full(200, -1))
    assert (alone == -1).all() and np.isnan(none).all()
    with refused(Malformed, 3, 20):
        known.compare(new[:, :3])
    with refused(Unsupported):
        TextView(["a"]).compare(new)


def test_views_are_sent_and_shown_by_their_size() -> None:
    for view in draw(0, 3)[0]:
        assert len(pickle.loads(pickle.dumps(view))) == 3 and repr(view).endswith("View(3 texts)")


def test_the_number_is_chosen_only_where_one_is_needed_and_none_given(blobs: Blobs) -> None:
    view = VectorView(blobs[0])
    for method, n_clusters, column in (("kmeans", None, "silhouette"), ("kmeans", 3, ""), ("pca/hdbscan", None, "")):
        table = fit(parse_method(method), view, n_clusters, 0).n_clusters_table
        assert (table is None) == (not column) and (table is None or column in table)
    stable = parse_method("none/kmeans", {"kmeans": {"k": "auto"}})
    chosen = fit(stable, view, 2, 0)
    assert chosen.n_clusters_table is not None and "excess" in chosen.n_clusters_table
    assert adjusted_rand_score(blobs[1], chosen.labels) > 0.9


def test_without_a_seed_the_number_is_chosen_with_seed_0(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traube.components._number_of_clusters.ROWS", 100)  # a draw of the texts
    view, ward = VectorView(blobs[0]), parse_method("agglomerative")
    tables = [fit(ward, view, seed=seed).n_clusters_table for seed in (None, 0, 1)]
    assert all(table is not None for table in tables)
    assert tables[0].equals(tables[1]) and not tables[0].equals(tables[2])  # type: ignore[union-attr]


@pytest.mark.slow
def test_layers_are_reported_by_those_that_declare_them_after_a_reduction_too(blobs: Blobs) -> None:
    for name in ("none/stable_kmeans", "pca/stable_kmeans"):
        free, given = (fit(parse_method(name), VectorView(blobs[0]), k, 0) for k in (None, 5))
        assert free.n_clusters_table is not None and given.n_clusters_table is None
        assert len(set(given.labels)) == len(given.stability) == 5
        assert all(len(layer.labels) == 300 for layer in free.layers)
    assert not fit(parse_method("kmeans"), VectorView(blobs[0]), 4, 0).stability


@pytest.mark.parametrize("view", [VectorView(np.eye(4)), DistanceView(1 - np.eye(4))])
def test_a_clusterer_that_finds_the_number_is_given_none(view: View) -> None:
    with refused(Conflict, "hdbscan", "n_clusters"):
        fit_clusterer("hdbscan", None, view, 3, 0)


def test_texts_are_for_those_that_take_them_and_a_component_is_a_method(blobs: Blobs) -> None:
    texts = ["a loaf of bread", "bread", "bread and a loaf"]
    gsdmm = parse_method("none/gsdmm")
    by_texts = fit(gsdmm, TextView(texts), seed=0).labels
    assert np.array_equal(fit(gsdmm, VectorView(np.eye(3)), seed=0, texts=texts).labels, by_texts)
    own = Component("own", KMeans, n_clusters="given", seeded=True)
    assert len(set(fit(own, VectorView(blobs[0]), 4, 0, texts=texts).labels)) == 4
    with refused(Unsupported, "umap"):
        fit(parse_method("umap/kmeans"), TextView(texts), 2, 0)
    with refused(TooFew):
        fit(gsdmm, TextView([]), seed=0)
