"""Limits of parameters, as types that pydantic checks."""

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=1, lt=2**31)]
Several = Annotated[int, Field(ge=2, lt=2**31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
PartOf = Annotated[float, Field(ge=0, lt=1)]
