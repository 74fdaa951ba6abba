"""A day on which people write of something else drifts, and what is new is offered as groups."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.errors import refused
from tests.grouping.test_assigned import BERLIN, assign_day, champion, folder, storage, write
from traube._core import paths
from traube._core.errors import Missing
from traube._grouping.assigned import Assigned, Champion, Groups, assign_days, read_assigned
from traube._grouping.days import choose_reference, find_new_words, judge, publish_days, read_verdicts
from traube._grouping.inboxes import FolderOfTexts
from traube._pipeline.params import Inbox
from traube._storage import Storage
from traube.tasks.task import Task

__all__ = ["champion", "folder", "storage"]
FIRST = date(2026, 3, 1)
TAXES = ["tax refund form invoice office", "invoice tax office deadline form", "refund tax deadline invoice letter"]
VISAS = [
    "visa passport border embassy stamp",
    "embassy visa queue passport border",
    "stamp passport visa border flight",
]


def name_day(number: int) -> str:
    return (FIRST + timedelta(days=number)).isoformat()


def fill(folder: Path, task: Task, days: range, texts: int = 24) -> FolderOfTexts:
    """Write a file with some days of texts like those of the task; each text is another one by a number in it."""
    rng = np.random.default_rng(days.start)
    rows = [
        (name_day(number), f"{task.texts[i]} {number}-{n}")
        for number in days
        for n, i in enumerate(rng.choice(len(task.texts), texts))
    ]
    path = folder / f"from_{days.start}.csv"
    write(path, pd.DataFrame(rows, columns=["day", "text"]).to_csv(index=False))
    return FolderOfTexts("tiny", Inbox(day="day", text="text"), BERLIN)


def assign_all(storage: Storage, inbox: FolderOfTexts, load: Callable[[], Champion]) -> None:
    for name in inbox.list_states():
        [*assign_days(storage, inbox, sorted(set(inbox.read(name)["day"])), [name], load)]


def test_a_day_on_something_else_drifts_and_a_usual_one_does_not(
    storage: Storage, folder: Path, tiny_task: Task, champion: Callable[[], Champion]
) -> None:
    inbox = fill(folder, tiny_task, range(32))
    texts = [f"{topic[i % 3]} {i}" for i in range(15) for topic in (TAXES, VISAS)]
    write(folder / "strange.csv", pd.DataFrame({"day": name_day(32), "text": texts}).to_csv(index=False))
    assign_all(storage, inbox, champion)
    early, usual, strange = (judge(storage, "tiny", name_day(day), champion) for day in (3, 30, 32))
    assert not early.drifts and early.p is None and not early.reference  # one of the days that others are compared with
    assert not usual.drifts and usual.p is not None and usual.p > 1 / 31
    assert usual.reference == tuple(name_day(day) for day in range(30)) and not usual.new_groups
    assert strange.by_share and strange.share == 1 and (strange.usual_share or 0) < 0.2
    assert {"tax", "visa"} & {*strange.new_words} and not {"kitchen", "player"} & {*strange.new_words}
    assert len(strange.new_groups) == 2
    (tax,) = (group for group in strange.new_groups if "tax" in " ".join(group.words))
    assert tax.texts == 15 and all("tax" in text for text in tax.typical)
    (line,) = strange.describe({})
    assert "100.0%" in line
    assert [*read_verdicts(storage, "tiny")] == [early.day, usual.day, strange.day]
    page = publish_days(storage, "tiny", paths.home()).read_text()
    assert "passport" in page and name_day(32) in page and "100.0 %" in page
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    share, drift = data[0]["traces"]
    assert len(share["x"]) == 33 and drift["x"] == [name_day(32)] and len(data[1]["traces"]) == 3
    with refused(Missing, "tiny", "2027-01-01"):
        judge(storage, "tiny", "2027-01-01", champion)


@pytest.mark.slow
def test_a_new_champion_counts_the_days_before_it_again(
    storage: Storage, folder: Path, tiny_task: Task, champion: Callable[[], Champion]
) -> None:
    """It can judge from its first day on; the rows keep the groups of the champion that assigned them."""
    inbox = fill(folder, tiny_task, range(33))
    assign_all(storage, inbox, champion)
    served, _ = champion()
    other = replace(served, clusters=np.arange(len(served.clusters)) % 6)
    fill(folder, tiny_task, range(33, 34))
    assign_day(storage, inbox, name_day(33), ["from_33.csv"], lambda: (other, "2"))
    verdict = judge(storage, "tiny", name_day(33), lambda: (other, "2"))
    assert verdict.reference == tuple(name_day(day) for day in range(3, 33)) and not verdict.drifts
    assert verdict.version == "2" and len(verdict.changes) == 6
    days = read_assigned(storage, "tiny")
    assert (days[name_day(5)].count("2"), days[name_day(5)].version) == (24, "1")
    assert "2" not in days[name_day(2)].sizes
    again = judge(storage, "tiny", name_day(33), champion)  # taken back
    assert again.version == "1" and not again.drifts


def test_the_reference_period_is_the_first_days_those_before_the_champion_or_as_params_say() -> None:
    days = {name_day(n): Assigned(key=f"a/{name_day(n)}") for n in range(40)}
    assert choose_reference(days, None, None) == [name_day(n) for n in range(30)]
    assert choose_reference(days, Groups(key="a/2", since=name_day(35)), None) == [name_day(n) for n in range(5, 35)]
    assert choose_reference(days, Groups(key="a/2", since=name_day(9)), None) == [name_day(n) for n in range(30)]
    assert choose_reference(days, None, FIRST + timedelta(days=8)) == [name_day(n) for n in range(8, 38)]


@pytest.mark.parametrize(("text", "expected"), [("refund of the tax", True), ("bread from the oven", False)])
def test_new_words_are_those_that_the_usual_texts_do_not_have(text: str, expected: bool) -> None:
    usual = ["bread from the oven", "salt and bread", "oven and salt"] * 10
    assert ("tax" in " ".join(find_new_words(usual, [text] * 3 + usual[:3]))) == expected


def test_what_people_wrote_is_no_markup_on_the_page(
    storage: Storage, folder: Path, champion: Callable[[], Champion], tiny_task: Task
) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    inbox = fill(folder, tiny_task, range(3), texts=4)
    texts = [f"{topic[i % 3]} {evil} {i}" for i in range(15) for topic in (TAXES, VISAS)]
    write(folder / "evil.csv", pd.DataFrame({"day": name_day(3), "text": texts}).to_csv(index=False))
    assign_all(storage, inbox, champion)
    verdict = judge(storage, "tiny", name_day(3), champion)
    assert verdict.new_groups and evil in verdict.new_groups[0].typical[0]
    page = publish_days(storage, "tiny", paths.home()).read_text()
    assert evil not in page and "&lt;script&gt;alert(1)" in page
