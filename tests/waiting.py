"""Wait for what happens in its own time: a test states the condition, and no sleep decides."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 600  # seconds, on a machine that does much else; nothing takes longer because of it


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Return what a condition gives once it is true.

    Raises
    ------
    AssertionError
        If it is not within some seconds.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")
