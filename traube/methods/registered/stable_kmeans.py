"""k-means that finds the number of clusters by itself."""

from typing import Any

from traube.methods.limits import Several
from traube.methods.parts import register_clusterer


def stable_kmeans(**params: Any) -> Any:
    from traube.methods.estimators.stable_kmeans import StableKMeans

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
