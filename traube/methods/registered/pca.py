"""Principal components."""

from typing import Any

from traube.methods.limits import Count
from traube.methods.new_points import by_transform
from traube.methods.parts import register_reducer


def pca(**params: Any) -> Any:
    from traube.methods.estimators.reducers import Pca

    return Pca(**params)


register_reducer(
    "pca", pca, {"n_components": 2}, seeded=True, dense=False, place=by_transform, types={"n_components": Count}
)
