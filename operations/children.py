"""The processes of `traube dev`, which end with it or, where it was killed (`kill -9`), at its next start."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from traube._core import paths, stopping
from traube._core.disk import read_json
from traube._core.errors import Busy, Failed
from traube._core.files import write_json

SECONDS_TO_STOP = 1.0


class Children:
    """Processes by name, each in a session of its own.

    Ctrl-C reaches their parent alone; the processes and their children end with it.
    """

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        """Start a process in the folder of Dagster's instance.

        Dagster takes any variable from a .env in the folder where it starts, such as the project's or the data
        directory's.
        """
        from resources.databases import get_dagster_home

        folder = get_dagster_home()
        folder.mkdir(parents=True, exist_ok=True)
        with stopping.defer():  # a signal amid Popen would leave a process that nobody knows of
            self._processes[name] = subprocess.Popen(command, cwd=folder, start_new_session=True)  # noqa: S603
            write_json(_record_path(), {str(p.pid): _get_start_time(p.pid) for p in self._processes.values()})

    def check(self) -> None:
        """Raise an error if a process has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise Failed(f"{name} stopped unexpectedly with exit code {process.returncode}; its messages are above")

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Wait until something is ready; raise an error if a process has ended before."""
        while not ready():
            self.check()
            time.sleep(0.1)

    def watch(self, look: Callable[[], None] = lambda: None) -> None:
        """Wait until Ctrl-C, with a look twice a second, then ask the processes to end, each by itself.

        The first one, which serves the others, ends last. A run of Dagster's is cut off and canceled.
        """
        try:
            while True:
                self.check()
                look()
                time.sleep(0.5)
        except KeyboardInterrupt:
            terminated = list(self._processes.values())[1:]
            for process in terminated:
                process.terminate()
            deadline = time.monotonic() + SECONDS_TO_STOP
            for process in terminated:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
            raise

    def kill(self) -> None:
        """End the processes and their children at once.

        On return the children are gone too, however busy the machine is.
        """
        for process in self._processes.values():
            _kill(process.pid)  # also one that has ended: dagster's code server's child may outlive it
        for process in self._processes.values():
            process.wait()
        deadline = time.monotonic() + SECONDS_TO_STOP
        while any(_is_alive(process.pid) for process in self._processes.values()) and time.monotonic() < deadline:
            time.sleep(0.02)
        _record_path().unlink(missing_ok=True)


@contextmanager
def ensure_alone() -> Iterator[None]:
    """Keep to one `traube dev` in a data directory, and end what a killed one left.

    Two daemons would start each nightly run twice.
    """
    try:
        lock = FileLock(f"{_record_path()}.lock").acquire(timeout=0)
    except Timeout:
        raise Busy(
            f"`traube dev` runs already for {paths.home()}; stop it, or set TRAUBE_HOME to another folder"
        ) from None
    with lock:
        for pid, began in read_json(_record_path()).items():
            if began and _get_start_time(int(pid)) == began:
                _kill(int(pid))
        _record_path().unlink(missing_ok=True)
        yield


def is_served() -> bool:
    """Return whether a `traube dev` runs in this data directory."""
    try:
        with FileLock(f"{_record_path()}.lock", timeout=0):
            return False
    except Timeout:
        return True


def _record_path() -> Path:
    return paths.home() / "dev.json"


def _get_start_time(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # macOS refuses where all have ended and none was waited for
        return False
    return True


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
