"""The sensor that ends runs whose process is gone (kill -9, a power cut), so that they block no queue.

The daemon retries those that it launched. Dagster's run monitoring does not check the processes of its default launcher.
"""

import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import psutil

from sensors import Loaded
from traube._core import paths, settings

PID, STARTED, HOST = "traube/pid", "traube/process_started", "traube/host"
ALIVE = (
    dg.DagsterRunStatus.NOT_STARTED,  # killed between making a run and starting it
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.CANCELING,
)
GONE = "the process of this run is gone (killed, or the machine was restarted)"


def tag_process() -> dict[str, str]:
    """Return tags that name the process a run lives in, for runs started in this process."""
    return {PID: str(os.getpid()), STARTED: f"{psutil.Process().create_time():.2f}", HOST: platform.node()}


def is_of_command(run: dg.DagsterRun) -> bool:
    """Return whether a command runs this in its own process; a re-execution in the UI has the same tags, but a parent run."""
    return PID in run.tags and run.parent_run_id is None


def _has_daemon_runs() -> bool:
    """Return whether this node has the daemon's runs; where nodes share a database, only the node of `traube dev` has."""
    return not settings.database() or "TRAUBE_DAGSTER_PORT" in os.environ


def _find_runs(
    instance: dg.DagsterInstance, statuses: Sequence[dg.DagsterRunStatus] = ALIVE
) -> Iterator[tuple[dg.DagsterRun, bool | None]]:
    """Yield this node's unfinished runs, and whether the process of each is alive; None if unknown."""
    for run in instance.get_runs(dg.RunsFilter(statuses=statuses)):
        host = run.tags.get(HOST) if is_of_command(run) else None
        is_here = host == platform.node() if host else _has_daemon_runs()  # without a host: launched by a daemon
        if is_here:
            process = find_process(instance, run)
            yield run, _is_alive(*process) if process else None


def end_lost_runs(instance: dg.DagsterInstance) -> list[str]:
    """End the runs whose process is gone as failed, or as canceled if they were being canceled; return their ids.

    Runs that a stopped `traube dev` cut off are canceled before, and not returned.
    """
    if stop_note_path().exists():
        cancel_cut_off_runs(instance)
    lost = []
    for run, is_alive in _find_runs(instance):
        if is_alive is False:
            is_canceled = run.status == dg.DagsterRunStatus.CANCELING
            report_end = instance.report_run_canceled if is_canceled else instance.report_run_failed
            report_end(run, GONE)
            lost.append(run.run_id)
    return lost


def end_unstarted_runs(instance: dg.DagsterInstance) -> list[str]:
    """Fail the runs that a daemon, now gone, was about to start in a process, and return their ids."""
    starting = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]
    unstarted = [run for run, is_alive in _find_runs(instance, starting) if is_alive is None]
    for run in unstarted:
        instance.report_run_failed(run, GONE)
    return [run.run_id for run in unstarted]


def cancel_cut_off_runs(instance: dg.DagsterInstance) -> list[str]:
    """Cancel the runs that were cut off when `traube dev` was stopped, and return their ids.

    Its daemon had started them or was about to. They did not fail, and are not retried.
    """
    cut_off, is_dying = [], False
    for run, is_alive in _find_runs(instance):
        if is_alive:
            is_dying |= not is_of_command(run)
        else:
            instance.report_run_canceled(run, "`traube dev` was stopped")
            cut_off.append(run.run_id)
    if _has_daemon_runs() and not is_dying:
        stop_note_path().unlink(missing_ok=True)
    return cut_off


def stop_note_path() -> Path:
    """Return the path of the file that exists from when `traube dev` is stopped until its runs are canceled.

    On a busy machine `traube dev` may have to end before its runs; the next search for lost runs cancels them.
    """
    return paths.home() / "dev.stopped"


def find_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> tuple[int, float] | None:
    """Return the run's process id, and a time by which that process had started; None if it is not known yet."""
    if is_of_command(run):
        return int(run.tags[PID]), float(run.tags[STARTED]) + 1
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        if pid := entry.get_dagster_event().engine_event_data.metadata.get("pid"):
            return int(str(pid.value)), entry.timestamp + 1
    return None


def _is_alive(pid: int, by: float) -> bool:
    """Return whether that process is still alive, and is not another one with the same id."""
    try:
        process = psutil.Process(pid)
        return process.create_time() <= by and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def sensors(loaded: Loaded) -> list[dg.SensorDefinition]:
    """Return the sensor that ends runs whose process is gone."""

    @dg.sensor(
        name="lost_runs",
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=30,
        description="Ends runs whose process is gone; the daemon restarts those that it launched, at most twice.",
    )
    def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        lost = end_lost_runs(context.instance)
        for run_id in lost:
            context.log.warning(f"run {run_id}: {GONE}")
        return dg.SkipReason(f"ended {len(lost)}: {', '.join(lost)}" if lost else "no run is lost")

    return [lost_runs]
