"""A month of nightly checkpoints, by the clock of libfaketime: disk and catalog stay what they were (benchmarks/year.py)."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from traube._core import paths

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
def test_after_a_month_of_checkpoints_the_data_directory_is_as_large_as_after_two_weeks(tmp_path: Path) -> None:
    year = load_benchmark("year")
    if year.find_library() is None:
        pytest.skip("libfaketime is not installed (Debian: apt install faketime)")
    rows = year.live_through(DAYS, 1, tmp_path)
    assert len(rows) == DAYS
    ratios = year.compare_weeks(rows)
    assert {part: ratio for part in PARTS if (ratio := ratios[part]) > 2} == {}
    assert rows[-1]["home_mb"] > 1  # something was measured
