"""EVoC, embedding vector oriented clustering: layers of dense regions in a graph of nearest neighbors."""

from traube.components.limits import Count, NotNegative, Several, with_limits
from traube.components.registry import NUMERICAL, LazyEstimator, register_clusterer

VALUES = {
    "noise_level": (0.5, NotNegative),
    "base_min_cluster_size": (5, Several),
    "n_neighbors": (15, Several),
    "min_samples": (5, Count),
    "n_epochs": (50, Count),
}

register_clusterer(
    "evoc",
    LazyEstimator("traube.components.estimators.evoc", "Evoc"),
    **with_limits(VALUES),
    n_clusters="found",
    finds_k=True,
    seeded=True,
    input_kind="embeddings",
    libraries=(*NUMERICAL, "evoc", "numba"),
)
