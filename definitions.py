"""What there is: what each folder offers, put together. A new paper, task, sensor or job is no
reason to edit this file.
"""

import warnings
from typing import Any

import dagster as dg

warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning)

from assets import all_assets  # noqa: E402
from assets.common import Job  # noqa: E402
from assets.jobs import all_jobs  # noqa: E402
from resources import all_resources  # noqa: E402
from sensors import all_schedules, all_sensors, sensor_jobs  # noqa: E402
from traube.foundation import paths  # noqa: E402
from traube.foundation.disk import make_private  # noqa: E402
from traube.foundation.identity import refuse_later  # noqa: E402
from traube.tasks import pair_sources, sources  # noqa: E402


def build_defs(*, executor: dg.ExecutorDefinition = dg.in_process_executor, **overrides: Any) -> dg.Definitions:
    """All definitions.

    Parameters
    ----------
    executor : how the steps of a run are executed
    overrides : resources to use instead of the default ones, by name
    """
    tasks, pairs = sources(), pair_sources()
    defined: list[Job] = [*all_jobs([*tasks, *pairs]), *sensor_jobs()]
    jobs = {job.name: job for job in defined}
    return dg.Definitions(
        assets=all_assets(tasks.values(), pairs.values()),
        jobs=defined,
        sensors=all_sensors(jobs),
        schedules=all_schedules(jobs),
        resources={**all_resources(), **overrides},
        executor=executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster loads. It is built when Dagster asks, not when this module is imported: a command
    builds its own.
    """
    refuse_later(paths.home())
    make_private(paths.home())  # `dagster dev` may be all that was ever started
    return build_defs()
