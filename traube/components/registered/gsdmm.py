"""GSDMM: a mixture of multinomials over the words of texts, which finds the number of clusters."""

from traube.components.components import LazyEstimator, register_clusterer
from traube.components.limits import Count, Positive, Several

PARAMS = {"most": 500, "alpha": 0.1, "beta": 0.1, "sweeps": 30}


register_clusterer(
    "gsdmm",
    LazyEstimator("traube.components.estimators.gsdmm", "Gsdmm"),
    PARAMS,
    takes_k=False,
    finds_k=True,
    seeded=True,
    input_kind="texts",
    libraries=("numpy", "numba"),
    types={"most": Several, "alpha": Positive, "beta": Positive, "sweeps": Count},
)
