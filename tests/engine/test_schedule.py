"""Jobs in worker processes: what waits for what, how many at once, and what happens when one fails."""

import time
from pathlib import Path

import pytest

from traube.engine import workers
from traube.engine.schedule import Failure, Job, run
from traube.foundation.errors import DoesNotFit


def note(path: Path, text: str, memory: int) -> str:
    """A unit of work: writes itself down."""
    assert memory > 0
    with path.open("a") as file:
        file.write(f"{text}\n")
    return text


def fail(message: str, memory: int) -> None:
    raise DoesNotFit(message)


def sleep(seconds: float, memory: int) -> None:
    time.sleep(seconds)


def test_nothing_to_do_gives_nothing() -> None:
    assert list(run([])) == []


def test_a_job_starts_after_the_one_it_waits_for_and_before_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAUBE_WORKERS", "1")
    path = tmp_path / "order"
    first = Job(note, (path, "first"))
    jobs = [
        Job(note, (path, "last of first"), after=first),
        first,
        *(Job(note, (path, f"other {i}")) for i in range(4)),
    ]
    outcomes = dict(run(jobs))
    assert [outcomes[job] for job in jobs] == ["last of first", "first", "other 0", "other 1", "other 2", "other 3"]
    order = path.read_text().splitlines()
    # two are under way at once, so that the only worker always has a next one
    assert order.index("first") < order.index("last of first") < order.index("other 2")


def test_what_waits_for_a_job_that_failed_fails_with_it_and_the_others_go_on(tmp_path: Path) -> None:
    broken = Job(fail, ("too large",))
    then = Job(note, (tmp_path / "never", "then"), after=broken)
    last = Job(note, (tmp_path / "never", "last"), after=then)
    other = Job(note, (tmp_path / "other", "other"))
    outcomes = dict(run([other, broken, then, last]))
    failure = Failure("unavailable", "too large")
    assert outcomes == {other: "other", broken: failure, then: failure, last: failure}
    assert not (tmp_path / "never").exists()


def test_who_stops_listening_stops_the_workers() -> None:
    outcomes = run([Job(sleep, (0.0,)), *(Job(sleep, (900.0,)) for _ in range(workers.count()))])
    next(outcomes)
    began = time.monotonic()
    outcomes.close()
    list(run([Job(sleep, (0.0,))]))  # in new workers: the old ones would sleep on
    assert time.monotonic() - began < 600
