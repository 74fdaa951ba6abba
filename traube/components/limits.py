"""Limits of parameters, as types that pydantic checks."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

Count = Annotated[int, Field(ge=1, lt=2**31)]
Several = Annotated[int, Field(ge=2, lt=2**31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
PartOf = Annotated[float, Field(ge=0, lt=1)]


def with_limits(values: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Return `params` and `types` as registering takes them, of each parameter's default and type."""
    params = {name: default for name, (default, _) in values.items()}
    return {"params": params, "types": {name: kind for name, (_, kind) in values.items()}}
