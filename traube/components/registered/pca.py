"""Principal components."""

from traube.components.components import LazyEstimator, register_reducer
from traube.components.limits import Count
from traube.components.new_points import by_transform

PCA = LazyEstimator("traube.components.estimators.reducers", "Pca")
TYPES = {"n_components": Count}
register_reducer("pca", PCA, {"n_components": 2}, seeded=True, dense=False, place=by_transform, types=TYPES)
