"""Processes of this machine, by loky: each keeps to one thread, and ends with the process that started it."""

import os
import signal
import sys
import threading
import time
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

from traube._core.collector import collect_less

if TYPE_CHECKING:
    from joblib.externals.loky import ProcessPoolExecutor

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
IDLE_SECONDS = 600  # a training in this process may go on for hours, in which nothing else is done


def start_processes(n: int) -> "ProcessPoolExecutor":
    """Start processes, with Ctrl-C blocked.

    Ctrl-C reaches the whole process group: each process would show a traceback while it imports, before `_start`. The
    thread that starts others when these end has it blocked too.
    """
    from joblib.externals.loky import ProcessPoolExecutor

    executor = ProcessPoolExecutor(n, timeout=IDLE_SECONDS, env=ONE_THREAD, initializer=_start, initargs=(os.getpid(),))
    resource_tracker.ensure_running()  # starting it later would unblock Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        executor.submit(int)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return executor


def _start(parent: int) -> None:
    def end_with_parent() -> None:
        # a parent that is killed sends no notice, and its workers would go on
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    # Ctrl-C reaches the whole process group; the parent decides when the workers end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_less()
    # its own lock would be a semaphore of the system, which the resource tracker would report, after the last line of
    # the command, where an error ends the workers
    from tqdm import tqdm  # type: ignore[import-untyped]

    tqdm.set_lock(threading.RLock())
    # loky ends a worker that has grown by 300 MB since its first job: compiled code and mapped vectors are no leak.
    # It has no setting for that, so this is one of the private names in docs/explanation/decisions/33. A loky without the
    # name works, and starts such workers again.
    from joblib.externals.loky import process_executor

    if hasattr(process_executor, "_MAX_MEMORY_LEAK_SIZE"):
        process_executor._MAX_MEMORY_LEAK_SIZE = sys.maxsize
