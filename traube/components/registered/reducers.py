"""Reducers: none, principal components, and UMAP on the vectors or on their first principal components."""

from typing import Any, Literal

from traube.components.limits import Count, NotNegative, Positive, Several, with_limits
from traube.components.new_points import place_by_transform
from traube.components.registry import NUMERICAL, LazyEstimator, register_reducer

COMPONENTS = {"n_components": (2, Count)}
UMAP = COMPONENTS | {
    "n_neighbors": (15, Several),
    "metric": ("cosine", str),
    "min_dist": (0.1, NotNegative),
    "spread": (1.0, Positive),
    "n_epochs": (None, Count | None),
    "init": ("spectral", Literal["spectral", "random", "pca", "tswspectral"]),
    "knn": ("exact", Literal["exact", "approximate"]),
}
PCA_UMAP = {"pca_components": (50, Count)} | UMAP
LIBRARIES = (*NUMERICAL, "umap-learn", "numba")


def pca_umap(pca_components: int, random_state: int | None = None, **params: Any) -> Any:
    """Return a pipeline of principal components, and UMAP on them."""
    from sklearn.pipeline import make_pipeline

    from traube.components.estimators.reducers import Pca, Umap

    return make_pipeline(Pca(pca_components, random_state), Umap(random_state=random_state, **params))


def compile_umap() -> None:
    """Fit UMAP on a few points, so that its machine code is on disk before the first run needs it."""
    import numpy as np

    from traube.components.estimators.reducers import Umap

    Umap(random_state=0).fit(np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32))


IDENTITY = LazyEstimator("sklearn.preprocessing", "FunctionTransformer")  # of no function
register_reducer("none", IDENTITY, {}, seeded=False, dense=False, libraries=(), identity=True)

PCA = LazyEstimator("traube.components.estimators.reducers", "Pca")
register_reducer("pca", PCA, **with_limits(COMPONENTS), seeded=True, dense=False, place=place_by_transform)

OF_BOTH: dict[str, Any] = {"seeded": True, "dense": False, "libraries": LIBRARIES, "pace": 1.1e-3}
register_reducer("umap", LazyEstimator("traube.components.estimators.reducers", "Umap"), **with_limits(UMAP), **OF_BOTH)
register_reducer("pca+umap", pca_umap, **with_limits(PCA_UMAP), **OF_BOTH)
