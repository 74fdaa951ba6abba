"""What a block of work took."""

import time
from pathlib import Path

import numpy as np
import pytest

from traube.foundation.measure import measured


def test_the_clock_counts_the_block_and_stops_when_it_fails() -> None:
    with measured() as taken:
        time.sleep(0.05)
    assert 0.05 <= taken.seconds < 5
    with pytest.raises(ValueError, match="no"), measured() as failed:
        raise ValueError("no")
    assert failed.seconds < taken.seconds


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux says what the peak was")
def test_memory_is_that_of_the_block_alone() -> None:
    with measured() as large:
        np.ones(25_000_000).sum()  # 200 MB, given back at once
    with measured() as small:
        np.ones(1_000).sum()
    assert 150 < large.memory < 300
    assert small.memory < 50  # the peak before is forgotten
