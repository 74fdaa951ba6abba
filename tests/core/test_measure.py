"""What a block of work took."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from traube.core.measure import measured


def test_the_clock_counts_the_block_and_stops_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 12.5, 20.0, 21.0])
    clock = SimpleNamespace(perf_counter=lambda: next(times), process_time=lambda: 0.0)
    monkeypatch.setattr("traube.core.measure.time", clock)
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


def test_who_yields_to_others_counts_no_time_that_was_theirs() -> None:
    code = (
        "import os, sys, time; os.nice(int(sys.argv[1])); from traube.core.measure import measured\n"
        "with measured() as taken: time.sleep(0.5)\n"
        "with measured(None) as on_gpu: time.sleep(0.5)\n"
        "print(taken.seconds, on_gpu.seconds)"
    )
    seconds = {
        niceness: [float(part) for part in subprocess.check_output([sys.executable, "-c", code, niceness]).split()]
        for niceness in ("0", "5")
    }
    assert min(*seconds["0"], seconds["5"][1]) >= 0.5
    assert seconds["5"][0] < 0.4
