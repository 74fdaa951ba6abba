"""The code location: everything that the folders offer, put together. A new paper, task, sensor or job is no reason to edit this file."""

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
from sensors import offered  # noqa: E402
from traube.core import paths  # noqa: E402
from traube.core.disk import make_private  # noqa: E402
from traube.tasks import PAIRS, sources  # noqa: E402


def build_defs(shown: bool = False, **overrides: Any) -> dg.Definitions:
    """Return all assets, jobs, sensors, schedules and resources.

    Parameters
    ----------
    shown : bool, default=False
        Add what only pages show, and leave out stages that nothing fills.
    **overrides : object
        Resources by name, to use instead of the default ones.

    Returns
    -------
    dagster.Definitions
        The definitions of the code location.
    """
    tasks = {**sources(), **sources(PAIRS)}
    unfilled = list_without_training(sources().values()) if shown else []
    defined: list[Job] = [*all_jobs(tasks, unfilled), *offered("jobs")]
    jobs, assets = {job.name: job for job in defined}, all_assets(tasks.values(), unfilled)
    return dg.Definitions(
        assets=with_owners_and_code(assets) if shown else assets,
        jobs=defined,
        sensors=offered("sensors", jobs),
        schedules=offered("schedules", jobs),
        resources={**all_resources(), **overrides},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions when Dagster loads the code location; a command builds its own."""
    make_private(paths.home())  # `dagster dev` may be all that was ever started
    return build_defs(shown=True)
