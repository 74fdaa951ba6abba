"""No reduction: clusterers work on the model's own vectors."""

from traube.components.components import LazyEstimator, register_reducer

IDENTITY = LazyEstimator("sklearn.preprocessing", "FunctionTransformer")  # of no function
register_reducer("none", IDENTITY, {}, seeded=False, dense=False, libraries=(), identity=True)
