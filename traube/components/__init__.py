"""Reducers and clusterers, and the methods that combine them.

The components that come with Traube are the modules of `traube.components.registered`; plug-ins register theirs in a
module `methods`. Code that transforms vectors belongs here; code that makes vectors
does not.

Other rooms import what is listed here, and the modules without an underscore.
"""

from traube.components.apply import Fitted, bytes_needed, reduce
from traube.components.fitting import fit
from traube.components.method import Method, grid, parse_method
from traube.components.registry import (
    CLUSTERERS,
    REDUCERS,
    Component,
    get_clusterer,
    get_reducer,
    register_clusterer,
    register_reducer,
)
from traube.components.stability import choose_stable_k
from traube.components.views import DistanceView, TextView, VectorView, View

__all__ = [
    "CLUSTERERS",
    "REDUCERS",
    "Component",
    "DistanceView",
    "Fitted",
    "Method",
    "TextView",
    "VectorView",
    "View",
    "bytes_needed",
    "choose_stable_k",
    "fit",
    "get_clusterer",
    "get_reducer",
    "grid",
    "parse_method",
    "reduce",
    "register_clusterer",
    "register_reducer",
]
