"""The k-means family: Lloyd's algorithm, mini-batches, and one that finds the number of clusters by itself."""

from typing import Any, Literal

from traube.components.limits import Count, NotNegative, Several, Share, with_limits
from traube.components.registry import LazyEstimator, register_clusterer

START = {"init": ("k-means++", Literal["k-means++", "random"]), "n_init": ("auto", Literal["auto"] | Count)}
LLOYD = {"max_iter": (300, Count), "tol": (1e-4, NotNegative), "algorithm": ("lloyd", Literal["lloyd", "elkan"])}
MINIBATCH = {
    "batch_size": (500, Count),
    "max_iter": (100, Count),
    "max_no_improvement": (10, Count | None),
    "reassignment_ratio": (0.01, Share),
}


def minibatch_kmeans(**params: Any) -> Any:
    """Return mini-batch k-means with these parameters, and a faster k-means++ of the same centers."""
    from sklearn.cluster import MiniBatchKMeans

    from traube.components.estimators.clusterers import plus_plus

    if params.get("init") == "k-means++" and params.get("n_init") in (1, "auto"):
        # "auto" is one start, but three for an init that is a function
        params |= {"init": plus_plus, "n_init": 1}
    return MiniBatchKMeans(**params)


# seconds: measured at 2,000 to 10,000 texts in 250 to 2,000 clusters, of vectors of 384 dimensions and of TF-IDF
OF_BOTH: dict[str, Any] = {"n_clusters": "given", "seeded": True, "dense": False}
KMEANS = LazyEstimator("sklearn.cluster", "KMeans")
register_clusterer("kmeans", KMEANS, **with_limits(START | LLOYD), seconds=(6.5e-7, 6e-6), **OF_BOTH)
register_clusterer(
    "minibatch_kmeans", minibatch_kmeans, **with_limits(START | MINIBATCH), seconds=(4e-7, 4e-6), **OF_BOTH
)

register_clusterer(
    "stable_kmeans",
    LazyEstimator("traube.components.estimators.stable_kmeans", "StableKMeans"),
    {"n_neighbors": 14},
    n_clusters="optional",
    finds_k=True,
    reports_layers=True,
    seeded=True,
    dense=False,
    version="4",  # stability of bootstraps of micro clusters, the middle of the best numbers
    types={"n_neighbors": Several},
)
