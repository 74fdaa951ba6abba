"""Peer's own test: our estimators behave as scikit-learn's do, by scikit-learn's own checks. No check is expected to fail."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from traube.components import _estimators as estimators
from traube.components._estimators.clusterers import Agglomerative, AgglomerativeKnn, DBStream
from traube.components._estimators.ecic import IterativeClassification
from traube.components._estimators.evoc import Evoc
from traube.components._estimators.gsdmm import Gsdmm
from traube.components._estimators.reducers import Pca, Umap
from traube.components._estimators.stable_kmeans import StableKMeans

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
    """A new one in `components/_estimators/` has to be added above; EVoC's checks are its library's, which compiles for minutes."""
    from sklearn.base import BaseEstimator

    found = {
        value
        for module in (
            import_module(f"{estimators.__name__}.{info.name}") for info in iter_modules(estimators.__path__)
        )
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseEstimator) and value.__module__ == module.__name__
    }
    assert {cls for cls in found if not cls.__name__.startswith("_")} - {Evoc} == {
        type(estimator) for estimator in OURS
    }
