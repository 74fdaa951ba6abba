"""Sensors and schedules, which start runs: one file each, found by itself.

A file offers any of three functions: `jobs()`, jobs that are of no use but to its sensor; `sensors(jobs)` and
`schedules(jobs)`, given every job by its name.
"""

import sys
from collections.abc import Mapping
from typing import Any

from assets.common import Job
from traube._core.plugins import modules_of

Jobs = Mapping[str, Job]


def collect(name: str, *given: Any) -> list[Any]:
    """Return the results of all modules' functions of a name, such as `sensors`."""
    modules = modules_of(sys.modules[__name__])
    return [one for module in modules if hasattr(module, name) for one in getattr(module, name)(*given)]
