"""How long something took, and how much memory."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Measured:
    """What a block took; filled when it ends.

    Attributes
    ----------
    seconds : by the clock
    memory : megabytes at the highest point, beyond what the process held before; nan where the
        system does not say (only Linux does)
    """

    seconds: float = float("nan")
    memory: float = float("nan")


@dataclass(frozen=True)
class Cost:
    """What it took to encode, to reduce or to cluster some texts.

    Attributes
    ----------
    texts : int
        Their number.
    seconds : float
        By the clock.
    memory : float
        Megabytes at the highest point; nan where it cannot be measured.
    """

    texts: int
    seconds: float
    memory: float


@contextmanager
def measured() -> Iterator[Measured]:
    """Measure a block. Blocks are not measured inside each other: each forgets earlier peaks."""
    taken = Measured()
    before = _forget_peak()
    began = time.perf_counter()
    try:
        yield taken
    finally:
        taken.seconds = time.perf_counter() - began
        taken.memory = max(_megabytes("VmHWM") - before, 0.0)  # nan stays nan: it is the first argument


def _forget_peak() -> float:
    """Have the system count the peak anew; megabytes in use now, nan where it cannot."""
    try:
        _FORGET.write_text("5")
    except OSError:
        return float("nan")
    return _megabytes("VmRSS")


def _megabytes(name: str) -> float:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return float("nan")
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), float("nan"))
