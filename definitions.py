"""The definitions of all folders together. A new paper, task, sensor or job is no reason to edit this file."""

import warnings
from typing import Any

import dagster as dg

warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning)

from assets import all_assets  # noqa: E402
from assets.common import Job  # noqa: E402
from assets.jobs import all_jobs  # noqa: E402
from assets.ownership import with_owners_and_code  # noqa: E402
from assets.training import list_without_training  # noqa: E402
from resources import all_resources  # noqa: E402
from sensors import collect  # noqa: E402
from traube._core import paths  # noqa: E402
from traube._core.disk import make_private  # noqa: E402
from traube.tasks import sources  # noqa: E402


def build_defs(shown: bool = False, **overrides: Any) -> dg.Definitions:
    """Return all definitions.

    If they are `shown` on pages, they have owners and links to their code, and no stages that no task needs.
    `overrides` are resources that replace the default ones, by name.
    """
    tasks = sources(None)
    untrained = list_without_training(sources().values()) if shown else []
    defined: list[Job] = [*all_jobs(tasks, untrained), *collect("jobs")]
    jobs, assets = {job.name: job for job in defined}, all_assets(tasks.values(), untrained)
    return dg.Definitions(
        assets=with_owners_and_code(assets) if shown else assets,
        jobs=defined,
        sensors=collect("sensors", jobs),
        schedules=collect("schedules", jobs),
        resources={**all_resources(), **overrides},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return what Dagster loads, built on its request, not when this module is imported: a command builds its own."""
    make_private(paths.home())  # `dagster dev` may be all that was ever started
    return build_defs(shown=True)
