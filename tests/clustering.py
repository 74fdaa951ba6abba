"""Clusterers on vectors, in a line of a test."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traube.components import VectorView, get_clusterer
from traube.components.fitting import fit_clusterer


def cluster(
    clusterer: str,
    params: Mapping[str, Any] | None,
    X: Any,
    k: int | None = None,
    seed: int | None = None,
    memory: int | None = None,
) -> NDArray[np.int64]:
    """The labels; k is of those clusterers that need it."""
    n_clusters = k if get_clusterer(clusterer).n_clusters == "given" else None
    return fit_clusterer(clusterer, params, VectorView(X), n_clusters, seed, memory).labels
