"""HDBSCAN."""

from typing import Any

from traube.methods.parts import NUMERICAL, register_clusterer

PARAMS = {
    "min_cluster_size": 5,
    "min_samples": None,
    "metric": "euclidean",
    "alpha": 1.0,
    "cluster_selection_method": "eom",
    "cluster_selection_epsilon": 0.0,
    "allow_single_cluster": False,
}


def hdbscan(**params: Any) -> Any:
    from hdbscan import HDBSCAN

    # One job: same labels, but no worker processes, which took 10 s to start where the clustering took 0.6 s.
    return HDBSCAN(core_dist_n_jobs=1, **params)


register_clusterer(
    "hdbscan", hdbscan, PARAMS, takes_k=False, seeded=False, needs="reduced", libraries=(*NUMERICAL, "hdbscan")
)
