"""Reducers and clusterers, and the methods that combine them.

The components that come with Traube are the modules of `traube.components._registered`; plug-ins register theirs in a
module `methods`. Code that transforms vectors belongs here; code that makes vectors
does not.
"""

from traube.components._apply import Fitted, bytes_needed, reduce
from traube.components._components import (
    CLUSTERERS,
    REDUCERS,
    Component,
    get_clusterer,
    get_reducer,
    register_clusterer,
    register_reducer,
)
from traube.components._fit import fit
from traube.components._method import Method, grid, parse_method
from traube.components._stability import choose_stable_k
from traube.components._views import DistanceView, TextView, VectorView, View

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
