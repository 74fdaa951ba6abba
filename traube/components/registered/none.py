"""No reduction: clusterers work on the model's own vectors."""

from traube.components.components import LazyEstimator, register_reducer

IDENTITY = LazyEstimator("traube.components.estimators.reducers", "Identity")
register_reducer("none", IDENTITY, {}, seeded=False, dense=False, libraries=(), identity=True)
