"""UMAP, on the vectors or on their first principal components."""

from typing import Any, Literal

from traube.components.components import NUMERICAL, LazyEstimator, register_reducer
from traube.components.limits import Count, NotNegative, Positive, Several

UMAP = {
    "n_components": 2,
    "n_neighbors": 15,
    "metric": "cosine",
    "min_dist": 0.1,
    "spread": 1.0,
    "n_epochs": None,
    "init": "spectral",
    "knn": "exact",
}
TYPES: dict[str, Any] = {
    "pca_components": Count,
    "n_components": Count,
    "n_neighbors": Several,
    "metric": str,
    "min_dist": NotNegative,
    "spread": Positive,
    "n_epochs": Count | None,
    "init": Literal["spectral", "random", "pca", "tswspectral"],
    "knn": Literal["exact", "approximate"],
}
LIBRARIES = (*NUMERICAL, "umap-learn", "numba")


def pca_umap(pca_components: int, random_state: int | None = None, **params: Any) -> Any:
    """Principal components first, then UMAP on them: in the paper's code, not in the paper."""
    from sklearn.pipeline import make_pipeline

    from traube.components.estimators.reducers import Pca, Umap

    return make_pipeline(Pca(pca_components, random_state), Umap(random_state=random_state, **params))


def compile_umap() -> None:
    """Fit UMAP on a few points, so that its machine code is on disk before the first run needs it."""
    import numpy as np

    from traube.components.estimators.reducers import Umap

    Umap(random_state=0).fit(np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32))


OF_BOTH: dict[str, Any] = {"seeded": True, "dense": False, "libraries": LIBRARIES, "types": TYPES, "pace": 1.1e-3}
register_reducer("umap", LazyEstimator("traube.components.estimators.reducers", "Umap"), UMAP, **OF_BOTH)
register_reducer("pca+umap", pca_umap, {"pca_components": 50, **UMAP}, **OF_BOTH)
