"""Peer's own test: our estimators behave as scikit-learn's do, by scikit-learn's own checks. No check is expected to fail."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from traube._core.plugins import modules_of
from traube.components import estimators
from traube.components.estimators.clusterers import Agglomerative, AgglomerativeKnn
from traube.components.estimators.evoc import Evoc
from traube.components.estimators.reducers import Pca, SparseInput, Umap
from traube.components.estimators.stable_kmeans import StableKMeans
from traube.papers import aecl, german
from traube.papers.aecl.ecic import IterativeClassification
from traube.papers.aecl.gsdmm import Gsdmm
from traube.papers.german.dbstream import DBStream

# fewer epochs than by default: the checks ask how an estimator behaves, not how well it clusters
OURS = [
    Pca(),
    Umap(n_epochs=5),
    Agglomerative(),
    AgglomerativeKnn(),
    DBStream(),
    Gsdmm(),
    IterativeClassification(),
    StableKMeans(),
]
QUICK = (Pca, AgglomerativeKnn)  # one reducer and one clusterer: what our estimators have in common shows in them
CASES = [
    pytest.param(estimator, check, marks=[] if isinstance(made, QUICK) else pytest.mark.slow)
    for made in OURS
    for estimator, check in estimator_checks_generator(made)
]


def name(value: Any) -> str:
    return getattr(getattr(value, "func", value), "__name__", type(value).__name__)


@pytest.mark.parametrize(("estimator", "check"), CASES, ids=name)
@pytest.mark.filterwarnings("ignore")
def test_it_passes_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_every_estimator_of_ours_is_checked() -> None:
    """A new one of ours, or of a paper, has to be added above; EVoC's checks are its library's, which compiles for minutes."""
    from sklearn.base import BaseEstimator

    found = {
        value
        for package in (estimators, aecl, german)
        for module in modules_of(package)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseEstimator) and value.__module__ == module.__name__
    }
    assert {cls for cls in found if not cls.__name__.startswith("_")} - {Evoc, SparseInput} == {
        type(estimator) for estimator in OURS
    }
