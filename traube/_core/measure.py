"""Measurement of time and memory."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Measured:
    """Measurements of a block; filled when the block ends."""

    seconds: float = float("nan")  # by the clock
    at_work: float = float("nan")  # seconds of cores that all threads of the process had
    own: float = float("nan")  # part of `at_work`: seconds of the measuring thread
    # megabytes at the highest point, beyond what the process held before; nan on systems that, unlike Linux, do not report it
    memory: float = float("nan")

    def seconds_on(self, cores: int = 1) -> float:
        """Return the seconds that the block would take with so many cores for itself, without other work on the machine.

        The estimate assumes that one core does the work of the measuring thread, and all cores do the rest.
        """
        return min(self.seconds, self.own + (self.at_work - self.own) / cores)


@dataclass(frozen=True)
class Cost:
    """The cost of encoding, reducing or clustering some texts."""

    texts: int
    seconds: float  # with the cores for itself
    memory: float  # megabytes at the highest point; nan where it cannot be measured
    money: float = math.nan  # dollars paid to an endpoint; nan where nothing is paid, or no price is known


@contextmanager
def measure() -> Iterator[Measured]:
    """Measure a block. Blocks are not nested: each resets earlier peaks."""
    taken = Measured()
    try:
        _FORGET.write_text("5")  # the system counts the peak from here
        before = _megabytes("VmRSS")
    except OSError:
        before = float("nan")
    clock, at_work, thread_clock = time.perf_counter(), time.process_time(), time.thread_time()
    try:
        yield taken
    finally:
        taken.seconds = time.perf_counter() - clock
        taken.at_work, taken.own = time.process_time() - at_work, time.thread_time() - thread_clock
        taken.memory = max(_megabytes("VmHWM") - before, 0.0)  # nan stays nan: it is the first argument


def _megabytes(name: str) -> float:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return float("nan")
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), float("nan"))
