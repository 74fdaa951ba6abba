"""Sheets for annotators: who judges what, and what the sheets show. (The form is filled in by a real browser in
tests/e2e/test_annotation_form.py.)"""

import csv
import io
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.errors import Refusal, refused
from traube._core.errors import Conflict, Invalid, Malformed, Unknown
from traube.papers.giccs.annotation_sheets import (
    WORDINGS,
    draw_designs,
    format_sheet,
    make_sheets,
    read_items,
    sheet_form,
)
from traube.papers.giccs.best_worst import draw_tuples, read_judgments
from traube.tasks.reading import TableFormat

ITEMS = "item,text,group,context\n" + "".join(
    f'{d}{c},Text {c} of {d},{d},"Benutzer: Hallo {d}\nAssistent: Guten Tag"\n' for d in ("d1", "d2") for c in "abcde"
)


def write(folder: Path, text: str = ITEMS) -> Path:
    path = folder / "items.csv"
    path.write_text(text, encoding="utf-8")
    return path


class Page(HTMLParser):
    """The content of a form: tags with their attributes, and all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_items_are_compared_within_their_group(tmp_path: Path) -> None:
    items = read_items(write(tmp_path))
    assert items["d1a"].context == ("Benutzer: Hallo d1", "Assistent: Guten Tag")
    tuples = draw_designs(items, 3)
    assert len(tuples) == 20
    assert all(len({item[:2] for item in one}) == 1 for one in tuples)


@pytest.mark.parametrize(("separator", "encoding"), [(",", "utf-8"), (";", "cp1252"), ("\t", "utf-16")])
def test_items_and_answers_are_read_however_they_were_saved(tmp_path: Path, separator: str, encoding: str) -> None:
    rows = [["item", "text"], *([f"i{n}", f"Größe {n}, für später"] for n in range(4))]
    answers = [["annotator", "item_1", "item_2", "best", "worst"], ["Jörg", "i0", "i1", "i0", "i1"]]
    for name, table in (("items.csv", rows), ("answers.csv", answers)):
        file = io.StringIO()
        csv.writer(file, delimiter=separator).writerows(table)
        (tmp_path / name).write_bytes(file.getvalue().encode(encoding))
    assert read_items(tmp_path / "items.csv")["i3"].text == "Größe 3, für später"
    judged = read_judgments([tmp_path / "answers.csv"])
    assert (len(judged.judgments), judged.faults) == (1, ())
    said = TableFormat(separator=separator, encoding=encoding)
    assert read_items(tmp_path / "items.csv", said) == read_items(tmp_path / "items.csv")


def test_all_annotators_judge_all_tuples_each_in_an_order_of_their_own() -> None:
    tuples = draw_tuples(list("abcdef"), 3)
    made = make_sheets(tuples, 3)
    assert all({frozenset(t) for t in sheet.tuples} == {frozenset(t) for t in tuples} for sheet in made)
    assert made[0].tuples != made[1].tuples
    assert made == make_sheets(tuples, 3) != make_sheets(tuples, 3, seed=1)


@pytest.mark.parametrize(("annotators", "each"), [(5, 2), (7, 3), (3, 3), (4, 1)])
def test_work_is_shared_evenly_and_nobody_judges_twice(annotators: int, each: int) -> None:
    tuples = draw_tuples([f"i{i}" for i in range(11)], 3)
    made = make_sheets(tuples, annotators, each)
    times = Counter(frozenset(one) for sheet in made for one in sheet.tuples)
    assert set(times.values()) == {each} and len(times) == len(tuples)
    sizes = [len(sheet.tuples) for sheet in made]
    assert max(sizes) - min(sizes) <= 1
    assert all(len({frozenset(one) for one in sheet.tuples}) == len(sheet.tuples) for sheet in made)


@pytest.mark.parametrize(("annotators", "each"), [(4, 2), (10, 5), (6, 2)])
def test_annotators_form_no_panels(annotators: int, each: int) -> None:
    """A strict panel that stays among itself would never be compared with a mild one."""
    made = make_sheets(draw_tuples([f"i{i}" for i in range(40)], 3), annotators, each)
    judged = [{frozenset(one) for one in sheet.tuples} for sheet in made]
    assert all(judged[a] & judged[b] for a in range(annotators) for b in range(a))


def test_a_filled_in_table_is_read_as_judgments(tmp_path: Path) -> None:
    items = read_items(write(tmp_path))
    tuples = draw_designs(items, 3)
    sheet = make_sheets(tuples, 2)[0]
    rows = list(csv.DictReader(io.StringIO(format_sheet(sheet, items))))
    assert rows[0]["text_1"] == items[rows[0]["item_1"]].text
    assert rows[0]["context"].splitlines()[1] == "Assistent: Guten Tag"
    for row in rows:
        row["best"], row["worst"] = row["item_2"], row["item_3"]
    file = tmp_path / "filled.csv"
    with file.open("w", newline="") as target:
        writer = csv.DictWriter(target, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    answers = read_judgments([file], tuples=tuples)
    assert answers.faults == () and len(answers.judgments) == 20


def test_a_form_asks_two_questions_about_every_item_and_needs_nothing_else(tmp_path: Path) -> None:
    items = read_items(write(tmp_path))
    sheet = make_sheets(draw_designs(items, 3), 1)[0]
    page = Page(sheet_form(sheet, items, WORDINGS["de"]))
    radios = [attributes for tag, attributes in page.tags if tag == "input" and attributes.get("type") == "radio"]
    requested = Counter((radio["name"], radio["value"]) for radio in radios)
    assert set(requested.values()) == {1} and len(requested) == 20 * 3 * 2
    assert "am wenigsten ähnlich" in page.text and "Assistent: Guten Tag" in page.text
    assert not [a for _, a in page.tags if {"src", "href"} & set(a)]  # nothing is loaded
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "content" in a and "http-equiv" in a)
    assert policy is not None and "default-src 'none'" in policy


def test_texts_command_nothing_in_a_form_and_nothing_in_a_spreadsheet(tmp_path: Path) -> None:
    evil = '"<script>alert(1)</script>"'
    items = read_items(write(tmp_path, f"item,text,context\na,{evil},{evil}\nb,=1+1,{evil}\nc,ok,{evil}\n"))
    sheet = make_sheets(draw_designs(items, 3), 1)[0]
    page = Page(sheet_form(sheet, items, WORDINGS["en"]))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "<script>alert(1)</script>" in page.text  # it is shown as it is
    assert ",=1+1" not in format_sheet(sheet, items) and "'=1+1" in format_sheet(sheet, items)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("id,text\na,b\n", (Unknown, "item")),
        ("item,text\na,\n", (Malformed, ":2")),
        ("item,text\n,a\n", (Malformed, ":2")),
        ("item,text\na,x\na,y\n", (Conflict, ":3", "a")),
        ("item,text\n+a,x\n", (Malformed, "+a")),
        ("item,text,context\na,x,one\nb,y,other\n", (Conflict, "a", "b")),
    ],
)
def test_items_that_cannot_be_judged_are_refused(tmp_path: Path, text: str, refusal: Refusal) -> None:
    with refused(*refusal):
        read_items(write(tmp_path, text))


def test_too_few_annotators_or_items_are_refused(tmp_path: Path) -> None:
    items = read_items(write(tmp_path, "item,text,group\na,x,g1\nb,y,g1\nc,z,g1\nd,v,g2\n"))
    with refused(Invalid, "g2", 3, 1):
        draw_designs(items, 3)
    with refused(Invalid, 3, 2):
        make_sheets([("a", "b")], 2, 3)
