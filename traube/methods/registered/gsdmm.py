"""GSDMM: a mixture of multinomials over the words of texts, which finds the number of clusters."""

from typing import Any

from traube.methods.limits import Count, Positive, Several
from traube.methods.parts import register_clusterer

PARAMS = {"most": 500, "alpha": 0.1, "beta": 0.1, "sweeps": 30}


def gsdmm(**params: Any) -> Any:
    from traube.methods.estimators.gsdmm import Gsdmm

    return Gsdmm(**params)


register_clusterer(
    "gsdmm",
    gsdmm,
    PARAMS,
    takes_k=False,
    finds_k=True,
    seeded=True,
    takes="texts",
    libraries=("numpy", "numba"),
    types={"most": Several, "alpha": Positive, "beta": Positive, "sweeps": Count},
)
