"""The definitions of all folders together. A new paper, task, sensor or job is no reason to edit this file."""

import warnings
from typing import Any

import dagster as dg

warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning)

from assets import all_assets  # noqa: E402
from assets.common import MADE_OF, Job  # noqa: E402
from assets.jobs import all_jobs, is_published  # noqa: E402
from assets.ownership import with_owners_and_code  # noqa: E402
from assets.used import Used, find_used  # noqa: E402
from resources import all_resources  # noqa: E402
from sensors import Loaded, collect  # noqa: E402
from traube._core import paths  # noqa: E402
from traube._core.disk import make_private  # noqa: E402


def build_defs(used: Used | None = None, **overrides: Any) -> dg.Definitions:
    """Return all definitions of what is used; `overrides` are resources that replace the default ones, by name."""
    used = used or find_used()
    jobs: list[Job] = [*all_jobs(used), *collect("jobs")]
    assets = with_owners_and_code(all_assets(used))
    published = {spec.key: spec.metadata.get(MADE_OF) for asset in assets for spec in asset.specs if is_published(spec)}
    loaded = Loaded({job.name: job for job in jobs}, {*used.tasks}, published, used.inboxes)
    return dg.Definitions(
        assets=assets,
        jobs=jobs,
        sensors=collect("sensors", loaded),
        schedules=collect("schedules", loaded),
        resources={**all_resources(), **overrides},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return what Dagster loads, built on its request, not when this module is imported: a command builds its own."""
    make_private(paths.home())  # `dagster dev` may be all that was ever started
    return build_defs()
