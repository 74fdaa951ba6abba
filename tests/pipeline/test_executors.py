"""Executors: what waits for what, how many jobs at once, and how the processes of this machine end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, STDOUT

import numpy as np
import pandas as pd
import psutil
import pytest

from tests.errors import refused
from tests.made import cells_of
from tests.waiting import wait_for
from traube import evaluate
from traube._core.errors import DoesNotFit, Failed, Invalid, Unknown
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.executors import (
    Executor,
    Failure,
    Job,
    ProcessExecutor,
    ensure_executor,
    make_executor,
    processes,
)
from traube._pipeline.executors.loky import start_processes
from traube.components import register_clusterer
from traube.models import load_model
from traube.tasks.task import Task

pytestmark = pytest.mark.usefixtures("in_a_process")


def note(path: Path, text: str, memory: int) -> str:
    """Write itself down."""
    assert memory > 0
    with path.open("a") as file:
        file.write(f"{text}\n")
    return text


def fail(message: str, memory: int) -> None:
    raise DoesNotFit(message)


def sleep(seconds: float, memory: int) -> None:
    time.sleep(seconds)


def test_nothing_to_do_gives_nothing(executor: Executor) -> None:
    assert list(executor.run([])) == []


def test_a_job_starts_after_the_one_it_waits_for_and_before_the_rest(tmp_path: Path, executor: Executor) -> None:
    path = tmp_path / "order"
    first = Job(note, (path, "first"))
    jobs = [
        Job(note, (path, "last of first"), after=first),
        first,
        *(Job(note, (path, f"other {i}")) for i in range(4)),
    ]
    outcomes = dict(executor.run(jobs))
    assert [outcomes[job] for job in jobs] == ["last of first", "first", "other 0", "other 1", "other 2", "other 3"]
    order = path.read_text().splitlines()
    # two are under way at once, so that the only worker always has a next one
    assert order.index("first") < order.index("last of first") < order.index("other 2")


def test_what_waits_for_a_job_that_failed_fails_alone(tmp_path: Path, executor: Executor) -> None:
    broken = Job(fail, ("too large",))
    then = Job(note, (tmp_path / "never", "then"), after=broken)
    last = Job(note, (tmp_path / "never", "last"), after=then)
    other = Job(note, (tmp_path / "other", "other"))
    outcomes = dict(executor.run([other, broken, then, last]))
    failure = Failure("unavailable", "too large")
    assert outcomes == {other: "other", broken: failure, then: failure, last: failure}
    assert not (tmp_path / "never").exists()


def test_who_stops_listening_stops_the_workers(executor: Executor) -> None:
    outcomes = executor.run([Job(sleep, (0.0,)), *(Job(sleep, (900.0,)) for _ in range(executor.n_workers))])
    next(outcomes)
    began = time.monotonic()
    outcomes.close()
    list(executor.run([Job(sleep, (0.0,))]))  # in new workers: the old ones would sleep on
    assert time.monotonic() - began < 600


@pytest.mark.parametrize("value", ["0", "two", ""])
def test_a_number_of_workers_that_is_none_is_refused(
    executor: Executor, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TRAUBE_WORKERS", value)
    with refused(Invalid, value, "TRAUBE_WORKERS", 1):
        executor.start()


def test_an_engine_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAUBE_ENGINE", "dask")
    with refused(Unknown, "dask", "local", "ray"):
        make_executor()


# the end of the processes


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[int]]:
    """The processes that a test has started: its executors share none with other tests."""
    for module in ("base", "processes"):
        monkeypatch.setattr(f"traube._pipeline.executors.{module}.start_processes", start_processes)
    before = {child.pid for child in psutil.Process().children()}

    def is_new(child: psutil.Process) -> bool:
        try:  # loky and Python have a resource tracker each, for the life of this process
            return child.pid not in before and not any("resource_tracker" in word for word in child.cmdline())
        except psutil.Error:  # it has ended
            return False

    return lambda: {child.pid for child in psutil.Process().children() if is_new(child)}


@pytest.mark.slow
def test_an_executor_leaves_no_process_behind(children: Callable[[], set[int]]) -> None:
    with ProcessExecutor() as executor:
        assert not children()  # it starts none before the first cell
        list(executor.run([Job(sleep, (0.0,))]))
        executor.call_apart(os.getpid).result()
        assert len(children()) == executor.n_workers + 1
    wait_for(lambda: not children(), "the end of the processes")


def test_what_is_raised_ends_an_executor_at_once(children: Callable[[], set[int]]) -> None:
    with suppress(KeyboardInterrupt), ProcessExecutor() as executor:
        executor.start()
        executor.submit(sleep, 900.0, memory=0)
        executor.call_apart(time.sleep, 900)
        raise KeyboardInterrupt
    assert not children()


@pytest.mark.slow
def test_an_evaluation_ends_its_own_executor_alone(tiny_task: Task, children: Callable[[], set[int]]) -> None:
    requested = cells_of(tiny_task, "none/kmeans")
    evaluate_cells(tiny_task, load_model("bow"), requested)
    wait_for(lambda: not children(), "the end of the process")
    with ProcessExecutor() as executor:
        evaluate_cells(tiny_task, load_model("bow"), requested, executor=executor)
        with ensure_executor(executor) as lent:
            assert lent is executor
        assert len(children()) == 1
    wait_for(lambda: not children(), "the end of the process")


@pytest.mark.usefixtures("two_workers")
def test_a_stopped_warm_up_starts_nothing(children: Callable[[], set[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    # processes of its own: those that tests share live on where all is done before it is stopped
    monkeypatch.setattr("traube._pipeline.executors.processes.start_processes", start_processes)

    def starters() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name != "QueueFeederThread"}  # which only sends

    before = starters()
    with ProcessExecutor() as executor:
        executor.warm_up([])
        executor.close(kill=True)
    wait_for(lambda: starters() <= before, "the end of the threads that could start processes")
    wait_for(lambda: not children(), "the end of the processes")


@pytest.mark.e2e
def test_ctrl_c_while_workers_start_shows_no_traceback_of_theirs(tmp_path: Path) -> None:
    """It reaches the whole process group. The parent decides what becomes of them."""
    script = tmp_path / "starts.py"
    script.write_text(
        "import os, signal, time\n"
        "from traube._pipeline.executors import ProcessExecutor\n"
        "signal.signal(signal.SIGINT, lambda *_: print('heard', flush=True))\n"
        "executor = ProcessExecutor()\n"
        "executor.warm_up([]), executor.call_apart(os.getpid)\n"
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
    assert len(psutil.Process(process.pid).children(recursive=True)) >= ProcessExecutor().n_workers + 1
    os.killpg(process.pid, signal.SIGKILL)
    assert process.communicate()[0] == ""


@pytest.mark.e2e
def test_workers_end_with_a_parent_that_is_killed_even_at_work(tmp_path: Path) -> None:
    script = tmp_path / "works.py"
    script.write_text(
        "import os, time\n"
        "from traube._pipeline.executors import ProcessExecutor\n"
        "executor = ProcessExecutor()\n"
        "executor.start()\n"
        "worker = executor.submit(lambda memory: os.getpid(), memory=0).result()\n"
        "print(worker, executor.call_apart(os.getpid).result(), flush=True)\n"
        "executor.submit(lambda memory: time.sleep(900), memory=0), executor.call_apart(time.sleep, 900)\n"
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


def grow(megabytes: int, memory: int) -> int:
    """Hold on to memory, or let go of it all; the process that does."""
    kept.append(np.ones(megabytes * 2**17))
    if not megabytes:
        kept.clear()
    time.sleep(1.1 if megabytes else 0)  # loky looks at most once a second
    return os.getpid()


def test_a_worker_that_has_grown_goes_on(executor: Executor) -> None:
    """Another would have to import and to compile everything again."""
    assert len({process for _, process in executor.run([Job(grow, (megabytes,)) for megabytes in (0, 400, 0)])}) == 1


def end(memory: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # as the system does to a process that takes too much memory


@pytest.mark.slow
def test_workers_that_were_killed_before_a_run_are_replaced(executor: Executor) -> None:
    executor.start()
    assert isinstance(executor.submit(end, memory=0).exception(), BrokenProcessPool)
    assert list(executor.run([job := Job(sleep, (0.0,))])) == [(job, None)]


@pytest.mark.usefixtures("registries")
def test_a_killed_worker_is_one_clear_error_and_the_next_run_works(tiny_task: Task, executor: Executor) -> None:
    class Doomed:
        def __init__(self, n_clusters: int) -> None: ...

        def fit_predict(self, X: np.ndarray) -> np.ndarray:
            end(memory=0)
            return np.zeros(len(X), dtype=np.int64)

    register_clusterer("doomed", Doomed)
    bow = load_model("bow")
    with refused(Failed):
        evaluate_cells(tiny_task, bow, cells_of(tiny_task, "none/doomed"), executor=executor)
    scores, _ = evaluate_cells(tiny_task, bow, cells_of(tiny_task, "none/kmeans"), executor=executor)
    assert len(scores)


@pytest.mark.slow
def test_processes_that_are_ended_leave_the_last_line_to_the_command() -> None:
    """A bar of tqdm makes a semaphore, which the resource tracker reports once all is over, when its process was ended."""
    code = """
import sys
from traube._pipeline.executors.loky import start_processes
def draw():
    from tqdm import tqdm
    return len(list(tqdm(range(2), file=open("/dev/null", "w"))))
executor = start_processes(1)
assert executor.submit(draw).result() == 2
executor.shutdown(kill_workers=True)
print("error: the disk is full", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "error: the disk is full\n")


def test_few_texts_are_worked_on_without_processes_to_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{'apple pear plum' if i % 2 else 'crew ship mast'} {i} {i % 7}" for i in range(60)]
    methods = ["none/minibatch_kmeans", "pca/agglomerative", "umap/hdbscan"]
    tables = []
    for most, name in ((0, "nothing"), (5_000, "start_processes")):
        monkeypatch.setattr(processes, "LITTLE", most)
        monkeypatch.setattr(processes, name, lambda _: pytest.fail("starts processes"), raising=False)
        found = evaluate(texts, "tfidf", methods, labels=[str(i % 2) for i in range(60)]).scores
        tables.append(found.sort_values(["method", "metric"]).reset_index(drop=True))
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_without_processes_a_job_fails_those_after_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Job(fail, ("too large",), rows=1)
    then = Job(note, (tmp_path / "never", "then"), after=broken, rows=1)
    other = Job(note, (tmp_path / "other", "other"), rows=1)
    monkeypatch.setattr(processes, "LITTLE", 3)
    with ProcessExecutor() as executor:
        outcomes = dict(executor.run([then, broken, other]))
    assert outcomes[broken] == outcomes[then] and "too large" in outcomes[then].reason
    assert not (tmp_path / "never").exists() and (tmp_path / "other").exists()
