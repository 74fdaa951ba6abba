"""Processes that end with the command that has started them: with its end or, where it was killed
(`kill -9`), at its next start.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from traube.foundation.errors import TraubeError
from traube.foundation.files import read_json, write_json

SECONDS_TO_STOP = 1.0  # a run that is cut off is ended by the next start, and tried again


class Children:
    """Processes by name, each in a session of its own, so that Ctrl-C reaches their parent alone and
    each one's children are stopped with it.

    Parameters
    ----------
    record : a file that says which processes there are
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        """Start one in the home, since dagster lets a .env of the folder it starts in overrule the
        environment: that of the project may name another home.
        """
        home = self._record.parent
        self._processes[name] = subprocess.Popen(command, cwd=home, start_new_session=True)  # noqa: S603
        write_json(self._record, {str(p.pid): _began(p.pid) for p in self._processes.values()})

    def check(self) -> None:
        """Raise an error if one has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise TraubeError(
                    f"{name} stopped unexpectedly with exit code {process.returncode}; its messages are above"
                )

    def wait_for(self, ready: Callable[[], bool]) -> None:
        while not ready():
            self.check()
            time.sleep(0.1)

    def watch(self) -> None:
        """Until Ctrl-C; then they are asked to end, each by itself. A run of Dagster's is not asked:
        it is cut off.
        """
        try:
            while True:
                self.check()
                time.sleep(0.5)
        except KeyboardInterrupt:
            for process in self._processes.values():
                process.terminate()
            deadline = time.monotonic() + SECONDS_TO_STOP
            for process in self._processes.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
            raise

    def kill(self) -> None:
        """End them and their children at once."""
        for process in self._processes.values():
            _kill(process.pid)  # also one that has ended: dagster's code server's child may outlive it
        for process in self._processes.values():
            process.wait()
        self._record.unlink(missing_ok=True)


def end_leftovers(record: Path) -> None:
    """End the processes of a command that was killed, which would go on without it."""
    for pid, began in read_json(record).items():
        if began and _began(int(pid)) == began:
            _kill(int(pid))
    record.unlink(missing_ok=True)


def _began(pid: int) -> float | None:
    """When a process began; None if there is none of that id."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
