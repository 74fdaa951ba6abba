"""Recipes: the values by which trainers and deep clusterers train.

Recipes have defaults, some of which a person, a protocol or a study replaces. The training itself is the components'
own.
"""

from abc import ABC
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import ConfigDict, ValidationError

from traube._core.config import Strict
from traube._core.errors import Invalid, unknown


class Recipe(Strict):
    """Values by which something is trained, with their limits."""

    model_config = ConfigDict(allow_inf_nan=False)


R = TypeVar("R", bound=Recipe)


class RecipeMixin(ABC, Generic[R]):
    """A component that trains by a recipe: trainers and deep clusterers."""

    name: ClassVar[str]  # as commands, methods and checkpoints have it
    section: ClassVar[str]  # where a paper describes it
    version: ClassVar[str] = "1"  # raise it when the same recipe would give another result
    defaults: R  # the paper's values or, where training fails with these, others

    def __init__(self, recipe: R | None = None) -> None:
        self.recipe: R = recipe or self.defaults

    @classmethod
    def with_values(cls, /, **values: Any) -> Self:
        """Return an instance with the default recipe but for some values, which may be texts."""
        try:
            return cls(type(cls.defaults).model_validate({**cls.defaults.model_dump(), **values}))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            if first["type"] == "extra_forbidden":
                raise unknown(f"value of {cls.name}'s recipe", name, type(cls.defaults).model_fields) from None
            if first["type"] == "value_error":  # one of our own, which names the values
                raise Invalid(f"{cls.name}: {first['ctx']['error']}") from None
            raise Invalid(f"{cls.name}: {name}: {first['msg']}") from None

    @classmethod
    def types(cls) -> dict[str, Any]:
        """Return the type of each value with its limits."""
        return {name: info.rebuild_annotation() for name, info in type(cls.defaults).model_fields.items()}
