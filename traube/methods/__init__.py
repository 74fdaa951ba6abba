"""Reducers and clusterers, and the methods they make up.

Those that come with Traube are the modules of `traube.methods.registered`; other packages register
theirs through the entry point group `traube.methods`. What is done to vectors belongs here; where
vectors come from does not.
"""

from importlib.metadata import entry_points

from traube.foundation.plugins import modules_of
from traube.methods import registered
from traube.methods.apply import bytes_needed, cluster, cluster_by_distance, cluster_by_text, reduce
from traube.methods.method import Method, grid, parse_method
from traube.methods.number_of_clusters import choose_k, choose_k_by_distance
from traube.methods.parts import (
    CLUSTERERS,
    REDUCERS,
    Part,
    get_clusterer,
    get_reducer,
    register_clusterer,
    register_reducer,
)
from traube.methods.stability import choose_stable_k

__all__ = [
    "CLUSTERERS",
    "REDUCERS",
    "Method",
    "Part",
    "bytes_needed",
    "choose_k",
    "choose_k_by_distance",
    "choose_stable_k",
    "cluster",
    "cluster_by_distance",
    "cluster_by_text",
    "get_clusterer",
    "get_reducer",
    "grid",
    "parse_method",
    "reduce",
    "register_clusterer",
    "register_reducer",
]

modules_of(registered)

# Methods of other packages: an entry point of this group names a module that registers them
# when it is imported.
for entry in entry_points(group="traube.methods"):
    entry.load()
