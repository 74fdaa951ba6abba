"""DBSTREAM."""

from traube.components.components import NUMERICAL, LazyEstimator, register_clusterer
from traube.components.limits import NotNegative, Positive

PARAMS = {
    "clustering_threshold": 1.0,
    "fading_factor": 0.01,
    "cleanup_interval": 2,
    "intersection_factor": 0.3,
    "minimum_weight": 1.0,
}
TYPES = {name: NotNegative if name == "minimum_weight" else Positive for name in PARAMS}


register_clusterer(
    "dbstream",
    LazyEstimator("traube.components.estimators.clusterers", "DBStream"),
    PARAMS,
    takes_k=False,
    seeded=False,
    input_kind="reduced",
    libraries=(*NUMERICAL, "river"),
    types=TYPES,
)
