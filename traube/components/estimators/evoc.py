"""EVoC, which also accepts few vectors."""

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

from traube._core.errors import Unsupported, install_hint


@dataclass(eq=False, repr=False)
class Evoc(ClusterMixin, BaseEstimator):
    """Find dense regions in a graph of nearest neighbors, as EVoC does; of fewer vectors than it can embed, all are noise.

    Parameters
    ----------
    noise_level : float, default=0.5
        Noise that is expected, from 0 to 1; with less of it more texts are in clusters.
    base_min_cluster_size : int, default=5
        Smallest cluster of the finest layer.
    n_neighbors : int, default=15
        Neighbors of each vector in the graph.
    min_samples : int, default=5
        Neighbors by which the density around a vector is measured.
    n_epochs : int, default=50
        Epochs of the embedding of the graph.
    random_state : int, optional
        Seed.

    Attributes
    ----------
    labels_ : ndarray of shape (n_texts,)
        The layer that EVoC holds to be best, int64; -1 is noise.
    """

    noise_level: float = 0.5
    base_min_cluster_size: int = 5
    n_neighbors: int = 15
    min_samples: int = 5
    n_epochs: int = 50
    random_state: int | None = None

    def fit(self, X: Any, y: None = None) -> Self:
        """Fit on [n, d]."""
        if not find_spec("evoc"):
            raise Unsupported(f"evoc is not installed: {install_hint('evoc')}")
        if len(X) <= self.n_neighbors:
            self.labels_ = np.full(len(X), -1, dtype=np.int64)
            return self
        from evoc import EVoC  # which compiles for minutes

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # equal vectors are no neighbors' distances apart
            self.labels_ = np.asarray(EVoC(**self.get_params()).fit_predict(np.asarray(X, np.float32)), dtype=np.int64)
        return self
