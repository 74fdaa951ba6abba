"""No reduction: clusterers work on the model's own vectors."""

from typing import Any

from traube.components.components import register_reducer


def identity() -> Any:
    from traube.components.estimators.reducers import Identity

    return Identity()


register_reducer("none", identity, {}, seeded=False, dense=False, libraries=(), identity=True)
