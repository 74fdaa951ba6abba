"""DBSTREAM."""

from typing import Any

from traube.components.components import NUMERICAL, register_clusterer
from traube.components.limits import NotNegative, Positive

PARAMS = {
    "clustering_threshold": 1.0,
    "fading_factor": 0.01,
    "cleanup_interval": 2,
    "intersection_factor": 0.3,
    "minimum_weight": 1.0,
}
TYPES = {name: NotNegative if name == "minimum_weight" else Positive for name in PARAMS}


def dbstream(**params: Any) -> Any:
    from traube.components.estimators.clusterers import DBStream

    return DBStream(**params)


register_clusterer(
    "dbstream",
    dbstream,
    PARAMS,
    takes_k=False,
    seeded=False,
    input_kind="reduced",
    libraries=(*NUMERICAL, "river"),
    types=TYPES,
)
