"""Steps that train are of one pool, of which the queue starts no more runs at a time than `dagster.yaml` allows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from assets.common import TRAINERS, TRAININGS
from operations.launch import DagsterLauncher, align
from tests.waiting import wait_for
from traube._core import paths
from traube.tasks.task import Stage

JOBS = """
import json
from pathlib import Path

import dagster as dg

from tests.waiting import wait_for

FOLDER = Path(__file__).parent
AT_WORK = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])


def train(name):
    @dg.op(name=f"train_{name}", pool="trainings")
    def training(context):
        at_work = sorted(run.job_name for run in context.instance.get_runs(AT_WORK))
        (FOLDER / f"{name}.json").write_text(json.dumps(at_work))

    return training


@dg.op(name="wait")
def outlast():
    wait_for(lambda: len(list(FOLDER.glob("*.json"))) == 2, "both trainings")


def make_job(name, op):
    return dg.GraphDefinition(name, node_defs=[op]).to_job(executor_def=dg.in_process_executor)


jobs = [make_job("outlast", outlast), *(make_job(name, train(name)) for name in ("first", "second"))]


@dg.sensor(jobs=jobs, default_status=dg.DefaultSensorStatus.RUNNING)
def ask():
    return [dg.RunRequest(job.name, job_name=job.name) for job in jobs]


defs = dg.Definitions(jobs=jobs, sensors=[ask])
"""


def test_whatever_trains_is_of_the_pool_and_nothing_else_is() -> None:
    from definitions import build_defs

    assets = [asset for asset in build_defs().assets or [] if isinstance(asset, dg.AssetsDefinition)]
    trains = {a for a in assets if a.key.path[0] == TRAINERS or a.key.path[-1] == Stage.DEEP_CLUSTERINGS}
    assert {a: a.op.pool for a in assets if a.op.pool} == dict.fromkeys(trains, TRAININGS)


def test_a_limit_that_somebody_set_stays(launcher: DagsterLauncher) -> None:
    pools = launcher.instance.event_log_storage
    assert pools.get_concurrency_info(TRAININGS).slot_count == 1
    pools.set_concurrency_slots(TRAININGS, 2)  # as the page of pools does
    align(launcher.instance)
    assert pools.get_concurrency_info(TRAININGS).slot_count == 2


@pytest.mark.slow
def test_a_queued_training_waits_for_another_one_and_for_nothing_else(tmp_path: Path) -> None:
    settings = yaml.safe_load((paths.PROJECT / "dagster.yaml").read_text())
    settings["concurrency"]["runs"]["max_concurrent_runs"] = 3
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "jobs.py").write_text(JOBS)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        align(instance)  # as `traube dev` begins: without it the queue would start the first trainings all at once
    command = [Path(sys.executable).with_name("dagster-daemon"), "run", "-f", tmp_path / "jobs.py"]
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path), "PYTHONPATH": str(paths.PROJECT)}
    with (tmp_path / "log").open("w") as log:
        daemon = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            done = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])
            wait_for(lambda: len(instance.get_runs(done)) == 3, "the end of three runs")
    finally:
        daemon.terminate()
        daemon.wait()
    at_work = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("first", "second")}
    assert at_work == {"first": ["first", "outlast"], "second": ["outlast", "second"]}
