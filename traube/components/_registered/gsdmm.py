"""GSDMM: a mixture of multinomials over the words of texts, which finds the number of clusters."""

from traube.components._components import LazyEstimator, register_clusterer
from traube.components._limits import Count, Positive, Several

register_clusterer(
    "gsdmm",
    LazyEstimator("traube.components._estimators.gsdmm", "Gsdmm"),
    {"most": 500, "alpha": 0.1, "beta": 0.1, "sweeps": 30},
    n_clusters="found",
    finds_k=True,
    seeded=True,
    input_kind="texts",
    libraries=("numpy", "numba"),
    types={"most": Several, "alpha": Positive, "beta": Positive, "sweeps": Count},
)
