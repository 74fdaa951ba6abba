"""k-means that finds the number of clusters by itself."""

from traube.components.components import LazyEstimator, register_clusterer
from traube.components.limits import Several

register_clusterer(
    "stable_kmeans",
    LazyEstimator("traube.components.estimators.stable_kmeans", "StableKMeans"),
    {"n_neighbors": 14},
    takes_k=False,
    finds_k=True,
    seeded=True,
    dense=False,
    version="2",  # more samples of few clusters, an even window, a sample of many vectors
    types={"n_neighbors": Several},
)
