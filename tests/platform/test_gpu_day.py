"""`make bench-gpu`: its part `tests`, which is done only when they passed."""

import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from traube._core import paths

MARKED = "import pytest\n\n@pytest.mark.gpu\ndef test_it():\n    {}\n"


@pytest.fixture
def gpu_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The program, in a checkout with other tests."""
    spec = spec_from_file_location("gpu_day", paths.PROJECT / "benchmarks" / "gpu_day.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_day", module)
    spec.loader.exec_module(module)
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hydra_pytest\nmarkers = gpu\n")
    monkeypatch.setattr(paths, "PROJECT", tmp_path)
    return module


@pytest.mark.parametrize(
    ("body", "tiny", "passes"),
    [
        ("assert False", False, False),
        pytest.param("assert True", False, True, marks=pytest.mark.slow),
        pytest.param("pytest.skip('no GPU')", False, False, marks=pytest.mark.slow),
        pytest.param("pytest.skip('no GPU')", True, True, marks=pytest.mark.slow),
    ],
)
def test_tests_that_fail_are_reported_and_done_again(
    gpu_day: ModuleType, tmp_path: Path, body: str, tiny: bool, passes: bool
) -> None:
    (tmp_path / "tests" / "test_marked.py").write_text(MARKED.format(body))
    day = gpu_day.Day(tmp_path, tiny, time.monotonic() + 600)
    missing = gpu_day.measure(day, ["tests"])
    assert (not missing, day.has("tests", "marked gpu")) == (passes, passes)
    assert passes or "failures" in missing["tests, marked gpu"]
    (tmp_path / "tests" / "test_marked.py").write_text(MARKED.format("pass"))
    assert gpu_day.measure(day, ["tests"]) == {}
    assert day.has("tests", "marked gpu")


def test_no_test_at_all_is_no_success(gpu_day: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tests" / "test_marked.py").write_text("# mark.gpu\n")
    assert gpu_day.measure(gpu_day.Day(tmp_path, True, time.monotonic() + 600), ["tests"])
