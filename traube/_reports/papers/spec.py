"""The parts of a paper: specs of how a table is measured, beside its printed numbers, and a figure drawn."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from traube._core import paths
from traube._core.escaping import format_csv
from traube._core.files import write_text
from traube._reports.papers.claims import Claim
from traube._reports.papers.context import Context
from traube._reports.rendering import figures_page
from traube.comparison.verdict import Verdict

NUMBERS = {  # columns of numbers, and what each means
    "published": "Number that the paper prints.",
    "measured": "Number that was measured here; missing where there is none.",
    "note": "What to bear in mind of both.",
}
OTHERS = {  # who else published the same numbers
    "authors": "Number in the authors' files.",
    "mteb": "Number in MTEB's results.",
}
# columns of a test against the table's reference: its difference, p-value, the difference that the test finds four times
# in five, the number of comparisons that it is corrected for, and `higher`, `lower` or nothing; `*` is the reference itself
TESTED = ["difference", "p", "detectable", "comparisons", "verdict"]
Tested: TypeAlias = tuple[float, float, float, float, str]
REFERENCE: Tested = (0.0, math.nan, math.nan, math.nan, "*")
UNTESTED: Tested = (math.nan, math.nan, math.nan, math.nan, "")
ERRATUM = "erratum"  # column of what is printed: what is right in place of a number that is wrong


def format_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as people are shown it: a row and a column for each number, as a grid of `published | measured`.

    What others published follows, each with its name: `11.27 | – (authors 11.27)`.
    """
    others = [column for column in OTHERS if column in table]
    if [c for c in table.columns[2:] if c not in others] != list(NUMBERS):
        rounded = table.round(4)
        return rounded.assign(p=[float(f"{p:.2g}") for p in table["p"]]) if "p" in table else rounded
    row, column = table.columns[:2]
    cell_texts = []
    for numbers in table[["published", "measured", *others]].itertuples(index=False):
        texts = ["–" if pd.isna(value) else f"{value:,.2f}".removesuffix(".00") for value in numbers]
        named = [f"{name} {text}" for name, text in zip(others, texts[2:], strict=True) if text != "–"]
        cell_texts.append(" | ".join(texts[:2]) + (f" ({', '.join(named)})" if named else ""))
    cells = table.assign(shown=cell_texts)
    rows, columns = table[row].drop_duplicates(), table[column].drop_duplicates()
    grid = cells.pivot_table(index=row, columns=column, values="shown", aggfunc="first").loc[rows, columns]
    return grid.fillna("").reset_index().rename_axis(columns=None)


@dataclass(frozen=True)
class Table:
    """A table of a paper."""

    name: str  # of its asset and file
    description: str  # meaning of its numbers, in a sentence
    # gives what is printed, a number a row: columns that say which number it is, `published`, and perhaps columns of
    # OTHERS, `note` and ERRATUM; None for a table that the paper does not have
    published: Callable[[], pd.DataFrame] | None
    # gives what is measured here: the same columns that say which number it is, `measured`, and perhaps `note` and more
    measure: Callable[[Context], pd.DataFrame]
    absent: str = "not measured here"  # the note beside a number that is not measured
    shown: Callable[[pd.DataFrame], pd.DataFrame] = format_table  # what people are shown of the table

    def list_errata(self) -> list[str]:
        """Return what is known to be printed wrong, a line each."""
        printed = pd.DataFrame() if self.published is None else self.published()
        return list(dict.fromkeys(filter(None, printed.get(ERRATUM, ()))))

    def make(self, context: Context) -> pd.DataFrame:
        """Return the table: measured beside published, if there is something published."""
        measured = self.measure(context)
        return measured if self.published is None else join_printed(self.published(), measured, self.absent)


@dataclass(frozen=True)
class Drawing:
    """A figure that was drawn."""

    content: str  # the page
    facts: Mapping[str, str | int] = field(default_factory=dict)  # what Dagster shows beside it
    data: pd.DataFrame | None = None  # what is drawn, kept beside the figure as csv


@dataclass(frozen=True)
class Figure:
    """A figure of a paper."""

    name: str  # of its asset and file
    description: str  # what it shows, in a sentence
    draw: Callable[[Context], Drawing | None]  # gives the figure; None where there is nothing to draw yet
    missing: str  # what the figure says then, in lines: what is not there, and what to run

    def make(self, context: Context) -> Drawing:
        """Return the figure, or a page that says in words what is missing."""
        if drawn := self.draw(context):
            return drawn
        page = figures_page("Nothing to show yet", [], self.missing.splitlines())
        return Drawing(page, {"missing": self.missing})


@dataclass(frozen=True)
class Paper:
    """A paper: its reference, tables and figures."""

    reference: str  # a key of references.bib, or free text
    tasks: tuple[str, ...] = ()  # what its tables and figures are made of: others change nothing in them
    trainers: tuple[str, ...] = ()  # those whose checkpoints, trained on these tasks, are shown
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()


def locate_table(home: Path, paper: str, table: Table) -> Path:
    """Return where a table of a paper is written."""
    return home / "papers" / paper / f"{table.name}.csv"


def write_table(home: Path, paper: str, table: Table, context: Context) -> tuple[pd.DataFrame, Path]:
    """Measure a table of a paper and write it; return its rows and where it lies."""
    rows = table.make(context)
    path = locate_table(home, paper, table)
    write_text(path, format_csv(rows))
    return rows, path


def write_figure(home: Path, paper: str, figure: Figure, context: Context) -> tuple[Drawing, Path]:
    """Draw a figure of a paper and write it, and its data beside it; return both and where it lies."""
    drawing = figure.make(context)
    path = home / "papers" / paper / f"{figure.name}.html"
    write_text(path, drawing.content)
    if drawing.data is not None:
        write_text(path.with_suffix(".csv"), format_csv(drawing.data))
    return drawing, path


def describe_test(verdict: Verdict, scale: float = 1.0) -> Tested:
    """Return what a table says of a verdict on a row against its reference, in the order of `TESTED`."""
    direction = {"a": "higher", "b": "lower", "": ""}[verdict.better]
    return scale * verdict.difference, verdict.p, scale * verdict.detectable, verdict.comparisons, direction


def deviation(by_seed: pd.Series) -> float:
    """Return the sample standard deviation over seeds (ddof 1); nan for one seed, which has none."""
    return float(by_seed.std(ddof=1)) if len(by_seed) > 1 else float("nan")


def count_split_sizes(splits: pd.DataFrame) -> pd.DataFrame:
    """Return the size of each split in some of a task's rows: split_set, part, split, level, rows, classes; a row a split."""
    groups = splits.groupby(["split_set", "part", "split", "level"], sort=False)
    return groups.agg(rows=("item", "size"), classes=("label", "nunique")).reset_index()


def join_printed(published: pd.DataFrame, measured: pd.DataFrame, absent: str) -> pd.DataFrame:
    """Join measured to printed numbers; either is empty where there is no such number.

    Parameters
    ----------
    published : DataFrame
        As in `Table`.
    measured : DataFrame
        As in `Table`.
    absent : str
        The note beside a number that is not measured, where `measured` has none; the printed one follows.

    Returns
    -------
    DataFrame
        Published's columns that say which number it is, published, what others published, what else measured has,
        note; the rows of what is printed come first, as printed.
    """
    keys = [column for column in published.columns if column not in (*NUMBERS, *OTHERS, ERRATUM)]
    others = [column for column in OTHERS if column in published]
    if measured.empty:  # pandas does not join columns without a type to numbers
        measured = measured.astype({key: published[key].dtype for key in keys})
    printed_notes = {name: published.get(name, "") for name in ("note", ERRATUM)}
    left = published.assign(_printed=range(len(published)), **printed_notes)
    right = measured.assign(_row=range(len(measured)), _said=measured.get("note", ""))
    right = right.drop(columns="note", errors="ignore")
    table = left.merge(right, on=keys, how="outer").sort_values(["_printed", "_row"])
    # what is measured of a printed row and not printed stays with that row
    rows = table.groupby(keys[:-1] or keys, sort=False, dropna=False).ngroup()
    table = table.assign(_group=rows).sort_values(["_group", "_row", "_printed"])
    notes = []
    for said, note, erratum, value in table[["_said", "note", ERRATUM, "measured"]].itertuples(index=False):
        why = absent if pd.isna(value) and (pd.isna(said) or not said) else said
        text = "; ".join(str(each) for each in (why, note, erratum) if pd.notna(each) and each)
        # raw files are named relative to TRAUBE_RAW: a table is the same on every machine
        notes.append(text.replace(f"{paths.raw()}/", "TRAUBE_RAW/"))
    more = [column for column in measured.columns if column not in (*keys, "note")]
    return table.assign(note=notes)[[*keys, "published", *others, *more, "note"]].reset_index(drop=True)
