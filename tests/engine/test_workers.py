"""The worker processes: how many there are, and what is said when one is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE, STDOUT

import numpy as np
import psutil
import pytest

from tests.made import cells_of
from traube.engine import workers
from traube.engine.evaluate import evaluate_cells
from traube.foundation.errors import TraubeError
from traube.methods import register_clusterer
from traube.models import load_model
from traube.tasks.task import Task


@pytest.mark.parametrize("value", ["0", "two", ""])
def test_a_number_of_workers_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TRAUBE_WORKERS", value)
    with pytest.raises(TraubeError, match=f"^TRAUBE_WORKERS is '{value}'; it must be a whole number from 1$"):
        workers.count()


@pytest.mark.e2e
def test_ctrl_c_while_workers_start_shows_no_traceback_of_theirs(tmp_path: Path) -> None:
    """It reaches the whole process group. The parent decides what becomes of them."""
    script = tmp_path / "starts.py"
    script.write_text(
        "import signal, time\n"
        "from traube.engine import workers\n"
        "signal.signal(signal.SIGINT, lambda *_: print('heard', flush=True))\n"
        "workers.warm_up([]), workers.process('checks')\n"
        "print('started', flush=True)\n"
        "while True: time.sleep(0.05)\n"
    )
    command = [sys.executable, str(script)]
    process = subprocess.Popen(command, stdout=PIPE, stderr=STDOUT, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    for _ in range(15):
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "heard\n"
        time.sleep(0.1)
    assert len(psutil.Process(process.pid).children(recursive=True)) >= workers.count() + 1
    os.killpg(process.pid, signal.SIGKILL)
    assert process.communicate()[0] == ""


@pytest.mark.e2e
def test_workers_end_with_a_parent_that_is_killed_even_at_work(tmp_path: Path) -> None:
    script = tmp_path / "works.py"
    script.write_text(
        "import os, time\n"
        "from traube.engine import workers\n"
        "both = workers.pool(), workers.process('checks')\n"
        "print(*(pool.submit(os.getpid).result() for pool in both), flush=True)\n"
        "[pool.submit(time.sleep, 900) for pool in both]\n"
        "time.sleep(900)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        started = [psutil.Process(pid) for pid in pids]
        process.kill()
    assert len(started) == 2
    assert not psutil.wait_procs(started, timeout=300)[1]


kept: list[np.ndarray] = []


def grow(megabytes: int) -> int:
    """Hold on to memory, or let go of it all; the process that does."""
    kept.append(np.ones(megabytes * 2**17))
    if not megabytes:
        kept.clear()
    time.sleep(1.1 if megabytes else 0)  # loky looks at most once a second
    return os.getpid()


def test_a_worker_that_has_grown_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another would have to import and to compile everything anew."""
    monkeypatch.setenv("TRAUBE_WORKERS", "1")
    assert len({workers.pool().submit(grow, megabytes).result() for megabytes in (0, 400, 0)}) == 1


@pytest.mark.usefixtures("registries")
def test_a_killed_worker_is_one_clear_error_and_the_next_run_works(tiny_task: Task) -> None:
    class Doomed:
        def __init__(self, n_clusters: int) -> None: ...

        def fit_predict(self, X: np.ndarray) -> np.ndarray:
            os.kill(os.getpid(), signal.SIGKILL)  # as the system does to a process that takes too much memory
            return np.zeros(len(X), dtype=np.int64)

    register_clusterer("doomed", Doomed)
    with pytest.raises(TraubeError, match=r"^a worker process was killed, most likely for lack of memory; what is fin"):
        evaluate_cells(tiny_task, load_model("bow"), cells_of(tiny_task, "none/doomed"))
    scores, _ = evaluate_cells(tiny_task, load_model("bow"), cells_of(tiny_task, "none/kmeans"))
    assert len(scores)
