"""Every night, what no result uses any more is removed: as `traube clean --yes` does."""

import dagster as dg

from sensors import Loaded
from sensors.nightly import read_nightly
from traube._core import paths
from traube._core.inputs import format_size
from traube._pipeline.cleaning import find_removable
from traube._storage import open_storage


@dg.op(description="Removes what no result has used for a day, and blobs that were marked a day ago.")
def remove_unused(context: dg.OpExecutionContext) -> None:
    """Remove what is unused, and log how much."""
    storage = open_storage(paths.home())
    removed = [unused for unused in find_removable(storage) if unused.remove()]
    waiting, deleted = storage.clean()
    size = format_size(sum(unused.size for unused in removed))
    context.log.info(f"removed {len(removed)} entries, {size}; deleted {deleted} blobs, marked {waiting}")


@dg.job(name="clean", description="Removes what no result uses any more.")
def clean_job() -> None:
    """Remove what is unused."""
    remove_unused()


def jobs() -> list[dg.JobDefinition]:
    """Return the job that removes what is unused."""
    return [clean_job]


def schedules(loaded: Loaded) -> list[dg.ScheduleDefinition]:
    """Return the schedule `nightly_clean`."""
    nightly = read_nightly()
    on, off = dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED
    return [
        dg.ScheduleDefinition(
            name="nightly_clean",
            job=loaded.jobs[clean_job.name],
            cron_schedule=nightly.cron,
            execution_timezone=nightly.timezone,
            default_status=on if nightly.enabled else off,
            description="Removes what no result has used for a day.",
        )
    ]
