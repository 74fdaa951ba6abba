"""One-line `repr` of what holds arrays, tables or long texts."""

from dataclasses import fields
from reprlib import Repr
from typing import Any

LONGEST = 60  # characters of a value
_SHORT = Repr()  # arguments are of Python 3.12 on
_SHORT.maxstring = _SHORT.maxother = 40
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = 3
_SHORT.maxdict = _SHORT.maxlevel = 2


class ShortRepr:
    """A dataclass (with `repr=False`) that shows arrays and tables by their shape, and long values cut."""

    def __repr__(self) -> str:
        arguments = (f"{one.name}={_shorten(getattr(self, one.name))}" for one in fields(self) if one.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(arguments)})"


def _shorten(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"<{type(value).__name__} {' x '.join(map(str, shape))}>"
    text = " ".join(_SHORT.repr(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
