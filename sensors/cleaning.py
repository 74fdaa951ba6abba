"""Every night, what no result uses any more is removed: as `traube clean --yes` does, and from Dagster's history."""

import shutil
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from resources.removal import remove_runs
from sensors import Loaded
from sensors.nightly import read_nightly
from traube._core import paths
from traube._core.inputs import format_size
from traube._pipeline.cleaning import find_removable
from traube._pipeline.forgotten import drop_spent, list_spent
from traube._pipeline.params import load_params
from traube._storage import open_storage


@dg.op(description="Removes what no result has used for a day, and blobs that were marked a day ago.")
def remove_unused(context: dg.OpExecutionContext) -> None:
    """Remove what is unused, and log how much."""
    storage = open_storage(paths.home())
    spent = list_spent(storage)
    removed = [unused for unused in find_removable(storage) if unused.remove()]
    waiting, deleted = storage.clean()
    size = format_size(sum(unused.size for unused in removed))
    logged, runs = remove_runs(spent), _remove_old_runs(context.instance, load_params().keep.nightly_runs, spent)
    drop_spent(storage)
    context.log.info(
        f"removed {len(removed)} entries, {size}; deleted {deleted} blobs, marked {waiting}; removed {logged} runs of "
        f"MLflow and {runs} of Dagster"
    )


def _remove_old_runs(instance: dg.DagsterInstance, days: int, forgotten: Iterable[str]) -> int:
    """Remove Dagster's runs of forgotten models, and those of publications, but the newest, that are older than some days."""
    done = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    before = datetime.now(UTC) - timedelta(days=days)
    old = []
    for job in ("publish", "clean"):
        newest = {
            record.dagster_run.run_id for record in instance.get_run_records(dg.RunsFilter(job_name=job), limit=1)
        }
        runs = instance.get_runs(dg.RunsFilter(job_name=job, created_before=before))
        old += [run for run in runs if run.run_id not in newest]
    for model in forgotten:
        old += instance.get_runs(dg.RunsFilter(job_name="evaluate", tags={"dagster/partition": model}))
    gone = [run for run in old if run.status in done]
    for run in gone:
        instance.delete_run(run.run_id)
        root = Path(instance.root_directory)  # where Dagster leaves the files of a run, emptied
        shutil.rmtree(root / "storage" / run.run_id, ignore_errors=True)
        for file in root.glob(f"history/runs/{run.run_id}.db*"):
            file.unlink(missing_ok=True)
    return len(gone)


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
