"""DBSTREAM."""

from traube.components.limits import NotNegative, Positive, with_limits
from traube.components.registry import NUMERICAL, LazyEstimator, register_clusterer

VALUES = {
    "clustering_threshold": (1.0, Positive),
    "fading_factor": (0.01, Positive),
    "cleanup_interval": (2, Positive),
    "intersection_factor": (0.3, Positive),
    "minimum_weight": (1.0, NotNegative),
}

register_clusterer(
    "dbstream",
    LazyEstimator("traube.papers.german.dbstream", "DBStream"),
    **with_limits(VALUES),
    n_clusters="found",
    seeded=False,
    input_kind="reduced",
    libraries=(*NUMERICAL, "river"),
)
