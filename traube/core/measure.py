"""How long something took, and how much memory."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Measured:
    """What a block took; filled when it ends."""

    seconds: float = float("nan")  # by the clock
    # megabytes at the highest point, beyond what the process held before; nan where the system, unlike Linux, is silent
    memory: float = float("nan")


@dataclass(frozen=True)
class Cost:
    """What it took to encode, to reduce or to cluster some texts."""

    texts: int
    seconds: float  # by the clock
    memory: float  # megabytes at the highest point; nan where it cannot be measured


@contextmanager
def measured() -> Iterator[Measured]:
    """Measure a block. Blocks are not measured inside each other: each forgets earlier peaks."""
    taken = Measured()
    try:
        _FORGET.write_text("5")  # the system counts the peak anew
        before = _megabytes("VmRSS")
    except OSError:
        before = float("nan")
    began = time.perf_counter()
    try:
        yield taken
    finally:
        taken.seconds = time.perf_counter() - began
        taken.memory = max(_megabytes("VmHWM") - before, 0.0)  # nan stays nan: it is the first argument


def _megabytes(name: str) -> float:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return float("nan")
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), float("nan"))
