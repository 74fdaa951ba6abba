"""Iterative classification over another clusterer's clusters."""

from typing import Any, Literal

from traube.components.components import NUMERICAL, LazyEstimator, get_clusterer, register_clusterer
from traube.components.limits import Count, NotNegative, PartOf, Share

PARAMS = {"start": "kmeans", "iterations": 50, "least": 0.5, "most": 0.95, "outliers": 0.1, "steady": 0.05}
TYPES: dict[str, Any] = {
    "start": Literal["kmeans", "minibatch_kmeans", "agglomerative", "agglomerative_average", "agglomerative_cosine"],
    "iterations": Count,
    "least": Share,
    "most": Share,
    "outliers": PartOf,
    "steady": NotNegative,
}

register_clusterer(
    "ecic",
    LazyEstimator("traube.components.estimators.ecic", "IterativeClassification"),
    PARAMS,
    takes_k=True,
    seeded=True,
    dense=False,
    quadratic=lambda params: get_clusterer(params["start"]).holds_distances({}),  # as its start does
    libraries=(*NUMERICAL, "numba"),
    types=TYPES,
)
