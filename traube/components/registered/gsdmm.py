"""GSDMM: a mixture of multinomials over the words of texts, which finds the number of clusters."""

from typing import Any

from traube.components.components import register_clusterer
from traube.components.limits import Count, Positive, Several

PARAMS = {"most": 500, "alpha": 0.1, "beta": 0.1, "sweeps": 30}


def gsdmm(**params: Any) -> Any:
    from traube.components.estimators.gsdmm import Gsdmm

    return Gsdmm(**params)


register_clusterer(
    "gsdmm",
    gsdmm,
    PARAMS,
    takes_k=False,
    finds_k=True,
    seeded=True,
    input_kind="texts",
    libraries=("numpy", "numba"),
    types={"most": Several, "alpha": Positive, "beta": Positive, "sweeps": Count},
)
