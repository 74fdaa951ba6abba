"""kill -9 in the middle of a night: after a restart the night is finished, nothing is lost or doubled, the queue is free."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import psutil
import pytest

from sensors.lost_runs import find_process
from tests.e2e.conftest import Servers
from tests.made import chance_of_today
from tests.platform.conftest import copy_template, word_rows, write_task
from tests.waiting import PATIENCE, wait_for
from traube._pipeline.params import load_params
from traube._pipeline.request import Request
from traube._pipeline.survey import plan
from traube._storage import CellRow, Storage, open_storage

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
EVERY_MINUTE = """
protocol: tiny
tasks: [words]
models: [bow, tfidf]
nightly: {cron: "* * * * *", timezone: UTC}
protocols:
  tiny:
    reducers: [none, umap]
    clusterers: [minibatch_kmeans, hdbscan]
    seeds: [1, 2, 3, 4, 5, 6]
"""
OPEN = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]


@pytest.fixture
def storage(tmp_path: Path, templates: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """The storage of a home of its own, with a small benchmark to fill it."""
    copy_template(templates, "new", tmp_path / "home")
    (tmp_path / "cards").mkdir()
    (tmp_path / "params.yaml").write_text(EVERY_MINUTE)
    write_task(tmp_path / "cards", "words", word_rows())
    for name, place in (
        ("HOME", "home"),
        ("CARDS", "cards"),
        ("PARAMS", "params.yaml"),
        ("CHECKPOINTS", "checkpoints"),
    ):
        monkeypatch.setenv(f"TRAUBE_{name}", str(tmp_path / place))
    return open_storage(tmp_path / "home")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Servers]]:
    """Starts the servers; whatever is left at the end is killed."""
    started: list[Servers] = []

    def servers() -> Servers:
        started.append(Servers(tmp_path))
        return started[-1].wait()

    yield servers
    for last in started:
        last.kill()


def kill_worker(home: Path) -> None:
    """kill -9 of the process in which the present run lives."""
    with dg.DagsterInstance.from_config(str(home / "dagster")) as instance:
        started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])
        (run,) = wait_for(lambda: instance.get_runs(started), "a run at work")  # none is, between two
        process = find_process(instance, run)
    assert process is not None
    psutil.Process(process[0]).kill()


def test_a_night_survives_whatever_is_killed(tmp_path: Path, storage: Storage, start: Callable[[], Servers]) -> None:
    servers = start()
    wait_for(lambda: storage.read_rows(CellRow), "the first clustering of the night")
    kill_worker(tmp_path / "home")
    before = len(storage.read_rows(CellRow))
    wait_for(lambda: len(storage.read_rows(CellRow)) > before, "going on after the worker was killed")
    assert servers.kill("mlflow")
    assert servers.kill()  # the daemon with its worker, the web server, everything
    servers.process.wait(PATIENCE)

    servers = start()
    params = load_params()
    request = Request(params.tasks, params.models, params.protocol, params.chosen())
    wait_for(lambda: plan(request, storage).count == 0, "finishing the night", 2 * PATIENCE)
    cells = storage.read_cells()
    assert len(cells) == plan(request, storage).total == 2 * (3 * 6 + 1)
    assert set(cells["status"]) == {"done", "unsupported"}
    assert not cells.duplicated(["task", "model", "reducer", "clusterer", "seed"]).any()
    board = storage.get_table_path("leaderboard.csv")
    wait_for(lambda: board.exists() and "tfidf" in board.read_text(), "publishing")

    with dg.DagsterInstance.from_config(str(tmp_path / "home" / "dagster")) as instance:
        runs = [run.run_id for run in instance.get_runs()]  # each minute adds others
        unfinished = dg.RunsFilter(run_ids=runs, statuses=OPEN)
        wait_for(lambda: not instance.get_runs(unfinished), "ending the runs that were begun or waited")
    servers.stop()


def test_a_command_that_was_killed_is_begun_again_and_loses_nothing(tmp_path: Path, storage: Storage) -> None:
    command = [str(Path(sys.executable).parent / "traube"), "run"]

    few = chance_of_today().randint(0, 30)  # of 38
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(storage.read_rows(CellRow)) > few, "the first clusterings")
    first.kill()
    first.wait()
    kept = {row.cell_id: row.created for row in storage.read_rows(CellRow, status="done")}

    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0
    assert "was lost: its process no longer exists. Its finished cells are kept" in again.stderr
    params = load_params()
    assert plan(Request(params.tasks, params.models, params.protocol, params.chosen()), storage).count == 0
    assert not storage.read_cells().duplicated(["task", "model", "reducer", "clusterer", "seed"]).any()
    assert storage.verify() == []
    assert (
        kept.items() <= {row.cell_id: row.created for row in storage.read_rows(CellRow)}.items()
    )  # what was finished was not computed again
    with dg.DagsterInstance.from_config(str(tmp_path / "home" / "dagster")) as instance:
        assert not instance.get_runs(dg.RunsFilter(statuses=OPEN))
