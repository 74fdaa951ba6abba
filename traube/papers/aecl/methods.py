"""AECL and its rivals: deep clusterers, iterative classification and GSDMM."""

from typing import Literal

from traube.components.deep import register_deep_clusterer
from traube.components.limits import Count, NotNegative, PartOf, Positive, Several, Share, with_limits
from traube.components.registry import NUMERICAL, LazyEstimator, get_clusterer, register_clusterer
from traube.papers.aecl.aecl import Aecl
from traube.papers.aecl.rstc import Rstc
from traube.papers.aecl.sccl import Sccl
from traube.papers.aecl.self_train import SelfTrain
from traube.papers.aecl.stcc import Stcc

for clusterer in (Aecl, Rstc, Sccl, SelfTrain, Stcc):
    register_deep_clusterer(clusterer)

Start = Literal["kmeans", "minibatch_kmeans", "agglomerative", "agglomerative_average", "agglomerative_cosine"]
ECIC = {
    "start": ("kmeans", Start),
    "iterations": (50, Count),
    "least": (0.5, Share),
    "most": (0.95, Share),
    "outliers": (0.1, PartOf),
    "steady": (0.05, NotNegative),
}

register_clusterer(
    "ecic",
    LazyEstimator("traube.papers.aecl.ecic", "IterativeClassification"),
    **with_limits(ECIC),
    n_clusters="given",
    seeded=True,
    dense=False,
    quadratic=lambda params: get_clusterer(params["start"]).holds_distances({}),  # as its start does
    libraries=(*NUMERICAL, "numba"),
)

register_clusterer(
    "gsdmm",
    LazyEstimator("traube.papers.aecl.gsdmm", "Gsdmm"),
    {"most": 500, "alpha": 0.1, "beta": 0.1, "sweeps": 30},
    n_clusters="found",
    finds_k=True,
    seeded=True,
    input_kind="texts",
    libraries=("numpy", "numba"),
    types={"most": Several, "alpha": Positive, "beta": Positive, "sweeps": Count},
)
