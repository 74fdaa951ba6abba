"""How long something took, and how much memory."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Measured:
    """What a block took; filled when it ends."""

    seconds: float = float("nan")  # by the clock, where others do not go first
    # megabytes at the highest point, beyond what the process held before; nan where the system, unlike Linux, is silent
    memory: float = float("nan")


@dataclass(frozen=True)
class Cost:
    """What it took to encode, to reduce or to cluster some texts."""

    texts: int
    seconds: float  # by the clock
    memory: float  # megabytes at the highest point; nan where it cannot be measured


@contextmanager
def measured(cores: int | None = 1) -> Iterator[Measured]:
    """Measure a block. Blocks are not measured inside each other: each forgets earlier peaks.

    Where this process yields to others (`nice`), the clock would count what others did meanwhile. Its seconds are then
    those of the cores that the block keeps busy; None: of a GPU, where there is only the clock.
    """
    taken = Measured()
    try:
        _FORGET.write_text("5")  # the system counts the peak anew
        before = _megabytes("VmRSS")
    except OSError:
        before = float("nan")
    clock, at_work = time.perf_counter(), time.process_time()
    try:
        yield taken
    finally:
        taken.seconds = time.perf_counter() - clock
        if cores and os.getpriority(os.PRIO_PROCESS, 0) > 0:
            taken.seconds = min(taken.seconds, (time.process_time() - at_work) / cores)
        taken.memory = max(_megabytes("VmHWM") - before, 0.0)  # nan stays nan: it is the first argument


def _megabytes(name: str) -> float:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return float("nan")
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), float("nan"))
