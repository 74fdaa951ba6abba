"""Best-worst scaling: the tuples of items that annotators see (`draw_tuples`), and their answers (`read_judgments`).

Items are named by ids, unique among all items: the same items are the same tuple.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, inf
from pathlib import Path

import numpy as np
import pandas as pd

from traube._core.arrays import Floats
from traube._core.errors import Conflict, Invalid, Malformed, Missing, TraubeError
from traube.papers.giccs.agreement import Judgments
from traube.tasks._reading import Rows, TableFormat, read_rows
from traube.tasks._splitting import SEED, make_rng, shuffle

PER_ITEM = 2.0  # tuples for each item: 1.5 to 2 are enough (Kiritchenko and Mohammad, 2016)
TRIES = 20  # attempts at one tuple, before all are drawn again

ITEM = "item_"  # prefix of the columns of a tuple's items

Tuple = tuple[str, ...]


def draw_tuples(items: Sequence[str], size: int, per_item: float = PER_ITEM, *, seed: int = SEED) -> list[Tuple]:
    """Draw tuples of items to be judged.

    The items of a tuple are distinct, no tuple occurs twice, and every item is in as many tuples as any other, or in
    one more.

    There are `per_item` tuples for each item, and no more than there can be: then the design is complete
    (all ten tuples of three of five items). Where items can be chosen for a tuple, those are that have met each other
    least.

    Parameters
    ----------
    size : int
        Items of a tuple.
    seed : int, optional
        The same one gives the same tuples, in the same order.

    Returns
    -------
    list of Tuple
        Tuples in random order, their items in random order.
    """
    names = list(items)
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise Conflict(f"item '{twice[0]}' occurs {names.count(twice[0])} times: items differ by their ids")
    if not 2 <= size <= len(names):
        raise Invalid(f"tuples of {size}: there are {len(names)} items, so a tuple has 2 to {len(names)}")
    if not 0 < per_item < inf:
        raise Invalid(f"{per_item:g} tuples for each item: there must be more than 0")
    possible = comb(len(names), size)
    wanted = max(1, min(possible, round(per_item * len(names))))
    rng = make_rng(f"tuples {size} {wanted} {' '.join(names)}", seed)
    if wanted <= possible // 2:
        chosen = _balance(len(names), size, wanted, rng)
    else:  # draw the tuples to leave out: if these are balanced, so is the rest
        left_out = set(_balance(len(names), size, possible - wanted, rng))
        chosen = [drawn for drawn in map(frozenset, combinations(range(len(names)), size)) if drawn not in left_out]
    order = shuffle(len(chosen), rng)
    slots = [shuffle(size, rng) for _ in chosen]
    tuples = []
    for place in order:
        items = sorted(chosen[place])
        tuples.append(tuple(names[items[slot]] for slot in slots[place]))
    return tuples


def _balance(n: int, size: int, wanted: int, rng: np.random.Generator) -> list[frozenset[int]]:
    """Return distinct tuples in which every item occurs as often as any other, or once more."""
    for _ in range(5):
        if (balanced := _draw(n, size, wanted, rng)) is not None:
            return balanced

    drawn: dict[frozenset[int], None] = {}
    while len(drawn) < wanted:
        drawn[frozenset(map(int, rng.choice(n, size, replace=False)))] = None
    while True:
        times = np.bincount([item for one in drawn for item in one], minlength=n)
        most, least = int(times.argmax()), int(times.argmin())
        if times[most] - times[least] <= 1:
            return list(drawn)
        # In one tuple the item that occurs most gives way to the one that occurs least. There is always such a tuple:
        # were each of those with `most` and without `least` there with the two exchanged, `least` would not occur less.
        one = next(one for one in drawn if most in one and least not in one and one - {most} | {least} not in drawn)
        del drawn[one]
        drawn[one - {most} | {least}] = None


def _draw(n: int, size: int, wanted: int, rng: np.random.Generator) -> list[frozenset[int]] | None:
    """Draw tuples one after the other; return None if no new tuple was found."""
    times, met = np.zeros(n), [Counter[int]() for _ in range(n)]
    drawn: dict[frozenset[int], None] = {}
    for _ in range(wanted):
        # later tries leave more to chance: those that have met least may be a tuple that is drawn already
        tries = (least_met(times, met if i < TRIES // 2 else None, size, rng) for i in range(TRIES))
        new = next((frozenset(chosen) for chosen in tries if frozenset(chosen) not in drawn), None)
        if new is None:
            return None
        drawn[new] = None
        for item in new:
            times[item] += 1
            met[item].update(new - {item})
    return list(drawn)


def least_met(times: Floats, met: Sequence[Counter[int]] | None, size: int, rng: np.random.Generator) -> list[int]:
    """Return the items that were drawn least often; of these, those that have met the others least."""
    cost = times * len(times) * (times.max() + 2) * size + rng.random(len(times))
    chosen: list[int] = []
    for _ in range(size):
        item = int(cost.argmin())
        chosen.append(item)
        cost[item] = np.inf
        for other, often in met[item].items() if met else ():
            cost[other] += often
    return chosen


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a table of judgments."""

    best: str = "best"
    worst: str = "worst"
    annotator: str | None = "annotator"  # None if each file is one annotator's; the file's name is then theirs
    items: tuple[str, ...] = ()  # those of the best and the worst may be among them; empty: all that begin with `item_`


@dataclass(frozen=True)
class Answers:
    """Judgments that were read, and the faults of the rest."""

    judgments: Judgments  # of the rows that can be used
    faults: tuple[str, ...]  # a line for each other row: file, line and fault


def read_judgments(
    files: Iterable[Path],
    columns: Columns | None = None,
    tuples: Iterable[Tuple] | None = None,
    form: TableFormat | None = None,
) -> Answers:
    """Read the answers of annotators.

    Files are tables of any format, with a row for each judgment::

        annotator,item_1,item_2,item_3,best,worst
        anna,d07_a,d07_c,d07_e,d07_c,d07_e

    A file that cannot be read, or lacks a column, is left out and reported. So is a row where an answer or an item is
    missing, the best is also the worst, an answer is none of the tuple's items, the tuple shows an item twice or is
    none of the design's, or the same annotator judged it before.

    Parameters
    ----------
    tuples : iterable of Tuple, optional
        The design; by default any tuple is taken.
    form : TableFormat, optional
        What is known of how the files are written.

    Raises
    ------
    TraubeError
        If tuples are not all of one size, or no row can be used.
    """
    columns = columns or Columns()
    known = None if tuples is None else {frozenset(one) for one in tuples}
    rows: list[_Row] = []
    faults: list[str] = []
    before: dict[tuple[str, frozenset[str]], str] = {}
    for file in files:
        try:
            table = read_rows(file, form)
            item_sets = _read_tuples(table, columns.items)
            best, worst = read_ids(table, columns.best), read_ids(table, columns.worst)
            people = [file.stem] * len(table) if columns.annotator is None else read_ids(table, columns.annotator)
        except TraubeError as error:
            faults.append(str(error))
            continue
        for row in map(_Row, table.places, people, item_sets, best, worst):
            if fault := _find_fault(row, known, before):
                faults.append(f"{row.place}: {fault}")
                continue
            before[row.annotator, frozenset(row.items)] = row.place
            rows.append(row)
    if not rows:
        first = f"; first: {faults[0]}" if faults else ""
        raise Malformed(f"no judgment can be used: {len(faults)} rows are faulty{first}")
    width = len(rows[0].items)
    other = next((row for row in rows if len(row.items) != width), None)
    if other is not None:
        raise Malformed(f"{other.place}: a tuple of {len(other.items)} items, where {rows[0].place} has {width}")
    answers = zip(*((row.items, row.best, row.worst, row.annotator) for row in rows), strict=True)
    return Answers(Judgments.of(*answers), tuple(faults))


@dataclass(frozen=True, slots=True)
class _Row:
    """Values of a row; empty where the row has none."""

    place: str
    annotator: str
    items: Tuple
    best: str
    worst: str


def _read_tuples(table: Rows, names: Sequence[str] = ()) -> list[Tuple]:
    names = names or [name for name in table.columns if name.startswith(ITEM)]
    if len(names) < 2:
        there = ", ".join(table.columns)
        raise Missing(f"{table.path}: no columns {ITEM}1, {ITEM}2, ... with the tuples' items (there are: {there})")
    return list(zip(*(read_ids(table, name) for name in names), strict=True))


def read_ids(table: Rows, name: str) -> list[str]:
    """Return a column of ids, without the characters that a spreadsheet puts around them."""
    ids = [(text or "").strip() for text in table.texts(name)]
    return [text[1:] if text[:1] == "'" and text[1:2] in {"=", "+", "-", "@"} else text for text in ids]


def _find_fault(row: _Row, known: set[frozenset[str]] | None, before: dict[tuple[str, frozenset[str]], str]) -> str:
    """Return the fault of a row; empty if there is none."""
    items = frozenset(row.items)
    if not row.annotator:
        return "the annotator is missing"
    if "" in items:
        return "an item of the tuple is missing"
    if len(items) < len(row.items):
        twice = next(item for item in row.items if row.items.count(item) > 1)
        return f"the tuple shows '{twice}' twice"
    for question, answer in (("best", row.best), ("worst", row.worst)):
        if not answer:
            return f"the answer for '{question}' is missing"
        if answer not in items:
            return f"'{answer}' ({question}) is none of the tuple's items ({', '.join(row.items)})"
    if row.best == row.worst:
        return f"'{row.best}' is best and worst at once"
    if known is not None and items not in known:
        return f"the tuple ({', '.join(row.items)}) is none of the design's"
    if (row.annotator, items) in before:
        return f"'{row.annotator}' judged this tuple before, at {before[row.annotator, items]}; the first counts"
    return ""


def scores_table(judgments: Judgments, scores: Floats, values: Floats | None = None) -> pd.DataFrame:
    """Return a row for each item that was shown.

    The columns are `item`, `score`, perhaps `value` (by value scoring), `best`, `worst` and `judgments`.
    """
    answers = {"best": judgments.best, "worst": judgments.worst, "judgments": judgments.shown.ravel()}
    counts = {name: np.bincount(items, minlength=len(judgments.items)) for name, items in answers.items()}
    learned = {} if values is None else {"value": values}
    table = pd.DataFrame({"item": list(judgments.items), "score": scores, **learned, **counts})
    return table[table["judgments"] > 0].reset_index(drop=True)


def read_design(path: Path) -> list[Tuple]:
    """Return the tuples of a design: a table with the columns item_1, item_2, ..."""
    return _read_tuples(read_rows(path))


def read_expert(path: Path) -> dict[str, bool]:
    """Return an expert's answer for each item, from a table with the columns item and above (yes or no)."""
    table = read_rows(path)
    words = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    above: dict[str, bool] = {}
    for place, item, answer in zip(table.places, read_ids(table, "item"), read_ids(table, "above"), strict=True):
        if (is_above := words.get(answer.lower())) is None:
            raise Malformed(f"{place}: above: '{answer}' is neither yes nor no")
        if above.setdefault(item, is_above) != is_above:
            raise Conflict(f"{place}: item '{item}' is marked above 0.5 and below")
    return above
