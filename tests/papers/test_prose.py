"""Hold what the documents say of the papers' results against what is stored.

Each paper's README has a table of what differs, whose last column quotes numbers: each is one of the stored rows or stands in
benchmarks/README.md. There a comment behind a sentence, or in a row of a table, names the stored row that the sentence quotes:

    COB has an ARI of .369. <!-- cob/table_4: method=cob recipe=b24cfc metric=ari -->
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from traube._core import paths
from traube._reports.papers import papers
from traube._reports.papers.results import _read

QUOTED = re.compile(r"<!-- (?P<table>\w+/\w+): (?P<row>.+?) -->")
NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?![\w])")
RESULTS = paths.PROJECT / "docs" / "results"
BENCHMARKS = paths.PROJECT / "benchmarks" / "README.md"
COLUMNS = ("measured", "published", "difference", "sd", "p")


def read_numbers(text: str) -> list[tuple[float, int]]:
    """The numbers of a text that are not whole, each with its decimals."""
    words = [word.replace(",", "").replace("−", "-") for word in NUMBER.findall(text)]
    return [(abs(float(word)), len(word.partition(".")[2])) for word in words if "." in word]


def quotes(text: str, value: float) -> bool:
    """Tell whether a text has this value, or it in percent or as a share, as far as it is written out."""
    return any(
        abs(number - abs(scale * value)) <= 0.5 * 10.0**-decimals + 1e-9
        for number, decimals in read_numbers(text)
        for scale in (0.01, 1, 100)
    )


def list_quoted(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The comments of a document, each with its row of a table or its paragraph."""
    for block in re.split(r"\n\s*\n", text):
        for part in block.splitlines() if block.lstrip().startswith("|") else [block]:
            for comment in QUOTED.finditer(part):
                yield QUOTED.sub("", part), comment


def select_row(comment: re.Match[str], folder: Path = RESULTS) -> pd.DataFrame:
    """The stored rows that a comment names; an empty value is one that is not there."""
    rows = _read(folder / f"{comment['table']}.csv")
    for column, _, value in (part.partition("=") for part in comment["row"].split()):
        texts = rows[column].map(lambda cell: "" if pd.isna(cell) else str(cell).removesuffix(".0").replace(" ", "_"))
        rows = rows[texts == value]
    return rows


def find_false(text: str) -> list[str]:
    """The comments whose row is not one, or whose number the sentence does not have."""
    false = []
    for sentence, comment in list_quoted(text):
        rows = select_row(comment)
        if len(rows) != 1 or not quotes(sentence, rows["measured"].iloc[0]):
            false.append(f"{comment[0]} {rows['measured'].tolist()}: {sentence}")
    return false


def test_each_quoted_row_says_what_the_benchmarks_say() -> None:
    text = BENCHMARKS.read_text("utf-8")
    assert len(list(list_quoted(text))) > 60
    assert find_false(text) == []


def test_a_number_that_is_not_the_stored_one_is_found() -> None:
    text = BENCHMARKS.read_text("utf-8")
    sentence, comment = min(list_quoted(text), key=lambda quoted: len(read_numbers(quoted[0])))
    value = select_row(comment)["measured"].iloc[0]
    assert quotes(sentence, value) and not quotes(sentence, value + 0.31)
    assert find_false(f"It has .999. {comment[0]}") and find_false(f"{sentence} {comment[0].replace('=', '=no', 1)}")


@pytest.mark.parametrize("name", sorted(papers()))
def test_each_number_of_an_effect_is_measured(name: str) -> None:
    page = (paths.PROJECT / "traube" / "papers" / name / "README.md").read_text("utf-8")
    stored = [_read(file) for file in sorted((RESULTS / name).glob("*.csv"))]
    values = pd.concat([rows[column].dropna() for rows in stored for column in COLUMNS if column in rows])
    benchmarks = BENCHMARKS.read_text("utf-8")
    known = set(read_numbers(benchmarks))
    rows = [line.split("|")[-2] for line in page.partition("## What differs")[2].splitlines() if line.startswith("|")]
    for effect in rows[2:]:
        for number, decimals in read_numbers(effect):
            text = f"{number:.{decimals}f}"
            assert (number, decimals) in known or any(quotes(text, value) for value in values), f"{effect}: {text}"
