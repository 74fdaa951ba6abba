"""Reducers and clusterers, and the methods that combine them.

The components that come with Traube are the modules of `traube.components._registered`; plug-ins register theirs in a
module `methods`. Code that transforms vectors belongs here; code that makes vectors
does not.
"""

from traube.components._apply import bytes_needed, cluster, cluster_by_distance, cluster_by_text, reduce
from traube.components._components import (
    CLUSTERERS,
    REDUCERS,
    Component,
    get_clusterer,
    get_reducer,
    register_clusterer,
    register_reducer,
)
from traube.components._method import Method, grid, parse_method
from traube.components._number_of_clusters import choose_k, choose_k_by_distance
from traube.components._stability import choose_stable_k

__all__ = [
    "CLUSTERERS",
    "REDUCERS",
    "Component",
    "Method",
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
