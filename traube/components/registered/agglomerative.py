"""Agglomerative clustering: Ward's linkage, average linkage on two distances, and one that fits large corpora."""

from collections.abc import Mapping
from typing import Any, Literal

from traube.components.components import register_clusterer
from traube.components.limits import Count


def agglomerative(**params: Any) -> Any:
    from traube.components.estimators.clusterers import Agglomerative

    return Agglomerative(**params)


def agglomerative_knn(**params: Any) -> Any:
    from traube.components.estimators.clusterers import AgglomerativeKnn

    return AgglomerativeKnn(**params)


def by_distance(params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Linkages but Ward's, which is of vectors."""
    return None if params["linkage"] == "ward" else {**params, "metric": "precomputed"}


EXACT: dict[str, Any] = {"takes_k": True, "seeded": False, "quadratic": True, "dense": False}
EXACT["types"] = {"linkage": Literal["ward", "average", "complete", "single"], "metric": Literal["euclidean", "cosine"]}

register_clusterer(
    "agglomerative", agglomerative, {"linkage": "ward", "metric": "euclidean"}, by_distance=by_distance, **EXACT
)
register_clusterer(
    "agglomerative_average",
    agglomerative,
    {"linkage": "average", "metric": "euclidean"},
    by_distance=by_distance,
    **EXACT,
)
register_clusterer(
    "agglomerative_cosine", agglomerative, {"linkage": "average", "metric": "cosine"}, input_kind="embeddings", **EXACT
)
register_clusterer(
    "agglomerative_knn",
    agglomerative_knn,
    {"n_neighbors": 15},
    takes_k=True,
    seeded=False,
    types={"n_neighbors": Count},
)
