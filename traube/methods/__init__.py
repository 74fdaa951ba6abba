"""Reducers and clusterers, and the methods they make up.

The defaults below are the parameters of protocol `paper`: those of the German benchmark's code (Wehrli et al. 2023).
Every parameter that may be set is listed: another name is an error.
"""

from importlib.metadata import entry_points

from traube.methods import clusterers, reducers
from traube.methods.apply import cluster, reduce
from traube.methods.method import Method, grid, parse_method
from traube.methods.number_of_clusters import choose_k
from traube.methods.parts import (
    CLUSTERERS,
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

register_reducer("none", reducers.Identity, {}, dense=False)
register_reducer("pca", reducers.Pca, {"n_components": 2}, dense=False)
register_reducer("umap", reducers.Umap, UMAP, dense=False)
register_reducer("pca+umap", reducers.pca_umap, {"pca_components": 50, **UMAP}, dense=False)

register_clusterer(
    "minibatch_kmeans", clusterers.minibatch_kmeans, {**KMEANS, **MINIBATCH}, takes_k=True, seeded=True, dense=False
)
register_clusterer(
    "kmeans",
    clusterers.kmeans,
    {**KMEANS, "max_iter": 300, "tol": 1e-4, "algorithm": "lloyd"},
    takes_k=True,
    seeded=True,
    dense=False,
)
WARD = {"linkage": "ward", "metric": "euclidean"}
COSINE = {"linkage": "average", "metric": "cosine"}
register_clusterer("agglomerative", clusterers.Agglomerative, WARD, quadratic=True, dense=False)
register_clusterer(
    "agglomerative_cosine", clusterers.Agglomerative, COSINE, quadratic=True, dense=False, needs="vectors"
)
register_clusterer("agglomerative_knn", clusterers.AgglomerativeKnn, {"n_neighbors": 15})
register_clusterer("hdbscan", clusterers.hdbscan, HDBSCAN, needs="reduced")
register_clusterer("dbstream", clusterers.DBStream, DBSTREAM, needs="reduced")

# Methods of other packages: an entry point of this group names a module that registers them when it is imported.
for entry in entry_points(group="traube.methods"):
    entry.load()
