"""Deep clusterers: they train on the texts of one clustering problem, without labels, and group
them.

`clusterers/` holds them, found by themselves; `clusterer` says what one is, and trains; `work` is
what a stopped training goes on from; `encoding`, `networks`, `losses`, `grouping` and
`augmentation` are what they are made of. They are clusterers of the grid like any other
(`traube.methods`); running them is the engine's.
"""

from typing import Any

from traube.deep import clusterers
from traube.deep.clusterer import DeepClusterer, DeepRecipe, Entry, collapsed
from traube.foundation.plugins import modules_of

__all__ = ["DEEP", "DeepClusterer", "DeepRecipe", "Entry", "collapsed", "find_deep_clusterers"]


def find_deep_clusterers() -> dict[str, type[DeepClusterer[Any]]]:
    """Return the deep clusterers of the folder `clusterers` by name."""
    return {module.CLUSTERER.name: module.CLUSTERER for module in modules_of(clusterers)}


DEEP = find_deep_clusterers()
