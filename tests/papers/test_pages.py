"""The README of each paper: short, and what it leads to is there."""

import re
from pathlib import Path

import pytest

from traube._core.plugins import PAPERS
from traube._reports.papers import papers

PAGES = sorted(PAPERS.glob("*/README.md"))


def test_each_paper_has_a_page_of_about_one_screen() -> None:
    assert [page.parent.name for page in PAGES] == list(papers())
    assert all(len(page.read_text("utf-8").splitlines()) <= 70 for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_its_table_of_places_names_files_and_functions_that_there_are(page: Path) -> None:
    for row in re.findall(r"^\|.*\|$", page.read_text("utf-8").partition("## How")[0], re.M):
        files: list[str] = []
        for place in re.findall(r"`([\w./]+)`", row):
            if place.endswith(".py"):
                found = [folder / place for folder in (page.parent, PAPERS.parent) if (folder / place).is_file()]
                assert found, place
                files += [file.read_text("utf-8") for file in found]
            elif files and not place.islower():
                assert re.search(rf"class {place.partition('.')[0]}\b", "".join(files)), place
            elif files and "_" in place:
                assert re.search(rf"\b{place}\b", "".join(files)), place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_it_has_a_place_for_every_table_and_figure_of_the_paper(page: Path) -> None:
    said = page.read_text("utf-8").partition("## How")[0]
    paper = papers()[page.parent.name]
    for spec in (*paper.tables, *paper.figures):
        kind, _, number = spec.name.partition("_")
        if number.isdigit():
            assert int(number) in _numbers(kind, said), spec.name


def _numbers(kind: str, said: str) -> set[int]:
    """Return the numbers of "tables 2 and 4", "figures 5 to 9"."""
    found: set[int] = set()
    for part in re.findall(rf"{kind}s? ((?:\d+(?:, | and | to )?)+)", said):
        whole = re.sub(r"(\d+) to (\d+)", lambda ends: " ".join(map(str, range(int(ends[1]), int(ends[2]) + 1))), part)
        found |= set(map(int, re.findall(r"\d+", whole)))
    return found
