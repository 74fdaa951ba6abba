"""What a block of work took."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from traube.core.measure import measured


def test_the_clock_counts_the_block_and_stops_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 12.5, 20.0, 21.0])
    monkeypatch.setattr("traube.core.measure.time", SimpleNamespace(perf_counter=lambda: next(times)))
    with measured() as taken:
        pass
    with pytest.raises(ValueError, match="no"), measured() as failed:
        raise ValueError("no")
    assert (taken.seconds, failed.seconds) == (2.5, 1.0)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux says what the peak was")
def test_memory_is_that_of_the_block_alone() -> None:
    with measured() as large:
        np.ones(25_000_000).sum()  # 200 MB, given back at once
    with measured() as small:
        np.ones(1_000).sum()
    assert 150 < large.memory < 300
    assert small.memory < 50  # the peak before is forgotten
