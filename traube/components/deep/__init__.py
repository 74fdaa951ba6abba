"""Deep clusterers, which train on the texts of one clustering problem, without labels, and group them.

`clusterer` defines their base class and trains; the other modules are its parts. They are clusterers of the grid like any
other (`traube.components`), which plug-ins register; the pipeline runs them.
"""

from typing import Any

from traube._core.plugins import Registry
from traube.components.deep.clusterer import LIBRARIES, DeepClusterer, DeepRecipe, Entry, is_collapsed
from traube.components.registry import METHODS, register_clusterer

__all__ = ["DEEP", "DeepClusterer", "DeepRecipe", "Entry", "is_collapsed", "register_deep_clusterer"]

DEEP: Registry[type[DeepClusterer[Any]]] = Registry(METHODS)


def register_deep_clusterer(clusterer: type[DeepClusterer[Any]]) -> None:
    """Add a deep clusterer to the clusterers; the values of its recipe are the method's parameters."""
    register_clusterer(
        clusterer.name,
        clusterer.with_values,
        clusterer.defaults.model_dump(mode="json"),
        n_clusters="given",
        seeded=True,
        input_kind="encoder",
        version=clusterer.version,
        libraries=LIBRARIES,
        types=clusterer.types(),
    )
    DEEP[clusterer.name] = clusterer
