"""A month of nightly checkpoints, by the clock of libfaketime: disk and catalog stop to grow (benchmarks/year.py)."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from traube._core import paths

# a checkpoint is removed after a week, what it left is forgotten a week later: from then on nothing may grow
DAYS = 30
PARTS = ("home_mb", "catalog_mb", "mlflow_mb", "dagster_mb")


def load_benchmark(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, paths.PROJECT / "benchmarks" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.e2e
def test_a_month_of_checkpoints_does_not_let_the_data_directory_grow_on(tmp_path: Path) -> None:
    year = load_benchmark("year")
    if year.find_library() is None:
        pytest.skip("libfaketime is not installed (Debian: apt install faketime)")
    rows = year.live_through(DAYS, 1, tmp_path)
    assert len(rows) == DAYS
    ratios = year.compare_weeks(rows)
    assert {part: ratio for part in PARTS if (ratio := ratios[part]) > 2} == {}

    def growth(part: str, first: int, last: int) -> float:
        return float(rows[last][part] - rows[first][part]) / (last - first)

    # what is never removed grows by as much a night as in the first week
    at_first, at_last = ({part: growth(part, *week) for part in PARTS} for week in ((1, 6), (22, 29)))
    assert min(at_first.values()) > 0.01  # something was measured
    assert {part: at_last[part] for part in PARTS if at_last[part] > at_first[part] / 2} == {}
