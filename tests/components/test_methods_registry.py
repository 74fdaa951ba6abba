import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.cluster import Birch
from sklearn.decomposition import FastICA

from tests.clustering import cluster
from tests.errors import Refusal, refused
from traube._core.errors import Conflict, Invalid, Unknown
from traube.components import (
    CLUSTERERS,
    REDUCERS,
    Method,
    grid,
    parse_method,
    reduce,
    register_clusterer,
    register_reducer,
)
from traube.components.deep import DEEP, is_collapsed
from traube.components.estimators.clusterers import plus_plus
from traube.components.method import is_method


@pytest.fixture(autouse=True)
def _registries_as_before() -> Iterator[None]:
    before = dict(REDUCERS), dict(CLUSTERERS)
    yield
    for registry, components in zip((REDUCERS, CLUSTERERS), before, strict=True):
        registry.clear()
        registry.update(components)


def built(component, **given):
    return component.build(**component.params, **given)


# without the estimators that other tests of this process passed to `evaluate`
SHIPPED = {name: clusterer for name, clusterer in CLUSTERERS.items() if not name.startswith("own.")}


def test_what_there_is():
    assert list(REDUCERS) == ["none", "pca", "umap", "pca+umap"]
    linkages = {"agglomerative", "agglomerative_average", "agglomerative_cosine", "agglomerative_knn"}
    means = {"kmeans", "minibatch_kmeans", "stable_kmeans"}
    assert {*SHIPPED} - {*DEEP} == {*linkages, *means, "dbstream", "ecic", "evoc", "gsdmm", "hdbscan"}
    assert list(DEEP) == ["aecl", "rstc", "sccl", "self_train", "stcc"]
    assert {name for name, component in CLUSTERERS.items() if component.input_kind == "encoder"} == set(DEEP)


# The parameters of protocol `paper` (traube/papers/german), as the estimators that come out have them.
PAPER = {
    "minibatch_kmeans": {
        "batch_size": 500,
        "n_init": 1,  # what "auto" is with
        "init": plus_plus,  # scikit-learn's own k-means++, faster: test_methods_apply.py
        "max_iter": 100,
        "max_no_improvement": 10,
        "reassignment_ratio": 0.01,
    },
    "agglomerative": {"linkage": "ward", "metric": "euclidean"},
    "hdbscan": {
        "min_cluster_size": 5,
        "min_samples": None,
        "metric": "euclidean",
        "cluster_selection_method": "eom",
        "alpha": 1.0,
        "cluster_selection_epsilon": 0.0,
        "allow_single_cluster": False,
    },
    "dbstream": {
        "clustering_threshold": 1.0,
        "fading_factor": 0.01,
        "cleanup_interval": 2,
        "intersection_factor": 0.3,
        "minimum_weight": 1.0,
    },
    "pca": {"n_components": 2},
    "umap": {"n_components": 2, "metric": "cosine", "n_neighbors": 15, "min_dist": 0.1, "init": "spectral"},
}


@pytest.mark.parametrize("name", PAPER)
def test_defaults_are_those_of_the_paper(name):
    component = {**REDUCERS, **CLUSTERERS}[name]
    params = built(component).get_params()
    assert {key: params[key] for key in PAPER[name]} == PAPER[name]


@pytest.mark.parametrize("name", ["minibatch_kmeans", "kmeans", "hdbscan", "agglomerative_knn", "stable_kmeans"])
def test_a_listed_default_is_the_librarys_but_where_the_paper_departs(name):
    component = CLUSTERERS[name]
    library = type(built(component))().get_params()
    departs = {key for key, value in component.params.items() if library[key] != value}
    assert departs == ({"batch_size"} if name == "minibatch_kmeans" else set())


def test_pca_umap_is_fifty_components_then_umap():
    first, second = (step for _, step in built(REDUCERS["pca+umap"], random_state=3).steps)
    assert (first.n_components, first.random_state) == (50, 3)
    assert (second.metric, second.n_components, second.random_state) == ("cosine", 2, 3)


@pytest.mark.parametrize("name", [*REDUCERS, *(name for name in CLUSTERERS if name not in DEEP)])
def test_every_part_is_a_scikit_learn_estimator(name):
    estimator = built({**REDUCERS, **CLUSTERERS}[name])
    again = clone(estimator)
    assert repr(again) == repr(estimator)


def test_who_takes_k_and_sparse_vectors_and_who_is_seeded():
    finds_k = {p.name for p in SHIPPED.values() if p.n_clusters != "given"}
    assert finds_k == {"hdbscan", "dbstream", "evoc", "gsdmm", "stable_kmeans"}
    linkages = {"agglomerative", "agglomerative_average", "agglomerative_cosine"}
    takes_sparse = {p.name for p in SHIPPED.values() if not p.dense}
    assert takes_sparse == {*linkages, "kmeans", "minibatch_kmeans", "stable_kmeans", "ecic"}
    seeded = {p.name for p in [*REDUCERS.values(), *SHIPPED.values()] if p.seeded}
    means = {"kmeans", "minibatch_kmeans", "stable_kmeans"}
    assert seeded == {"pca", "umap", "pca+umap", *means, "gsdmm", "ecic", "evoc", *DEEP}


def test_parse_method():
    method = parse_method("pca+umap/hdbscan", {"pca+umap": {"n_neighbors": 5}, "kmeans": {"n_init": 3}})
    assert (method.reducer, method.clusterer, method.name) == ("pca+umap", "hdbscan", "pca+umap/hdbscan")
    assert method.reducer_params["n_neighbors"] == 5
    assert method.clusterer_params == CLUSTERERS["hdbscan"].params


@pytest.mark.parametrize("written", ["kmeans", "KMeans", "none/KMEANS", "None/kmeans"])
def test_a_method_may_be_written_in_any_case_and_without_the_reducer_that_reduces_nothing(written: str) -> None:
    assert parse_method(written) == parse_method("none/kmeans")
    assert is_method("none/kmeans", written) and not is_method("pca/kmeans", written)


@pytest.mark.parametrize(
    ("name", "params", "refusal"),
    [
        ("none/kmean", None, (Unknown, "kmeans")),
        ("nune/kmeans", None, (Unknown, "nune", "none")),
        ("kmean", None, (Unknown, "kmeans")),
        ("none+kmeans", None, (Unknown, "none+kmeans", "kmeans")),
        ("none/kmeans", {"kmean": {}}, (Unknown, "kmean")),
        ("none/kmeans", {"kmeans": {"max_itr": 3}}, (Unknown, "max_itr", "max_iter", "kmeans")),
        ("none/kmeans", {"kmeans": {"n_clusters": 3}}, (Invalid, "n_clusters")),
        ("pca/kmeans", {"pca": {"random_state": 3}}, (Invalid, "random_state")),
        ("none/kmeans", {"kmeans": {"tol": {1}}}, (Invalid, "kmeans")),
        ("none/kmeans", {"kmeans": {"tol": float("nan")}}, (Invalid, "kmeans")),
        ("none/kmeans", {"kmeans": {"n_init": -1}}, (Invalid, "kmeans", "-1", "auto", "n_init")),
        ("none/kmeans", {"kmeans": {"max_iter": True}}, (Invalid, "kmeans", "True", "max_iter")),
        ("none/kmeans", {"kmeans": {"algorithm": "fast"}}, (Invalid, "kmeans", "fast", "lloyd")),
        ("umap/kmeans", {"umap": {"n_neighbors": 1}}, (Invalid, "umap", 1, "n_neighbors", 2)),
        ("umap/hdbscan", {"hdbscan": {"min_cluster_size": 10**30}}, (Invalid, "hdbscan", "min_cluster_size")),
        ("umap/hdbscan", {"hdbscan": {"min_cluster_size": 1}}, (Invalid, "hdbscan", 1, "min_cluster_size")),
        ("pca/dbstream", {"dbstream": {"fading_factor": 0}}, (Invalid, "dbstream", "0.0", "fading_factor")),
    ],
)
def test_parse_method_refuses(name, params, refusal: Refusal):
    with refused(*refusal):
        parse_method(name, params)


@pytest.mark.parametrize("component", [*REDUCERS.values(), *CLUSTERERS.values()], ids=lambda component: component.name)
def test_every_default_is_within_its_limits(component):
    assert component.params.keys() <= component.types.keys()
    assert component.resolve(component.params) == component.params


def test_params_identify_a_method():
    method = parse_method("umap/kmeans", {"kmeans": {"tol": 1e-3}})
    params = method.params()
    assert json.loads(json.dumps(params)) == params
    assert params["clusterer_params"] == {**CLUSTERERS["kmeans"].params, "tol": 1e-3}
    assert params["reducer_params"] == REDUCERS["umap"].params
    assert params != parse_method("umap/kmeans").params()
    assert Method("none", "kmeans", {}, {"max_iter": 300}) == Method("none", "kmeans")
    assert len({Method("none", "kmeans", {}, {"max_iter": 300}), Method("none", "kmeans")}) == 1
    parse_method("none/kmeans").params()["clusterer_params"]["max_iter"] = 1
    assert CLUSTERERS["kmeans"].params["max_iter"] == 300


def test_grid_is_every_pair_with_its_parameters_and_unsupported_ones_say_why():
    methods = grid(REDUCERS, CLUSTERERS)
    assert len({m.name for m in methods}) == len(REDUCERS) * len(CLUSTERERS)
    reasons = {m.name: m.unsupported() for m in methods}
    on_texts = {f"{reducer}/{name}" for reducer in REDUCERS if reducer != "none" for name in ("gsdmm", *DEEP)}
    assert {name for name, reason in reasons.items() if reason} - on_texts == {
        "none/hdbscan",
        "none/dbstream",
        *(
            f"{reducer}/{name}"
            for reducer in REDUCERS
            if reducer != "none"
            for name in ("agglomerative_cosine", "evoc")
        ),
    }
    assert "umap/hdbscan" in reasons["none/hdbscan"]
    assert "directions" in reasons["umap/agglomerative_cosine"]
    (method,) = grid(["none"], iter(["kmeans"]), {"kmeans": {"max_iter": 7}})
    assert method.clusterer_params["max_iter"] == 7


def test_a_users_own_clusterer_and_reducer(blobs):
    vectors, _ = blobs
    component = register_clusterer("birch", Birch, {"threshold": 0.1})
    assert (component.n_clusters, component.seeded, component.params) == ("given", False, {"threshold": 0.1})
    assert register_reducer("ica", FastICA, {"n_components": 3}).seeded
    method = parse_method("ica/birch", {"birch": {"threshold": 0.05}})
    coordinates = reduce("ica", method.reducer_params, vectors, seed=0)
    assert coordinates.shape == (300, 3)
    assert len(set(cluster("birch", method.clusterer_params, coordinates, k=4, seed=0))) == 4


def test_parameters_come_from_the_signature_where_not_given():
    class Halves(ClusterMixin, BaseEstimator):
        def __init__(self, n_clusters=2, random_state=None, at=0.5):
            self.at = at

    component = register_clusterer("halves", Halves, input_kind="reduced")
    assert (component.params, component.n_clusters, component.seeded) == ({"at": 0.5}, "given", True)
    assert parse_method("none/halves").unsupported()


@pytest.mark.parametrize(
    ("name", "params", "refusal"),
    [
        ("kmeans", {}, (Conflict, "kmeans")),
        ("umap", {}, (Conflict, "umap")),
        ("my/birch", {}, (Invalid, "my/birch")),
        ("Birch", {}, (Invalid, "Birch")),
        ("", {}, (Invalid,)),
        ("birch", {"threshold": object()}, (Invalid, "birch")),
    ],
)
def test_register_refuses(name, params, refusal: Refusal):
    with refused(*refusal):
        register_clusterer(name, Birch, params)


def test_replace_is_for_the_same_kind_only():
    register_clusterer("birch", Birch, {})
    assert register_clusterer("birch", Birch, {"threshold": 1}, replace=True) is CLUSTERERS["birch"]
    with refused(Conflict, "birch"):
        register_reducer("birch", FastICA, {}, replace=True)


def test_importing_the_methods_imports_nothing_heavy():
    heavy = ("umap", "hdbscan", "river", "numba", "torch", "sklearn.cluster", "sklearn.decomposition")
    code = f"import sys, traube.components; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "reducer_seeded", "seeded"),
    [("none/kmeans", False, True), ("umap/hdbscan", True, True), ("none/agglomerative", False, False)],
)
def test_a_method_is_seeded_if_one_of_its_parts_is(name, reducer_seeded, seeded):
    method = parse_method(name)
    assert (method.reducer_seeded, method.seeded) == (reducer_seeded, seeded)


def test_one_number_is_one_parameter_however_it_is_written():
    """1 and 1.0 gave two ids, and two rows, for one method."""
    assert parse_method("umap/kmeans", {"umap": {"spread": 1}}).params() == parse_method("umap/kmeans").params()
    whole = parse_method("umap/kmeans", {"umap": {"n_neighbors": 15.0}}).params()["reducer_params"]["n_neighbors"]
    assert (whole, type(whole)) == (15, int)
    # where the default is no number, 1 may be a count and 1.0 a share
    register_clusterer("own", Birch, {"threshold": None})
    kept = parse_method("pca/own", {"own": {"threshold": 5.0}}).params()["clusterer_params"]["threshold"]
    assert type(kept) is float
    assert parse_method("none/kmeans", {"kmeans": {"tol": 0.5}}).params()["clusterer_params"]["tol"] == 0.5
    flag = parse_method("pca/hdbscan", {"hdbscan": {"allow_single_cluster": True}}).params()
    assert flag["clusterer_params"]["allow_single_cluster"] is True


def test_two_classes_under_one_name_are_two_parts():
    from sklearn.cluster import Birch, BisectingKMeans

    found = []
    for build, version in ((Birch, "1"), (BisectingKMeans, "1"), (Birch, "2")):
        register_clusterer("mine", build, {}, n_clusters="given", version=version, replace=True)
        found.append(parse_method("none/mine").numerics["clusterer"])
    assert found[0] != found[1]
    assert found[0] != found[2]
    register_clusterer("mine", Birch, {}, n_clusters="given", replace=True)
    assert parse_method("none/mine").numerics["clusterer"] == found[0]


@pytest.mark.parametrize(("labels", "collapsed"), [([0, 0, 0], True), ([0, 1, 0], False), ([0], False), ([], False)])
def test_several_texts_in_one_cluster_are_collapsed(labels: list[int], collapsed: bool) -> None:
    assert is_collapsed(np.array(labels, dtype=np.int64)) == collapsed
