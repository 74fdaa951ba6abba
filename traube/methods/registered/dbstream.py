"""DBSTREAM."""

from typing import Any

from traube.methods.limits import NotNegative, Positive
from traube.methods.parts import NUMERICAL, register_clusterer

PARAMS = {
    "clustering_threshold": 1.0,
    "fading_factor": 0.01,
    "cleanup_interval": 2,
    "intersection_factor": 0.3,
    "minimum_weight": 1.0,
}
TYPES = {name: NotNegative if name == "minimum_weight" else Positive for name in PARAMS}


def dbstream(**params: Any) -> Any:
    from traube.methods.estimators.clusterers import DBStream

    return DBStream(**params)


register_clusterer(
    "dbstream",
    dbstream,
    PARAMS,
    takes_k=False,
    seeded=False,
    needs="reduced",
    libraries=(*NUMERICAL, "river"),
    types=TYPES,
)
