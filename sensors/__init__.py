"""What starts runs by itself: one file a sensor or schedule, found by itself.

A module offers any of three functions: `jobs()`, jobs that are of no use but to its sensor;
`sensors(jobs)` and `schedules(jobs)`, given every job by its name.
"""

import sys
from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.common import Job
from traube.foundation.plugins import modules_of

Jobs = Mapping[str, Job]


def sensor_jobs() -> list[dg.JobDefinition]:
    """The jobs that sensors bring along."""
    return _offered("jobs")


def all_sensors(jobs: Jobs) -> list[dg.SensorDefinition]:
    """Every sensor.

    Parameters
    ----------
    jobs : all of them by name, those that sensors bring along too
    """
    return _offered("sensors", jobs)


def all_schedules(jobs: Jobs) -> list[dg.ScheduleDefinition]:
    """Every schedule; `jobs` as in `all_sensors`."""
    return _offered("schedules", jobs)


def _offered(name: str, *given: Any) -> list[Any]:
    modules = modules_of(sys.modules[__name__])
    return [one for module in modules if hasattr(module, name) for one in getattr(module, name)(*given)]
