"""Principal components."""

from typing import Any

from traube.components.components import register_reducer
from traube.components.limits import Count
from traube.components.new_points import by_transform


def pca(**params: Any) -> Any:
    from traube.components.estimators.reducers import Pca

    return Pca(**params)


register_reducer(
    "pca", pca, {"n_components": 2}, seeded=True, dense=False, place=by_transform, types={"n_components": Count}
)
