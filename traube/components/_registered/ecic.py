"""Iterative classification over another clusterer's clusters."""

from typing import Literal

from traube.components._components import NUMERICAL, LazyEstimator, get_clusterer, register_clusterer
from traube.components._limits import Count, NotNegative, PartOf, Share, with_limits

Start = Literal["kmeans", "minibatch_kmeans", "agglomerative", "agglomerative_average", "agglomerative_cosine"]
VALUES = {
    "start": ("kmeans", Start),
    "iterations": (50, Count),
    "least": (0.5, Share),
    "most": (0.95, Share),
    "outliers": (0.1, PartOf),
    "steady": (0.05, NotNegative),
}

register_clusterer(
    "ecic",
    LazyEstimator("traube.components._estimators.ecic", "IterativeClassification"),
    **with_limits(VALUES),
    n_clusters="given",
    seeded=True,
    dense=False,
    quadratic=lambda params: get_clusterer(params["start"]).holds_distances({}),  # as its start does
    libraries=(*NUMERICAL, "numba"),
)
