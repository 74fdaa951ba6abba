"""Sheets on which annotators judge tuples: a CSV for a spreadsheet, and a form for a browser.

`traube.papers.giccs.best_worst.read_judgments` reads both. They show items by their texts and keep their ids.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from traube._core.config import read_yaml
from traube._core.errors import Conflict, Invalid, Malformed, TraubeError
from traube._core.escaping import format_csv
from traube._core.hashing import digest
from traube._reports.rendering import render
from traube.papers.giccs.best_worst import ITEM, PER_ITEM, Tuple, draw_tuples, least_met
from traube.tasks._reading import TableFormat, as_text, read_rows
from traube.tasks._splitting import SEED, make_rng, shuffle


@dataclass(frozen=True)
class Item:
    """An item to judge."""

    item: str  # its id
    text: str
    group: str = ""  # group within which it is compared
    context: tuple[str, ...] = ()  # lines shown above its tuples


@dataclass(frozen=True)
class Sheet:
    """Tuples that one annotator judges, in the order in which they are shown."""

    annotator: str
    tuples: tuple[Tuple, ...]


# What a form says, by language.
WORDINGS: dict[str, dict[str, str]] = read_yaml(Path(__file__).parent / "wordings.yaml")[0]


def read_items(path: Path, form: TableFormat | None = None) -> dict[str, Item]:
    """Return the items of a table with the columns `item` (an id) and `text`, by their ids.

    It may have the columns `group` (tuples are drawn within one: a dialogue) and `context` (what is shown above the
    tuple: lines, or a list in jsonl). Other columns are meant for readers of the scores.
    """
    rows = read_rows(path, form)
    absent = [None] * len(rows)
    columns = rows.texts("item"), rows.texts("text"), rows.texts("group") if "group" in rows.columns else absent
    ids, texts, groups = ([(text or "").strip() for text in column] for column in columns)
    contexts = rows.columns.get("context", absent)
    items: dict[str, Item] = {}
    for place, item, text, group, context in zip(rows.places, ids, texts, groups, contexts, strict=True):
        if not item or not text:
            raise Malformed(f"{place}: the {'text' if item else 'item'} is missing")
        if item in items:
            raise Conflict(f"{place}: item '{item}' occurs twice")
        if item[0] in "=+-@'":
            fault = "an id cannot begin with = + - @ or ', which spreadsheets change"
            raise Malformed(f"{place}: item '{item}': {fault}")
        parts = context if isinstance(context, list) else [context]
        lines = "\n".join(as_text(part, place, "context") or "" for part in parts).splitlines()
        items[item] = Item(item, text, group, tuple(line.strip() for line in lines if line.strip()))

    firsts: dict[str, Item] = {}
    for one in items.values():
        first = firsts.setdefault(one.group, one)
        if first.context != one.context:
            two = f"items '{first.item}' and '{one.item}' are of one group ('{one.group}')"
            raise Conflict(f"{path}: {two} and have different contexts")
    return items


def draw_designs(items: Mapping[str, Item], size: int, per_item: float = PER_ITEM, *, seed: int = SEED) -> list[Tuple]:
    """Return tuples of items, drawn within each group as `draw_tuples` draws them."""
    groups: dict[str, list[str]] = {}
    for item in items.values():
        groups.setdefault(item.group, []).append(item.item)
    tuples = []
    for group, names in groups.items():
        try:
            tuples += draw_tuples(names, size, per_item, seed=seed)
        except TraubeError as error:
            raise type(error)(f"group '{group}': {error}" if group else str(error)) from None
    return tuples


def make_sheets(tuples: Sequence[Tuple], annotators: int, each: int | None = None, *, seed: int = SEED) -> list[Sheet]:
    """Distribute tuples among annotators.

    Every tuple is judged by `each` annotators, by default all. All annotators have the same number of tuples, or one
    more. Each annotator sees tuples, and items in them, in an order of their own.
    """
    per_tuple = annotators if each is None else each
    if not 1 <= per_tuple <= annotators:
        raise Invalid(f"{per_tuple} annotators for each tuple: there are {annotators}")
    rng = make_rng(f"sheets {annotators} {per_tuple}", seed)
    judged: list[list[Tuple]] = [[] for _ in range(annotators)]
    order = shuffle(len(tuples), rng)
    # each tuple goes to those who have judged least, and of these to those who have met each other least: annotators who
    # share no tuple cannot be compared
    times, met = np.zeros(annotators), [Counter[int]() for _ in range(annotators)]
    for index in order:
        people = least_met(times, met, per_tuple, rng)
        times[people] += 1
        for person in people:
            judged[person].append(tuples[index])
            met[person].update(other for other in people if other != person)
    sheets, digits = [], len(str(annotators))
    for number, assigned in enumerate(judged, start=1):
        order = shuffle(len(assigned), rng)
        shuffled = [tuple(assigned[i][slot] for slot in shuffle(len(assigned[i]), rng)) for i in order]
        sheets.append(Sheet(f"annotator_{number:0{digits}d}", tuple(shuffled)))
    return sheets


def format_sheet(sheet: Sheet, items: Mapping[str, Item]) -> str:
    """Return a sheet as CSV: context, the tuple's texts, and their ids.

    The columns `best` and `worst` are to be filled in with ids. The text begins with a byte order mark, by which
    spreadsheets recognize UTF-8.
    """
    rows = []
    for one in sheet.tuples:
        row = {"annotator": sheet.annotator, "context": "\n".join(items[one[0]].context)}
        for number, item in enumerate(one, start=1):
            row |= {f"{ITEM}{number}": item, f"text_{number}": items[item].text}
        rows.append({**row, "best": "", "worst": ""})
    return f"\ufeff{format_csv(pd.DataFrame(rows))}"


def sheet_form(sheet: Sheet, items: Mapping[str, Item], wording: Mapping[str, str]) -> str:
    """Return a sheet as a page that people fill in; the page saves a CSV file."""
    questions = [(items[one[0]].context, [items[item] for item in one]) for one in sheet.tuples]
    key = digest([sheet.tuples])  # under which a browser keeps the answers
    values = {"sheet": sheet, "questions": questions, "wording": wording, "key": key}
    return render("annotation_form.html", package=__package__, **values)
