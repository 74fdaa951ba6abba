"""The form of best-worst scaling in a real browser: a volunteer fills it in and saves it, and the file is read."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests import giccs_like
from tests.e2e.conftest import NEEDS_BROWSER
from tests.waiting import wait_for
from traube.papers.giccs.agreement import counting_scores
from traube.papers.giccs.annotation_sheets import WORDINGS, Item, Sheet, make_sheets, sheet_form
from traube.papers.giccs.best_worst import Answers, read_judgments

pytestmark = [pytest.mark.e2e, NEEDS_BROWSER]

DIALOGUES = giccs_like.DIALOGUES[:2]
ITEMS = {
    f"{d.name}{letter}": Item(f"{d.name}{letter}", text, d.name, d.turns)
    for d in DIALOGUES
    for letter, text in zip("abcde", d.candidates, strict=True)
}
TUPLES = [one for one in giccs_like.tuples() if one[0] in ITEMS]


class Volunteer:
    """Somebody who opens a form and clicks."""

    def __init__(self, browser: Any, folder: Path, sheet: Sheet) -> None:
        self.browser, self.folder = browser, folder
        self.form = folder / f"{sheet.annotator}.html"
        self.form.write_text(sheet_form(sheet, ITEMS, WORDINGS["de"]), encoding="utf-8")
        browser.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder), "eventsEnabled": True}
        )
        self.open()

    def open(self) -> None:
        self.browser.get(self.form.as_uri())

    def choose(self, question: str, number: int, item: str) -> None:
        found = self.browser.find_element("css selector", f"input[name={question}_{number}][value={item}]")
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def answer(self, number: int, one: tuple[str, ...]) -> None:
        """By the design: the alphabet is the order."""
        self.choose("best", number, min(one))
        self.choose("worst", number, max(one))

    def count(self) -> str:
        return str(self.browser.find_element("id", "count").text)

    def save(self, name: str) -> Path:
        who = self.browser.find_element("id", "annotator")
        who.clear()
        who.send_keys(name)
        self.browser.find_element("id", "save").click()
        file = self.folder / f"{re.sub('[^a-zäöüß0-9_-]+', '_', name.lower())}.csv"
        return Path(wait_for(lambda: file.exists() and file.stat().st_size and file, f"saving {file.name}"))


def read(*files: Path) -> Answers:
    return read_judgments(files, tuples=TUPLES)


def test_a_form_that_is_filled_in_saves_a_file_that_imports(browser: Any, tmp_path: Path) -> None:
    sheet = make_sheets(TUPLES, 1)[0]
    volunteer = Volunteer(browser, tmp_path, sheet)
    assert volunteer.count() == "0 / 20"
    assert "Soll es italienische Küche sein?" in browser.execute_script("return document.body.innerText")
    for number, one in enumerate(sheet.tuples, start=1):
        volunteer.answer(number, one)
    assert volunteer.count() == "20 / 20"
    answers = read(volunteer.save("jörg"))
    assert answers.faults == () and len(answers.judgments) == 20
    scores = dict(zip(answers.judgments.items, counting_scores(answers.judgments), strict=True))
    assert scores == {item: giccs_like.items()[item] for item in ITEMS}


def test_nothing_is_best_and_worst_at_once_and_a_form_is_found_again_as_it_was(browser: Any, tmp_path: Path) -> None:
    sheet = make_sheets(TUPLES, 1, seed=7)[0]
    volunteer = Volunteer(browser, tmp_path, sheet)
    first = sheet.tuples[0]
    volunteer.choose("best", 1, first[0])
    volunteer.choose("worst", 1, first[0])  # takes the other answer away
    chosen = "return [...document.querySelectorAll('input:checked')].map(i => i.name)"
    assert browser.execute_script(chosen) == ["worst_1"]
    volunteer.choose("best", 1, first[1])
    assert volunteer.count() == "1 / 20"
    volunteer.open()  # closed, and opened again
    wait_for(lambda: volunteer.count() == "1 / 20", "the form as it was")
    assert set(browser.execute_script(chosen)) == {"worst_1", "best_1"}


def test_an_unfinished_form_is_saved_after_a_question_and_its_gaps_are_reported(browser: Any, tmp_path: Path) -> None:
    sheet = make_sheets(TUPLES, 1, seed=8)[0]
    volunteer = Volunteer(browser, tmp_path, sheet)
    for number, one in enumerate(sheet.tuples[:3], start=1):
        volunteer.answer(number, one)
    browser.execute_script("window.confirm = () => (window.confirmed = true)")
    answers = read(volunteer.save("anna"))
    assert browser.execute_script("return window.confirmed")
    assert len(answers.judgments) == 3
    assert len(answers.faults) == 17 and all("the answer for 'best' is missing" in fault for fault in answers.faults)
