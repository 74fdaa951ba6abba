"""The k-means of the deep clusterers, which start from its centers or end with it."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Labels = NDArray[np.int64]
Points = NDArray[np.float32]


def k_means(
    points: "Tensor", k: int, seed: int, starts: int = 10, max_iter: int = 300, tol: float = 1e-4
) -> tuple[Labels, Points]:
    """Group points [n, d]; return labels, int64 [n], and centers, float32 [k, d].

    In one thread: several add their sums in the order in which they finish, and the last digits
    would differ from run to run.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    estimator = KMeans(k, n_init=starts, max_iter=max_iter, tol=tol, random_state=seed)
    with threadpool_limits(1), warnings.catch_warnings():
        # fewer different texts than clusters: the clusters that are left are counted
        warnings.filterwarnings("ignore", message="Number of distinct clusters", category=UserWarning)
        labels = estimator.fit_predict(points.cpu().numpy())
    return labels.astype(np.int64), estimator.cluster_centers_.astype(np.float32)


def take_largest(scores: "Tensor") -> Labels:
    """Return the cluster with the largest score of each text, int64 [n], from [n, k]."""
    return scores.argmax(dim=1).cpu().numpy().astype(np.int64)
