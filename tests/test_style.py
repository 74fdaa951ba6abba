"""`make lint` refuses what the style guide forbids: rules of ruff and numpydoc, and checks of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from numpydoc.hooks.validate_docstrings import parse_config, process_file

from traube.core import paths

GOOD = '''"""A module."""


def mean(values: list[float]) -> float:
    """Return the mean of values.

    Parameters
    ----------
    values : list of float
        At least one number.

    Returns
    -------
    float
        Their mean.
    """
    return sum(values) / len(values)
'''


def _find_faults(text: str, folder: Path) -> str:
    """Return what ruff and numpydoc say of a module, with the rules of pyproject.toml."""
    file = folder / "module.py"
    file.write_text(text)
    config = ["--config", str(paths.PROJECT / "pyproject.toml")]
    ruff = [sys.executable, "-m", "ruff", "check", *config, "--select", "D", "--output-format", "concise", str(file)]
    found = subprocess.run(ruff, capture_output=True, text=True).stdout.replace("All checks passed!\n", "")
    return found + str(process_file(file, parse_config(paths.PROJECT)) or "")


def test_a_docstring_in_the_field_s_form_passes(tmp_path: Path) -> None:
    assert _find_faults(GOOD, tmp_path) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "rule"),
    [
        ('    """Return the mean of values.\n', '    """What the mean of values is.\n', "D401"),
        ('    """Return the mean of values.\n', '    """Returns the mean of values.\n', "D401"),
        ('    """Return the mean of values.\n', '    """Return the mean of values\n', "D400"),
        ('    """Return the mean of values.\n', '    """Return the mean\n    of values.\n', "D205"),
        ("    values : list of float\n", "    values\n", "PR04"),
        ("    values : list of float\n", "    numbers : list of float\n", "PR02"),
        ("        At least one number.\n", "        at least one number.\n", "PR08"),
        ("        At least one number.\n", "", "PR07"),
        ("        Their mean.\n", "", "RT03"),
        ('"""A module."""\n', "", "D100"),
    ],
)
def test_a_docstring_that_the_style_guide_forbids_fails(tmp_path: Path, right: str, wrong: str, rule: str) -> None:
    assert right in GOOD
    assert rule in _find_faults(GOOD.replace(right, wrong), tmp_path)
