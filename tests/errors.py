"""Errors as tests compare them: their kind, and the values that they name. Their wording stands in one snapshot."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import pytest

E = TypeVar("E", bound=Exception)
Refusal: TypeAlias = tuple[type[Exception], *tuple[object, ...]]  # the arguments of `refused`, in a table of cases


@contextmanager
def refused(kind: type[E], *values: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect an error of exactly this kind that names each value: a name, a path, a number, an option or a command."""
    with pytest.raises(kind) as raised:
        yield raised
    check_error(raised.value, kind, *values)


def check_error(error: BaseException | None, kind: type[Exception], *values: object) -> None:
    """Require an error of exactly this kind that names each value."""
    assert type(error) is kind, f"{type(error).__name__}, not {kind.__name__}: {error}"
    check_names(str(error), *values)


def check_names(text: str, *values: object) -> None:
    """Require a text that names each value; a number is whole, so that 3 is not in 30."""
    for value in values:
        pattern = re.escape(str(value))
        if isinstance(value, int | float):
            pattern = rf"(?<![\d.,]){re.escape(f'{value:,}')}(?!\d|[.,]\d)|(?<![\d.,]){pattern}(?!\d|[.,]\d)"
        assert re.search(pattern, text), f"{value} is not in: {text}"
