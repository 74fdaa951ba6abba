"""Reducers and clusterers, and the methods they make up.

The defaults below are the parameters of protocol `paper`: those of the German benchmark's code (Wehrli et al. 2023).
Every parameter that may be set is listed: another name is an error.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from traube.methods.apply import cluster, reduce
from traube.methods.method import Method, grid, parse_method
from traube.methods.number_of_clusters import choose_k
from traube.methods.parts import (
    CLUSTERERS,
    NUMERICAL,
    REDUCERS,
    Part,
    get_clusterer,
    get_reducer,
    register_clusterer,
    register_reducer,
)

__all__ = [
    "CLUSTERERS",
    "REDUCERS",
    "Method",
    "Part",
    "choose_k",
    "cluster",
    "get_clusterer",
    "get_reducer",
    "grid",
    "parse_method",
    "reduce",
    "register_clusterer",
    "register_reducer",
]

UMAP = {
    "n_components": 2,
    "n_neighbors": 15,
    "metric": "cosine",
    "min_dist": 0.1,
    "spread": 1.0,
    "n_epochs": None,
    "init": "spectral",
    "knn": "exact",
}
KMEANS = {"init": "k-means++", "n_init": "auto"}
LLOYD = {"max_iter": 300, "tol": 1e-4, "algorithm": "lloyd"}
MINIBATCH = {"batch_size": 500, "max_iter": 100, "max_no_improvement": 10, "reassignment_ratio": 0.01}
HDBSCAN = {
    "min_cluster_size": 5,
    "min_samples": None,
    "metric": "euclidean",
    "alpha": 1.0,
    "cluster_selection_method": "eom",
    "cluster_selection_epsilon": 0.0,
    "allow_single_cluster": False,
}
DBSTREAM = {
    "clustering_threshold": 1.0,
    "fading_factor": 0.01,
    "cleanup_interval": 2,
    "intersection_factor": 0.3,
    "minimum_weight": 1.0,
}

WARD = {"linkage": "ward", "metric": "euclidean"}
AVERAGE = {"linkage": "average", "metric": "euclidean"}
COSINE = {"linkage": "average", "metric": "cosine"}


def _lazy(module: str, name: str) -> Callable[..., Any]:
    """An estimator's class, imported when one is built: scikit-learn alone takes a second, and lists need no estimators."""

    def build(**params: Any) -> Any:
        return getattr(import_module(f"traube.methods.{module}"), name)(**params)

    return build


def _reducer(
    name: str, build: str, params: Mapping[str, Any], *, seeded: bool = True, libraries: tuple[str, ...] = NUMERICAL
) -> None:
    register_reducer(name, _lazy("reducers", build), params, seeded=seeded, dense=False, libraries=libraries)


def _clusterer(
    name: str, build: str, params: Mapping[str, Any], *, takes_k: bool, seeded: bool = False, **more: Any
) -> None:
    register_clusterer(name, _lazy("clusterers", build), params, takes_k=takes_k, seeded=seeded, **more)


UMAP_LIBRARIES = (*NUMERICAL, "umap-learn", "numba")

_reducer("none", "Identity", {}, seeded=False, libraries=())
_reducer("pca", "Pca", {"n_components": 2})
_reducer("umap", "Umap", UMAP, libraries=UMAP_LIBRARIES)
_reducer("pca+umap", "pca_umap", {"pca_components": 50, **UMAP}, libraries=UMAP_LIBRARIES)

_clusterer("minibatch_kmeans", "minibatch_kmeans", {**KMEANS, **MINIBATCH}, takes_k=True, seeded=True, dense=False)
_clusterer("kmeans", "kmeans", {**KMEANS, **LLOYD}, takes_k=True, seeded=True, dense=False)
_clusterer("agglomerative", "Agglomerative", WARD, takes_k=True, quadratic=True, dense=False)
_clusterer("agglomerative_average", "Agglomerative", AVERAGE, takes_k=True, quadratic=True, dense=False)
_clusterer("agglomerative_cosine", "Agglomerative", COSINE, takes_k=True, quadratic=True, dense=False, needs="vectors")
_clusterer("agglomerative_knn", "AgglomerativeKnn", {"n_neighbors": 15}, takes_k=True)
_clusterer("hdbscan", "hdbscan", HDBSCAN, takes_k=False, needs="reduced", libraries=(*NUMERICAL, "hdbscan"))
_clusterer("dbstream", "DBStream", DBSTREAM, takes_k=False, needs="reduced", libraries=(*NUMERICAL, "river"))

# Methods of other packages: an entry point of this group names a module that registers them when it is imported.
for entry in entry_points(group="traube.methods"):
    entry.load()
