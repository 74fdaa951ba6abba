"""k-means: Lloyd's algorithm, and mini-batches."""

from typing import Any, Literal

from traube.components.components import LazyEstimator, register_clusterer
from traube.components.limits import Count, NotNegative, Share

START = {"init": "k-means++", "n_init": "auto"}
LLOYD = {"max_iter": 300, "tol": 1e-4, "algorithm": "lloyd"}
MINIBATCH = {"batch_size": 500, "max_iter": 100, "max_no_improvement": 10, "reassignment_ratio": 0.01}
TYPES: dict[str, Any] = {
    "init": Literal["k-means++", "random"],
    "n_init": Literal["auto"] | Count,
    "max_iter": Count,
    "tol": NotNegative,
    "algorithm": Literal["lloyd", "elkan"],
    "batch_size": Count,
    "max_no_improvement": Count | None,
    "reassignment_ratio": Share,
}


def minibatch_kmeans(**params: Any) -> Any:
    from sklearn.cluster import MiniBatchKMeans

    from traube.components.estimators.clusterers import plus_plus

    if params.get("init") == "k-means++" and params.get("n_init") in (1, "auto"):
        # "auto" is one start, but three for an init that is a function
        params |= {"init": plus_plus, "n_init": 1}
    return MiniBatchKMeans(**params)


# seconds: measured at 2,000 to 10,000 texts in 250 to 2,000 clusters, of vectors of 384 dimensions and of TF-IDF
OF_BOTH: dict[str, Any] = {"takes_k": True, "seeded": True, "dense": False, "types": TYPES}
register_clusterer(
    "kmeans", LazyEstimator("sklearn.cluster", "KMeans"), {**START, **LLOYD}, seconds=(6.5e-7, 6e-6), **OF_BOTH
)
register_clusterer("minibatch_kmeans", minibatch_kmeans, {**START, **MINIBATCH}, seconds=(4e-7, 4e-6), **OF_BOTH)
