"""k-means that finds the number of clusters by itself."""

from typing import Any

from traube.components.components import register_clusterer
from traube.components.limits import Several


def stable_kmeans(**params: Any) -> Any:
    from traube.components.estimators.stable_kmeans import StableKMeans

    return StableKMeans(**params)


register_clusterer(
    "stable_kmeans",
    stable_kmeans,
    {"n_neighbors": 14},
    takes_k=False,
    finds_k=True,
    seeded=True,
    dense=False,
    version="2",  # more samples of few clusters, an even window, a sample of many vectors
    types={"n_neighbors": Several},
)
