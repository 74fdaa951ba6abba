"""`make lint` refuses what the style guide forbids: rules of ruff and numpydoc, and checks of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from numpydoc.hooks.validate_docstrings import parse_config, process_file

from deploy import check_style
from deploy.check_public import find_faults as find_missing_sections
from deploy.check_style import LONGEST, check, find_vague_names, main
from traube._core import paths
from traube._core.files import write_text

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


def test_a_public_function_without_sections_and_example_is_found() -> None:
    faults = " ".join(find_missing_sections(write_text))  # which is not public, and has one line
    assert all(rule in faults for rule in ("PR01", "EX01"))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("def told(text: str) -> None: ...", "'told': write reported"),
        ("is_steadiest = True", "'steadiest': write most stable"),
        ('"""Return it anew."""', "'anew': write again"),
        ("# the Labelled texts", "'labelled': write labeled"),
        ("by_neighbours()", "'neighbour': write neighbor"),
        ('"""Whether it rains."""', "a docstring starts with a question"),
    ],
)
def test_words_and_openings_that_the_style_guide_replaces_are_found(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(line)
    assert fault in " ".join(check(file))
    assert main([str(tmp_path)]) == 1


@pytest.mark.parametrize("line", ["masked = unasked = 1", "stolde = 2", '"""Return what they are, told apart."""'])
def test_other_words_and_ordinary_english_pass(tmp_path: Path, line: str) -> None:
    (tmp_path / "module.py").write_text(line)
    assert main([str(tmp_path)]) == 0


def test_the_body_of_a_function_is_limited_and_its_docstring_is_not(tmp_path: Path) -> None:
    file, documented = tmp_path / "module.py", "def step():\n" + '    """Do.\n' + "    More.\n" * LONGEST + '    """\n'
    file.write_text(documented + "    print()\n" * LONGEST)
    assert check(file) == []
    file.write_text(documented + "    print()\n" * (LONGEST + 1))
    assert "step has 61 lines, more than 60" in " ".join(check(file))


@pytest.mark.parametrize(
    "line",
    [
        "found = [1]",
        "def count(own: int) -> int: ...",
        "first = [shown[0] for shown in ([1], [2])]",
        "first = max([1], key=lambda found: -found)",
        "if own := 1: ...",
        "from rich import progress as shown",
    ],
)
def test_a_name_that_says_nothing_of_its_value_is_found(line: str) -> None:
    assert "call it by what it is" in " ".join(fault for _, fault in find_vague_names(line))


@pytest.mark.parametrize(
    "code",
    ["class Measured:\n    own: float = 0.0\n", "print(measured.own, shown=1)", "own_tasks = found_k = is_shown = 1"],
)
def test_fields_keyword_arguments_and_longer_names_pass(code: str) -> None:
    assert list(find_vague_names(code)) == []


def test_names_are_checked_in_the_rooms_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_style, "ROOT", tmp_path)
    for room in ("traube", "tests"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "module.py").write_text("found = [1]")
    assert "module.py:1: 'found'" in " ".join(check(tmp_path / "traube" / "module.py"))
    assert check(tmp_path / "tests" / "module.py") == []
