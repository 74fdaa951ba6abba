"""HDBSCAN."""

from typing import Any, Literal

import numpy as np

from traube.components.limits import Count, NotNegative, Positive, Several, with_limits
from traube.components.new_points import Build, Clusters, Matrix
from traube.components.registry import NUMERICAL, register_clusterer

VALUES = {
    "min_cluster_size": (5, Several),
    "min_samples": (None, Count | None),
    "metric": ("euclidean", str),
    "alpha": (1.0, Positive),
    "cluster_selection_method": ("eom", Literal["eom", "leaf"]),
    "cluster_selection_epsilon": (0.0, NotNegative),
    "allow_single_cluster": (False, bool),
}


def hdbscan(**params: Any) -> Any:
    """Return HDBSCAN with these parameters, in one process."""
    from hdbscan import HDBSCAN

    # One job: same labels, but no worker processes, which took 10 s to start where the clustering took 0.6 s.
    return HDBSCAN(core_dist_n_jobs=1, **params)


def assign(build: Build, points: Matrix, clusters: Clusters, new: Matrix) -> Clusters:
    """Return the cluster that HDBSCAN's own `approximate_predict` gives each new point, or noise."""
    from hdbscan import approximate_predict

    fitted = build(prediction_data=True).fit(points)
    # its numbers for the clusters may be others than the scored ones
    number = {int(a): int(b) for a, b in zip(fitted.labels_, clusters, strict=True) if a >= 0}
    if not number:
        return np.full(new.shape[0], -1, dtype=np.int64)
    return np.array([number.get(int(c), -1) for c in approximate_predict(fitted, new)[0]], dtype=np.int64)


register_clusterer(
    "hdbscan",
    hdbscan,
    **with_limits(VALUES),
    n_clusters="found",
    seeded=False,
    input_kind="reduced",
    libraries=(*NUMERICAL, "hdbscan"),
    assign=assign,
    # distances determine dense regions as well as coordinates do
    by_distance=lambda params: {**params, "metric": "precomputed"},
)
