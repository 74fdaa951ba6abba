"""Agglomerative clustering: Ward's linkage, average linkage on two distances, and one that fits large corpora."""

from collections.abc import Mapping
from typing import Any, Literal

from traube.components.limits import Count
from traube.components.registry import LazyEstimator, register_clusterer


def by_distance(params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the arguments for clustering by distances.

    Ward's linkage returns None, because it is defined on vectors.
    """
    return None if params["linkage"] == "ward" else {**params, "metric": "precomputed"}


EXACT = LazyEstimator("traube.components.estimators.clusterers", "Agglomerative")
OF_EXACT: dict[str, Any] = {"n_clusters": "given", "seeded": False, "quadratic": True, "dense": False}
OF_EXACT["types"] = {
    "linkage": Literal["ward", "average", "complete", "single"],
    "metric": Literal["euclidean", "cosine"],
}

register_clusterer(
    "agglomerative", EXACT, {"linkage": "ward", "metric": "euclidean"}, by_distance=by_distance, **OF_EXACT
)
register_clusterer(
    "agglomerative_average", EXACT, {"linkage": "average", "metric": "euclidean"}, by_distance=by_distance, **OF_EXACT
)
register_clusterer(
    "agglomerative_cosine", EXACT, {"linkage": "average", "metric": "cosine"}, input_kind="embeddings", **OF_EXACT
)

KNN = LazyEstimator("traube.components.estimators.clusterers", "AgglomerativeKnn")
register_clusterer(
    "agglomerative_knn", KNN, {"n_neighbors": 15}, n_clusters="given", seeded=False, types={"n_neighbors": Count}
)
