"""The number of clusters by stability: found where there are clusters, doubted where there are none."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from tests.clustering import cluster
from tests.errors import refused
from traube._core.errors import Invalid, Unknown
from traube.components import choose_stable_k, get_clusterer, parse_method, stability
from traube.components._layers import find_layers
from traube.components.estimators import stable_kmeans
from traube.components.estimators.stable_kmeans import StableKMeans, find_neighbors, make_fuzzy_graph
from traube.components.spherical import _draw_starts_of_samples, cluster_spherical, draw_starts, run_lloyd, unit
from traube.components.stability import (
    _compute_rand,
    cluster_stability,
    find_alike,
    project,
    sample_clusters,
    sample_some,
)

Blobs = tuple[NDArray[np.float32], NDArray[np.int64]]


def cloud(n: int = 400, d: int = 12, seed: int = 0) -> NDArray[np.float32]:
    """A Gaussian without clusters, along some axes longer than along others."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, d)) * np.linspace(2, 0.5, d) + 1).astype(np.float32)


# the number of clusters


@pytest.mark.parametrize("seed", range(3))
def test_a_cloud_without_groups_is_not_believed(seed: int) -> None:
    _, table = choose_stable_k(cloud(seed=seed), seed)
    assert table["excess"].max() < 0.12


@pytest.mark.slow
@pytest.mark.parametrize("size", [[30, 30], [90, 12], [15, 15, 15, 15]])
def test_few_clear_groups_are_that_many_and_believed(size: list[int]) -> None:
    """A cloud that is long in one direction is cut in two as steadily as two groups are told apart; what
    differs is whether there is a gap."""
    rng = np.random.default_rng(0)
    groups = np.repeat(rng.normal(size=(len(size), 20)), size, axis=0)
    k, table = choose_stable_k(groups + 0.4 * rng.normal(size=groups.shape), 0)
    assert k == len(size) and table["excess"].max() > 0.3
    long = rng.normal(size=(sum(size), 3)) * [5, 1, 1] + 2
    assert choose_stable_k(long, 0)[1]["excess"].max() < 0.3


@pytest.mark.slow
def test_many_groups_are_looked_at_more_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger numbers are tried twice, and the table has each of them once."""
    rng = np.random.default_rng(0)
    groups = np.repeat(
        rng.normal(size=(80, 30)), 18, axis=0
    )  # more texts than 3 for each of MICRO, or there are no finer
    X = groups + 0.9 * rng.normal(size=groups.shape)
    k, table = choose_stable_k(X, 0)
    assert abs(np.log2(k / 80)) < 0.5
    assert table["k"].is_monotonic_increasing and table["k"].is_unique
    monkeypatch.setattr(stability, "MANY", 1_000)
    coarse = choose_stable_k(X, 0)[1]
    assert table[table["k"] < k // 4].equals(coarse[coarse["k"] < k // 4])
    assert table["k"].max() > 100 > coarse["k"].max()


def test_the_seed_decides() -> None:
    first, again, other = (choose_stable_k(cloud(48), seed)[1] for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.parametrize("X", [np.ones((40, 3)), np.zeros((40, 3)), np.eye(15), np.ones((1, 2))])
def test_equal_texts_and_few_texts_are_one_cluster(X: NDArray[np.float64]) -> None:
    k, table = choose_stable_k(X, 0)
    assert k == 1
    assert table["excess"].max() == 0


def test_candidates_are_sorted_unique_and_within_reach(blobs: Blobs) -> None:
    assert choose_stable_k(blobs[0], 0, [6, 4, 6])[1]["k"].tolist() == [1, 4, 6]
    with refused(Invalid, 2, 37, 1, 38):
        choose_stable_k(blobs[0], 0, [1, 4, 38])


@pytest.mark.parametrize(
    ("excess", "alike"),
    [
        ([0, 0.1, 0.291, 0.3, 0.295, 0.1, 0.299], [4, 8, 16]),
        ([0, 0.3, 0.295, 0.291, 0.2, 0.1, 0.1], [2, 4, 8]),
        ([0, 0.01, 0.05, 0.07, 0.05, 0.1, 0.1], [4, 8, 16]),  # not clear: more are alike, and 20 the most
        ([0, -0.1, -0.2, -0.3, -0.2, -0.1, -0.1], [1]),
    ],
)
def test_a_number_as_good_as_the_best_but_far_away_has_no_say(excess: list[float], alike: list[int]) -> None:
    table = pd.DataFrame({"k": [1, 2, 4, 8, 16, 32, 64], "excess": excess})
    assert find_alike(table).tolist() == alike


@pytest.mark.slow
def test_the_number_of_weak_groups_hardly_depends_on_the_seed() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(rng.normal(size=(8, 20)), 60, axis=0)
    X = groups + 1.8 * rng.normal(size=groups.shape)
    found = np.array([choose_stable_k(X, seed)[0] for seed in range(3)])
    assert found.std() / found.mean() < 0.2


labelings = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=30)


@given(labelings)
def test_the_rand_index_is_scikit_learns_of_points_with_sizes(points: list[tuple[int, int, int]]) -> None:
    a, b, size = np.array(points).T
    expected = adjusted_rand_score(np.repeat(a, size), np.repeat(b, size))
    found = _compute_rand(np.stack([a, a]), np.stack([b, a]), size.astype(np.float64), 5)
    assert found.tolist() == pytest.approx([expected, 1])


# `k: auto`


@pytest.mark.slow
def test_any_clusterer_that_takes_k_may_have_it_chosen(blobs: Blobs) -> None:
    vectors, gold = blobs
    vectors, gold = vectors[:100], gold[:100]
    for name in ("kmeans", "agglomerative", "ecic"):
        method = parse_method(f"none/{name}", {name: {"k": "auto"}})
        assert method.params()["clusterer_params"]["k"] == "auto"
        # the engine gives the number of gold classes, here a wrong one
        assert adjusted_rand_score(gold, cluster(name, method.clusterer_params, vectors, 2, 0)) > 0.9


def test_k_auto_is_a_parameter_of_methods_that_take_k_from_vectors(blobs: Blobs) -> None:
    assert "k" not in parse_method("none/kmeans").params()["clusterer_params"]
    assert len(set(cluster("kmeans", None, blobs[0], 2, 0))) == 2
    params = parse_method("none/kmeans", {"kmeans": {"k": "auto", "n_init": 3}}).clusterer_params
    estimator = get_clusterer("kmeans").estimator(params, 0, n_clusters=2)
    assert (estimator.n_init, estimator.n_clusters) == (3, 2)
    method = parse_method("none/agglomerative_average", {"agglomerative_average": {"k": "auto"}})
    assert "chooses k from vectors" in str(method.unsupported_by_distance())


@pytest.mark.parametrize(
    ("method", "params"), [("none/kmeans", {"k": 4}), ("umap/hdbscan", {"k": "auto"}), ("none/gsdmm", {"k": "auto"})]
)
def test_k_is_no_other_parameter(method: str, params: dict[str, object]) -> None:
    with refused(Unknown, "k"):
        parse_method(method, {method.partition("/")[2]: params})


# the clusterer


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_it_finds_number_and_groups_and_says_how_far_to_believe_them(blobs: Blobs, kind: type) -> None:
    fitted = StableKMeans(random_state=0).fit(kind(blobs[0]))
    assert fitted.n_clusters_ == 4
    table = fitted.k_table_
    assert table is not None and list(table) == ["k", "stability", "null", "excess"]
    assert (table["k"].min(), table["k"].max()) == (1, 35)
    assert table["excess"].max() > 0.3
    assert adjusted_rand_score(blobs[1], fitted.labels_) > 0.98
    assert fitted.score_ > 0.3
    assert (fitted.cluster_stability_ > 0.9).all()
    assert adjusted_rand_score(blobs[1], cluster("stable_kmeans", None, kind(blobs[0]), None, 5)) > 0.98


def test_a_given_number_is_kept_and_not_judged(blobs: Blobs) -> None:
    fitted = StableKMeans(7, random_state=0).fit(blobs[0])
    assert fitted.n_clusters_ == 7
    assert np.isnan(fitted.score_) and fitted.k_table_ is None
    assert fitted.cluster_stability_.shape == (7,)


def test_of_many_vectors_some_are_grouped_and_the_others_join(blobs: Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable_kmeans, "MOST", 100)
    found = StableKMeans(4, random_state=0).fit(blobs[0]).labels_
    assert adjusted_rand_score(blobs[1], found) > 0.98


def test_groups_are_more_stable_than_halves_and_one_text_is_rated_too(blobs: Blobs) -> None:
    vectors, gold = blobs
    halves = np.where(gold == 3, 3 + np.arange(300) % 2, gold)
    found = cluster_stability(sample_some(project(vectors, 0), 5, 0), halves, 0)
    assert found[:3].min() > found[3:].max() + 0.2
    labels = np.maximum(0, np.arange(300) - 294)  # five of six clusters are one text
    found = cluster_stability(sample_some(project(blobs[0], 0), 6, 0), labels, 0)
    assert len(found) == 6 and np.isfinite(found).all()


# layers


def test_layers_are_nested_and_find_what_lies_above_and_below() -> None:
    """3 x 3 x 3 groups of 20 texts: near ones of the second level, nearer ones of the third."""
    rng = np.random.default_rng(0)
    coarse, middle, fine = (rng.normal(size=(count, 40)) for count in (3, 9, 27))
    gold = np.repeat(np.arange(27), 20)
    vectors = 4 * coarse[gold // 9] + 2.5 * middle[gold // 3] + 1.5 * fine[gold] + rng.normal(size=(540, 40)) * 0.4
    fitted = StableKMeans(9, random_state=0).fit(vectors.astype(np.float32))
    assert adjusted_rand_score(gold // 3, fitted.labels_) > 0.98
    sizes = [int(layer.max()) + 1 for layer in fitted.layers_]
    assert sizes == sorted(set(sizes)) and any(layer is fitted.labels_ for layer in fitted.layers_)
    for above, below in pairwise(fitted.layers_):
        assert len(set(zip(above.tolist(), below.tolist(), strict=True))) == below.max() + 1
    assert adjusted_rand_score(gold // 9, fitted.layers_[0]) > 0.98
    assert adjusted_rand_score(gold, fitted.layers_[-1]) > 0.8
    assert [len(stability) for stability in fitted.layer_stability_] == sizes


@pytest.mark.parametrize("k", [1, 2, 5, 30])
def test_layers_are_nested_where_nothing_is(k: int) -> None:
    points = project(cloud(300), 0)
    labels = cluster_spherical(points, k, 1, 3, np.random.default_rng(0))
    labels = np.unique(labels, return_inverse=True)[1]
    layers = find_layers(labels, sample_some(points, k, 0), 0)
    for above, below in pairwise(layers):
        assert len(set(zip(above.tolist(), below.tolist(), strict=True))) == below.max() + 1


def test_layers_have_about_a_ninth_a_third_and_two_thirds_of_the_clusters() -> None:
    points, k = project(cloud(300), 0), 30
    labels = cluster_spherical(points, k, 1, 3, np.random.default_rng(0))
    coarser = [int(layer.max()) + 1 for layer in find_layers(labels, sample_some(points, k, 0), 0)[:-1]]
    assert int(labels.max()) + 1 == k and len(coarser) == 3
    for number, share in zip(coarser, (1 / 9, 1 / 3, 2 / 3), strict=True):
        assert share * k / 1.4 < number < share * k * 1.4


def test_vectors_of_any_length_become_unit_vectors_but_that_of_zeros() -> None:
    assert unit(np.array([[3, 4], [0.3, 0.4], [0, 0]])) == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8], [0, 0]]))


@pytest.mark.parametrize("angle", [0.2, 1.5])
def test_the_gap_between_two_tight_clusters_is_relative_to_how_far_apart_they_are(angle: float) -> None:
    rng = np.random.default_rng(0)
    angles = np.repeat([0, angle], 50) + rng.normal(scale=angle / 200, size=100)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert 0.95 < stability._measure_gap(points, 2, rng) <= 1.05


def test_where_nothing_is_clear_there_are_few_groups() -> None:
    k, table, _ = sample_clusters(project(cloud(2_000, 40, seed=3), 3), 3)
    assert table["excess"].max() < 0.12 and k <= 20


@pytest.mark.parametrize("X", [np.ones((30, 3)), np.zeros((30, 3)), np.ones((1, 3))])
def test_equal_texts_make_one_cluster_whatever_is_requested(X: NDArray[np.float64]) -> None:
    assert set(StableKMeans(random_state=0).fit(X).labels_) == {0}
    assert set(StableKMeans(min(3, len(X)), random_state=0).fit(X).labels_) == {0}


# its parts


@pytest.mark.slow
def test_weights_of_neighbors_are_umaps(blobs: Blobs) -> None:
    from traube.components.estimators.lazy_umap import import_umap

    rows, distances = find_neighbors(blobs[0], 14)
    theirs = import_umap().umap_.fuzzy_simplicial_set(
        blobs[0], 14, None, "cosine", knn_indices=rows, knn_dists=distances
    )[0]
    assert abs(make_fuzzy_graph(rows, distances) - theirs).max() < 1e-3


def test_nearest_are_those_of_all_pairs(blobs: Blobs) -> None:
    X = blobs[0][:50]
    rows, distances = find_neighbors(X, 6)
    cosines = 1 - X @ X.T
    np.fill_diagonal(cosines, -1)
    assert rows[:, 0].tolist() == list(range(50))
    assert np.allclose(distances[:, 1:], np.sort(cosines, axis=1)[:, 1:6], atol=1e-5)


@given(st.integers(0, 50), st.integers(2, 6))
def test_more_iterations_never_fit_worse(seed: int, k: int) -> None:
    X = unit(cloud(60, 4, seed))
    centers = X[draw_starts(X, k, np.random.default_rng(seed))]
    fits = [run_lloyd(X, centers, iterations)[1] for iterations in (1, 2, 5, 20)]
    assert all(b >= a - 1e-4 for a, b in pairwise(fits))


def test_a_start_is_drawn_the_more_often_the_further_it_is_from_those_before() -> None:
    gold = np.repeat([0, 1], [90, 10])
    samples = np.repeat(np.eye(2, dtype=np.float32)[gold][None], 20, axis=0)
    starts = _draw_starts_of_samples(samples, np.ones((20, 100), dtype=np.float32), 2, np.random.default_rng(0))
    assert np.array_equal(np.sort(gold[starts], axis=1), [[0, 1]] * 20)  # the same point again is none


def test_clusters_of_smoothed_vectors_lie_in_few_directions() -> None:
    rng = np.random.default_rng(0)
    gold = np.repeat(np.arange(5), 60)
    X = rng.normal(size=(5, 300))[gold] + rng.normal(size=(300, 300))
    found = [StableKMeans(5, random_state=0).fit(kind(X)).labels_ for kind in (np.asarray, sparse.csr_matrix)]
    assert all(adjusted_rand_score(gold, labels) > 0.95 for labels in found)


def test_of_several_starts_the_best_is_taken(blobs: Blobs) -> None:
    found = cluster_spherical(unit(blobs[0]), 4, 10, 30, np.random.default_rng(0))
    assert adjusted_rand_score(blobs[1], found) > 0.95


@pytest.mark.parametrize("distinct", [1, 2, 17, 92, 200])
def test_there_are_never_more_clusters_than_different_vectors(distinct: int) -> None:
    X = np.random.default_rng(0).normal(size=(distinct, 50))[np.arange(2_000) % distinct]
    fitted = StableKMeans(random_state=0).fit(X)
    assert fitted.n_clusters_ == distinct
    assert adjusted_rand_score(np.arange(2_000) % distinct, fitted.labels_) > 0.75
