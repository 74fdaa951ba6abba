"""Errors as tests compare them: their kind, and the values that they name. Their wording stands in one snapshot."""

import re
from typing import TypeAlias, TypeVar

import pytest

from traube._core.errors import TraubeError

E = TypeVar("E", bound=BaseException)
Refusal: TypeAlias = tuple[type[BaseException], *tuple[object, ...]]  # the arguments of `refused`, in a table of cases


def refused(kind: type[E], *values: object) -> pytest.RaisesExc[E]:
    """Expect an error of exactly this kind that names each value: a name, a path, a number, an option or a command."""
    return pytest.raises(kind, check=lambda error: check_error(error, kind, *values))


def check_error(error: BaseException, kind: type[BaseException], *values: object) -> bool:
    """Require an error of exactly this kind that names each value; one of ours takes one line."""
    assert type(error) is kind, f"{type(error).__name__}, not {kind.__name__}: {error}"
    assert "\n" not in str(error) or not isinstance(error, TraubeError)
    return check_names(str(error), *values)


def check_names(text: str, *values: object) -> bool:
    """Require a text that names each value; a number is whole, so that 3 is not in 30."""
    for value in values:
        forms = {str(value), f"{value:,}"} if isinstance(value, int) else {str(value)}
        whole = r"(?<![\d.,]){}(?!\d|[.,]\d)" if isinstance(value, int | float) else "{}"
        pattern = "|".join(whole.format(re.escape(form)) for form in sorted(forms))
        assert re.search(pattern, text), f"{value} is not in: {text}"
    return True
