"""Deep clusterers, which train on the texts of one clustering problem, without labels, and group them.

`clusterers/` holds them, discovered by the package; `clusterer` defines their base class and trains; the other
modules are their parts. They are clusterers of the grid like any other (`traube.components`); the pipeline runs them.
"""

from typing import Any

from traube._core.plugins import modules_of
from traube.components._deep import clusterers
from traube.components._deep.clusterer import DeepClusterer, DeepRecipe, Entry, is_collapsed

__all__ = ["DEEP", "DeepClusterer", "DeepRecipe", "Entry", "is_collapsed"]


DEEP: dict[str, type[DeepClusterer[Any]]] = {
    module.CLUSTERER.name: module.CLUSTERER for module in modules_of(clusterers)
}
