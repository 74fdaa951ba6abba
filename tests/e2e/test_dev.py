"""`traube dev` ends on every signal to stop, and shows nothing of what ends inside it."""

import shutil
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import dagster as dg
import psutil
import pytest

from sensors.lost_runs import end_lost_runs
from tests.e2e.conftest import Servers, answers, environment_in, free_port
from tests.platform.conftest import PARAMS, copy_template, word_rows, write_task
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path: Path, templates: Path) -> Path:
    """A benchmark, and a home with its databases."""
    copy_template(templates, "new", tmp_path / "home")
    (tmp_path / "cards").mkdir()
    write_task(tmp_path / "cards", "words", word_rows())
    (tmp_path / "params.yaml").write_text(PARAMS)
    return tmp_path


INTERRUPTED = """
import os, signal, subprocess, time
from operations.children import Children
from traube._core import stopping

class Interrupted(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        print(self.pid, flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)

stopping.watch()
subprocess.Popen, children = Interrupted, Children()
try:
    children.start("a server", "sleep", "3600")
finally:
    children.kill()
"""


def test_a_server_that_is_being_started_when_ctrl_c_comes_is_ended_too(folder: Path) -> None:
    with (folder / "log").open("w") as log:  # a pipe would be held open by a server that is left
        subprocess.run([sys.executable, "-c", INTERRUPTED], env=environment_in(folder), stdout=log, stderr=log)
    pid, *rest = (folder / "log").read_text().splitlines()
    assert "Stopped" in rest[-1]
    assert not psutil.pid_exists(int(pid))


def has_begun(servers: Servers, processes: int) -> bool:
    return bool(servers.log.read_text()) and len(servers.processes()) >= processes


def test_whatever_tells_it_to_end_it_ends_with_all_its_processes(folder: Path) -> None:
    for processes, by in ((1, signal.SIGTERM), (2, signal.SIGINT)):  # as it begins, and among its servers' starts
        servers = Servers(folder)
        wait_for(partial(has_begun, servers, processes), "beginning")
        servers.stop(by)
        assert not any(map(answers, servers.ports))
    said = servers.log.read_text()
    assert not any(word in said for word in ("Traceback", "Aborted"))


def test_a_run_that_ctrl_c_cuts_off_is_canceled_and_not_tried_again(
    folder: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_bert, folder / "checkpoints" / "fresh")  # which a sensor has evaluated
    servers = Servers(folder).wait()
    with dg.DagsterInstance.from_config(str(folder / "home" / "dagster")) as instance:
        started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
        wait_for(lambda: instance.get_runs(started), "the run of the sensor")
        servers.stop(signal.SIGINT)
        monkeypatch.setenv("TRAUBE_HOME", str(folder / "home"))
        assert end_lost_runs(instance) == []  # as the next start does: a busy machine may leave it to that
        assert {run.status for run in instance.get_runs()} == {dg.DagsterRunStatus.CANCELED}


def test_what_a_killed_one_left_is_ended_by_the_next_and_there_is_but_one(folder: Path) -> None:
    """Its daemon would start nightly runs beside that of the next."""
    killed = Servers(folder).wait()
    left = {p.pid for p in killed.processes()} - {killed.process.pid}
    second = Servers(folder)
    assert second.process.wait(PATIENCE) == 1
    assert "`traube dev`" in second.said()
    killed.process.kill()
    killed.process.wait()
    assert left & {p.pid for p in killed.processes()}
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        last = Servers(folder, (taken, free_port())).wait()
        assert f"port {taken} is in use; Dagster uses {last.ports[0]} instead" in last.said()
        last.stop(signal.SIGHUP)  # the terminal was closed
    assert not left & {p.pid for p in killed.processes()}
    said = killed.said()
    assert not any(word in said for word in ("Traceback", "Aborted"))


def test_a_card_that_is_added_while_it_runs_is_read_and_stops_nothing(folder: Path) -> None:
    servers = Servers(folder).wait()
    with dg.DagsterInstance.from_config(str(folder / "home" / "dagster")) as instance:

        def read() -> set[str]:
            return {key.path[0] for key in instance.get_asset_keys() if key.path[-1] == "splits"}

        wait_for(lambda: "words" in read(), "the sensor's first run")
        write_task(folder / "cards", "more", word_rows())
        (folder / "params.yaml").write_text(PARAMS.replace("[words]", "[words, more]"))
        wait_for(lambda: "more" in read(), "the sensor's run of the task that was added")
        runs = instance.get_runs(dg.RunsFilter(job_name="datasets"))
        wait_for(lambda: all(run.is_finished for run in instance.get_runs()), "the end of all runs")
        assert len(runs) == 2 and not [run for run in instance.get_runs() if run.status == dg.DagsterRunStatus.FAILURE]
    servers.stop()
    assert not (folder / "home" / "alerts.jsonl").exists()  # no tick failed
