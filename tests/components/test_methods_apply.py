from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import AgglomerativeClustering, KMeans, MiniBatchKMeans, kmeans_plusplus
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import cosine_distances

from tests.clustering import cluster
from tests.errors import Refusal, refused
from traube._core.errors import DoesNotFit, Invalid, Malformed, Unknown
from traube.components import CLUSTERERS, REDUCERS, reduce, register_clusterer
from traube.components import apply as applying
from traube.components.estimators.clusterers import plus_plus
from traube.components.estimators.reducers import Umap, find_neighbors_by

pytestmark = pytest.mark.filterwarnings("error")
TAKES_K = [name for name, c in CLUSTERERS.items() if c.n_clusters == "given" and c.fitted_on == "vectors"]
# EVoC compiles for minutes: tests/components/test_evoc.py
ON_VECTORS = [name for name, component in CLUSTERERS.items() if component.fitted_on == "vectors" and name != "evoc"]


def frozen(X):
    """Read-only, like vectors mapped from the cache."""
    X = X.copy()
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def plane(blobs):
    """The blobs in two dimensions, spread out as UMAP would."""
    centers = np.array([[0, 0], [9, 0], [0, 9], [9, 9]])
    rng = np.random.default_rng(1)
    return (centers[blobs[1]] + rng.normal(scale=0.4, size=(300, 2))).astype(np.float32), blobs[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize("kind", [frozen, sparse.csr_matrix, sparse.csr_array])
def test_reducers_keep_the_groups_and_repeat_themselves(blobs, name, kind):
    vectors, gold = blobs
    X = kind(vectors)
    first, second = (reduce(name, None, X, seed=7) for _ in range(2))
    if sparse.issparse(first):
        assert name == "none"
        first, second = first.toarray(), second.toarray()
    assert first.dtype == np.float32
    assert first.shape == (300, 20 if name == "none" else 2)
    assert np.array_equal(first, second)
    assert adjusted_rand_score(gold, KMeans(4, n_init=5, random_state=0).fit_predict(first)) > 0.5


@pytest.mark.parametrize("name", ON_VECTORS)
def test_clusterers_find_the_groups_and_repeat_themselves(plane, name):
    points, gold = frozen(plane[0]), plane[1]
    first, second = (cluster(name, None, points, k=4, seed=7) for _ in range(2))
    assert first.dtype == np.int64
    assert first.shape == (300,)
    assert np.array_equal(first, second)
    if name != "agglomerative_cosine":  # for which these points, seen from the origin, are no four groups
        assert adjusted_rand_score(gold, first) > 0.6


@pytest.mark.parametrize("name", TAKES_K)
@pytest.mark.parametrize("kind", [frozen, sparse.csr_matrix, sparse.csr_array])
def test_clusterers_on_vectors_dense_or_sparse(blobs, name, kind):
    vectors, gold = blobs
    assert adjusted_rand_score(gold, cluster(name, None, kind(vectors), k=4, seed=0)) > 0.9


def test_the_same_labels_as_the_library_itself(blobs):
    vectors, _ = blobs
    k_means = KMeans(4, n_init="auto", random_state=3).fit_predict(vectors)
    assert np.array_equal(cluster("kmeans", None, vectors, 4, seed=3), k_means)
    # the same clusters; their numbers are arbitrary
    ward = AgglomerativeClustering(20).fit_predict(vectors)
    assert adjusted_rand_score(ward, cluster("agglomerative", None, vectors, 20, seed=None)) == 1
    counts = sparse.random(300, 50, 0.1, format="csr", random_state=0, data_rvs=lambda n: np.ones(n))
    tied = AgglomerativeClustering(20).fit_predict(counts.toarray())
    assert adjusted_rand_score(tied, cluster("agglomerative", None, counts, 20, seed=None)) == 1
    average = AgglomerativeClustering(20, metric="cosine", linkage="average").fit_predict(vectors)
    assert adjusted_rand_score(average, cluster("agglomerative_cosine", None, vectors, 20, seed=None)) == 1


def test_parameters_and_seed_reach_the_estimator(plane, blobs):
    labels = cluster("hdbscan", {"min_cluster_size": 200}, plane[0], k=None, seed=None)
    assert set(labels) == {-1}
    vectors = np.random.default_rng(0).normal(size=(200, 5))
    labels = [cluster("kmeans", {"init": "random"}, vectors, 20, seed=seed) for seed in (0, 0, 1)]
    assert np.array_equal(labels[0], labels[1])
    assert not np.array_equal(labels[0], labels[2])


def test_input_is_left_alone(blobs):
    X = sparse.csr_matrix(blobs[0])
    X.indices[:2] = X.indices[:2][::-1]
    X.data[:2] = X.data[:2][::-1]
    X.has_sorted_indices = False
    indices, data = X.indices.copy(), X.data.copy()
    for name in ("umap", "pca"):
        reduce(name, None, X, seed=0)
    cluster("agglomerative", None, X, 4, seed=0)
    assert np.array_equal(X.indices, indices)
    assert np.array_equal(X.data, data)


# Few texts and degenerate vectors


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 17])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_few_texts(blobs, n, kind):
    X = kind(blobs[0][:n])
    for name in REDUCERS:
        coordinates = reduce(name, None, X, seed=0)
        assert coordinates.shape[0] == n
        dense = coordinates.toarray() if sparse.issparse(coordinates) else coordinates
        assert np.isfinite(dense).all()
    for name in ON_VECTORS:
        labels = cluster(name, None, X, k=min(2, n), seed=0)
        assert labels.shape == (n,)


def test_components_are_at_most_those_that_there_are(blobs):
    assert reduce("umap", {"n_components": 20}, blobs[0][:10], seed=0).shape == (10, 20)
    X = np.random.default_rng(0).normal(size=(5, 9)).astype(np.float32)
    assert reduce("pca", {"n_components": 50}, X, seed=0).shape == (5, 5)
    assert reduce("pca", {"n_components": 50}, X[:, :3], seed=0).shape == (5, 3)
    assert reduce("pca", {"n_components": 50}, sparse.csr_matrix(X), seed=0).shape == (5, 5)


def test_pca_of_sparse_vectors_is_that_of_dense_ones(blobs):
    dense = PCA(2, random_state=0).fit_transform(blobs[0])
    from_sparse = reduce("pca", None, sparse.csr_matrix(blobs[0]), seed=0)
    assert np.abs(dense) == pytest.approx(np.abs(from_sparse), abs=1e-4)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_texts_without_any_known_word(blobs, kind):
    vectors = blobs[0].copy()
    vectors[::30] = 0
    for name in REDUCERS:
        reduce(name, None, kind(vectors), seed=0)
    for name in TAKES_K:
        cluster(name, None, kind(vectors), k=4, seed=0)
    labels = cluster("agglomerative_cosine", None, kind(vectors), k=5, seed=0)
    assert len(set(labels[::30])) == 1
    assert labels[0] not in labels[1:30]


@pytest.mark.parametrize("name", ON_VECTORS)
def test_all_texts_the_same(name):
    labels = cluster(name, None, np.ones((40, 2), dtype=np.float32), k=4, seed=0)
    assert len(labels) == 40


@pytest.mark.parametrize("name", TAKES_K)
def test_one_cluster_and_as_many_as_texts(plane, name):
    labels = cluster(name, None, plane[0][:12], k=12, seed=0)
    if name != "minibatch_kmeans":  # which may leave a center empty
        assert len(set(labels)) == 12
    assert not cluster(name, None, plane[0], k=1, seed=0).any()


def words(n: int) -> sparse.csr_matrix:
    """n texts of ten words each, of a vocabulary of 5,000."""
    rng = np.random.default_rng(0)
    columns = np.concatenate([rng.choice(1000, 10, replace=False) * 5 for _ in range(n)])
    return sparse.csr_matrix((np.ones(10 * n), columns, np.arange(n + 1) * 10), shape=(n, 5_000), dtype=np.float32)


# What is refused


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_vectors_that_are_not_finite(plane, bad, kind):
    X = plane[0].copy()
    X[[3, 8], 1] = bad
    for run in (lambda: cluster("kmeans", None, kind(X), 4, 0), lambda: reduce("pca", None, kind(X), 0)):
        with refused(Malformed, 2, 3):
            run()


@pytest.mark.parametrize("shape", [(5,), (0, 3), (3, 0), (2, 2, 2)])
def test_vectors_that_are_no_table(shape):
    with refused(Malformed, shape):
        cluster("kmeans", None, np.ones(shape), 1, 0)


@pytest.mark.parametrize("name", TAKES_K)
@pytest.mark.parametrize(("k", "refusal"), [(7, (Invalid, 7, 6)), (0, (Invalid, 0)), ("2", (Invalid, "'2'"))])
def test_impossible_numbers_of_clusters(plane, name, k, refusal: Refusal):
    with refused(*refusal):
        cluster(name, None, plane[0][:6], k, 0)


def test_unknown_names():
    with refused(Unknown, "kmaens", "kmeans"):
        cluster("kmaens", None, np.ones((3, 2)), 2, 0)
    with refused(Unknown, "tsne"):
        reduce("tsne", None, np.ones((3, 2)), 0)


@pytest.mark.parametrize("name", ["agglomerative", "agglomerative_cosine"])
def test_distances_that_would_not_fit_are_refused(plane, name):
    needed = 8 * 300 * 300
    assert len(cluster(name, None, plane[0], 4, 0, memory=needed)) == 300
    with refused(DoesNotFit, 300, 2, "0.0", "agglomerative_knn"):
        cluster(name, None, plane[0], 4, 0, memory=needed - 1)


def test_what_would_take_hours_is_refused_beforehand():
    X = np.random.default_rng(0).normal(size=(80_000, 2)).astype(np.float32)
    with refused(DoesNotFit, "kmeans", 80_000, 70_000, "1.0"):
        cluster("kmeans", None, X, 70_000, 0)
    assert len(set(cluster("minibatch_kmeans", None, X[:3000], 1500, 0))) > 1000


def test_the_default_budget_is_half_of_the_free_memory(monkeypatch):
    """100,000 texts need 74.5 GiB for their distances; nothing is allocated before the check."""
    monkeypatch.setattr(applying.psutil, "virtual_memory", lambda: type("Memory", (), {"available": 24 * 2**30}))
    with refused(DoesNotFit, 100_000, "74.5", "12.0"):
        cluster("agglomerative", None, np.zeros((100_000, 2), dtype=np.float32), 4, 0)


def test_a_dense_copy_that_would_not_fit_is_refused():
    X = words(1000)
    with refused(DoesNotFit, "agglomerative_knn", 1000):
        cluster("agglomerative_knn", None, X, 4, 0, memory=2**20)


def test_sparse_vectors_stay_sparse_where_they_can():
    X = words(500)
    for name in ("kmeans", "minibatch_kmeans"):
        assert len(cluster(name, None, X, 3, 0, memory=0)) == 500
    assert reduce("pca", None, X, 0, memory_bytes=0).shape == (500, 2)


def test_a_custom_clusterer_that_gives_no_labels(plane):
    class Broken:
        def fit_predict(self, X):
            return np.zeros(3)

    register_clusterer("broken", Broken)
    try:
        with refused(Malformed, 300):
            cluster("broken", None, plane[0], None, 0)
    finally:
        del CLUSTERERS["broken"]


@pytest.mark.slow
def test_umap_finds_the_same_groups_each_time():  # with approximate neighbors: `test_methods_compiled.py`
    rng = np.random.default_rng(0)
    gold = rng.integers(5, size=4200)
    X = (4 * np.eye(10)[gold] + rng.normal(size=(4200, 10))).astype(np.float32)
    first, second = (reduce("umap", {"n_epochs": 20, "knn": "exact"}, X, seed=0) for _ in range(2))
    assert np.array_equal(first, second)
    assert adjusted_rand_score(gold, cluster("kmeans", {"n_init": 5}, first, 5, 0)) > 0.8


def test_hdbscan_places_new_texts_in_each_of_its_clusters(plane):
    points, gold = plane
    component = CLUSTERERS["hdbscan"]
    clusters = cluster("hdbscan", None, points[:200])
    build = partial(component.estimator, component.params, None)
    joined = component.assign(build, points[:200], clusters, points[200:])
    assert set(joined[joined >= 0]) == set(clusters[clusters >= 0]) and len(set(clusters[clusters >= 0])) == 4
    assert adjusted_rand_score(gold[200:], joined) > 0.9


@pytest.mark.slow
def test_umap_places_new_texts_where_it_can(blobs):
    known, new = blobs[0][:250], blobs[0][250:]
    assert Umap(knn="approximate", random_state=0).fit(known).transform(new).shape == (50, 2)
    for fitted in (Umap(knn="exact", random_state=0).fit(known), Umap(knn="approximate").fit(known[:2])):
        assert fitted.transform(new).shape == (50, 2)
        # a text that it was fitted on stays where it is
        assert np.abs(fitted.transform(fitted.fitted_X_) - fitted.embedding_).max() < 1e-2


def test_exact_neighbors_are_exact(blobs):
    indices, distances = find_neighbors_by(blobs[0], 15, "cosine")
    expected = np.sort(cosine_distances(blobs[0]), axis=1)[:, :15]
    assert distances == pytest.approx(expected, abs=1e-5)
    assert (indices[:, 0] == np.arange(300)).all()


@given(
    n=st.integers(2, 400),
    d=st.integers(1, 40),
    k=st.integers(2, 30),
    seed=st.integers(0, 1000),
    normalized=st.booleans(),
)
def test_the_faster_kmeans_plus_plus_picks_the_centers_that_scikit_learn_picks(n, d, k, seed, normalized):
    rng = np.random.default_rng(seed)
    points = (rng.normal(size=(5, d))[rng.integers(0, 5, n)] + rng.normal(size=(n, d))).astype(np.float32)
    if normalized:
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    k = min(k, n)
    expected, _ = kmeans_plusplus(points, k, random_state=seed)
    assert np.array_equal(plus_plus(points, k, np.random.RandomState(seed)), expected)


def test_minibatch_kmeans_is_scikit_learns():
    points = np.random.default_rng(0).normal(size=(900, 24)).astype(np.float32)
    ours = cluster("minibatch_kmeans", {"batch_size": 500}, points, 9, 42)
    theirs = MiniBatchKMeans(9, batch_size=500, n_init="auto", random_state=42).fit_predict(points)
    assert np.array_equal(ours, theirs)
