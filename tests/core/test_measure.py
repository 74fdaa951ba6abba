"""Time and memory of a block of work."""

import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.errors import refused
from traube._core.measure import Measured, measure


def test_the_clock_counts_the_block_and_stops_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 12.5, 20.0, 21.0])
    clock = SimpleNamespace(perf_counter=lambda: next(times), process_time=lambda: 0.0, thread_time=lambda: 0.0)
    monkeypatch.setattr("traube._core.measure.time", clock)
    with measure() as taken:
        pass
    with refused(ValueError), measure() as failed:
        raise ValueError("no")
    assert (taken.seconds, failed.seconds) == (2.5, 1.0)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux says what the peak was")
def test_memory_is_that_of_the_block_alone() -> None:
    with measure() as large:
        np.ones(25_000_000).sum()  # 200 MB, given back at once
    with measure() as small:
        np.ones(1_000).sum()
    assert 150 < large.memory < 300
    assert small.memory < 50  # the peak before is forgotten


def test_what_others_had_of_the_cores_does_not_count() -> None:
    with measure() as taken:
        time.sleep(0.3)  # as if others were at work
    assert taken.seconds >= 0.3
    assert taken.seconds_on() < 0.2


def test_what_many_threads_do_takes_as_long_as_the_cores_for_it_are_few() -> None:
    taken = Measured(seconds=100.0, at_work=22.0, own=2.0)
    assert [taken.seconds_on(cores) for cores in (1, 2, 10)] == [22.0, 12.0, 4.0]
    assert Measured(seconds=3.0, at_work=22.0, own=2.0).seconds_on(2) == 3.0  # never more than by the clock
