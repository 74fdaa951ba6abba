"""Check that what users import is documented: `python deploy/check_public.py`.

Each function of the public modules has parameters, returned values and an example, and each class an example, on top
of what `numpydoc lint` asks of every docstring.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import isclass, isfunction
from typing import Any

from numpydoc.validate import validate

MODULES = ("comparison", "components", "metrics", "models", "plotting", "tasks", "training")
OF_CLASSES, OF_FUNCTIONS = {"GL08", "EX01"}, {"GL08", "EX01", "PR01", "PR02", "RT01"}


def public_objects() -> Iterator[Any]:
    """Yield the functions and classes that users import."""
    for name in ("traube", *(f"traube.{module}" for module in MODULES)):
        module = import_module(name)
        yield from (
            value for value in (getattr(module, key) for key in module.__all__) if isclass(value) or isfunction(value)
        )


def find_faults(value: Any) -> list[str]:
    """Return what a function or class lacks, a line for each fault."""
    name = f"{value.__module__}.{value.__qualname__}"
    checks = OF_FUNCTIONS if isfunction(value) else OF_CLASSES
    return [f"{name}: {check} {message}" for check, message in validate(name)["errors"] if check in checks]


if __name__ == "__main__":
    faults = sorted({fault for value in public_objects() for fault in find_faults(value)})
    print(*faults, sep="\n", end="\n" * bool(faults))
    sys.exit(bool(faults))
