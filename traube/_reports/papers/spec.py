"""The parts of a paper: specs of how a table is measured, beside its printed numbers, and a figure drawn."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from traube._core import paths
from traube._core.escaping import format_csv
from traube._core.files import write_text
from traube._reports.papers.claims import Claim
from traube._reports.papers.context import Context
from traube._reports.rendering import figures_page
from traube.comparison.verdict import Undecided, Verdict

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
PRINTED_VERDICT = (
    "published_verdict"  # what the paper's own test says of its number: `higher`, `lower`, or `*`, its reference
)
SAME = ("same_data", "same_encoder")  # as the paper's: `yes` or `no`
WHICH = ("base", "recipe", "trained_on")  # what tells rows of the same printed number apart
ERRATUM = "erratum"  # column of what is printed: what is right in place of a number that is wrong


MARKS = {"higher": "▲", "lower": "▼", "*": "*"}


def format_cells(table: pd.DataFrame, column: str, digits: int = 2) -> list[str]:
    """Return each number as people are shown it: what was measured, then in brackets what is printed.

    Such as `72.0 ± 1.5▲ (80.5)`: the mean and sample deviation over seeds, the mark of the test, and the paper's number with
    its own mark; `79.0, 1 seed`; `11.27 (11.30; authors 11.27)`. Numbers of one value of `column` have as many digits as they
    need, at most those given.
    """
    others = [name for name in OTHERS if name in table]
    decimals = {
        name: table.groupby(column)[name].transform(_count_decimals, digits) for name in ("measured", "published")
    }
    texts = []
    for row, here, there in zip(table.to_dict("records"), decimals["measured"], decimals["published"], strict=True):
        parts, printed = [], [f"{name} {row[name]:,.{digits}f}" for name in others if pd.notna(row[name])]
        if pd.notna(row["measured"]):
            spread = f" ± {row['sd']:.{digits}f}" if pd.notna(row.get("sd")) else ", 1 seed" * (row.get("seeds") == 1)
            parts.append(f"{row['measured']:,.{int(here)}f}{spread}{MARKS.get(str(row.get('verdict')), '')}")
        if pd.notna(row["published"]):
            mark = MARKS.get(str(row.get(PRINTED_VERDICT)), "")
            printed.insert(0, f"{row['published']:,.{int(there)}f}{mark}")
        texts.append(" ".join([*parts, *([f"({'; '.join(printed)})"] if printed else [])]))
    return texts


def _count_decimals(values: pd.Series, most: int) -> int:
    """Return the fewest decimals that show all values, at most those given."""
    values = values.dropna().astype(float)
    return next((n for n in range(most) if np.allclose(values, values.round(n), rtol=0, atol=1e-9)), most)


def make_grid(table: pd.DataFrame, rows: list[str], column: str, digits: int = 2) -> pd.DataFrame:
    """Return a grid of `format_cells`, without rows of which nothing is measured.

    A row that the paper does not have is named as our row; each says whether data and encoder are the paper's.
    """
    keys = {name: table[name].map(format_key) for name in rows}
    text = table.assign(**keys, _cell=format_cells(table, column, digits))
    text = text[text["measured"].notna().groupby([text[name] for name in rows]).transform("any")]
    grid = text.pivot_table(index=rows, columns=column, values="_cell", aggfunc="first", sort=False)
    grid = grid[[name for name in table[column].drop_duplicates() if name in grid]].fillna("")
    groups = text.groupby(rows, sort=False)
    for name in (name for name in SAME if name in text):
        values = groups[name].agg(lambda each: " and ".join(each.dropna().drop_duplicates()))
        grid[name.replace("_", " ")] = values.reindex(grid.index)
    is_printed = groups["published"].agg(lambda each: each.notna().any()).reindex(grid.index).to_numpy(dtype=bool)
    grid = grid.reset_index().rename_axis(columns=None)
    name = "method" if "method" in rows else rows[0]
    return grid.assign(**{name: grid[name].where(is_printed, grid[name] + " (our row)")})


def format_key(value: object) -> str:
    """Return a value of a row as text, a number as short as it is; nothing where there is none."""
    if pd.isna(value):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def list_keys(table: pd.DataFrame) -> list[str]:
    """Return the columns that say which number of the paper a row is."""
    return list(table.columns[: table.columns.get_loc("published")])


def format_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as people are shown it: a grid of the last column that says which number it is, by the others."""
    keys = list_keys(table) if "published" in table else []
    if len(keys) < 2:
        rounded = table.round(4)
        return rounded.assign(p=[float(f"{p:.2g}") for p in table["p"]]) if "p" in table else rounded
    return make_grid(
        table, [*keys[:-1], *(name for name in WHICH if name in table and table[name].notna().any())], keys[-1]
    )


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
    # whether a row's data, and its encoder if it has one, are the paper's; or a function that says it of each row
    same_data: bool | Callable[[pd.DataFrame], pd.Series] = True
    same_encoder: bool | Callable[[pd.DataFrame], pd.Series] = True
    is_of_paper: bool = True  # the printed numbers are the paper's own, and count as such

    def list_errata(self) -> list[str]:
        """Return what is known to be printed wrong, a line each."""
        printed = pd.DataFrame() if self.published is None else self.published()
        return list(dict.fromkeys(filter(None, printed.get(ERRATUM, ()))))

    def make(self, context: Context) -> pd.DataFrame:
        """Return the table: measured beside published, if there is something published."""
        measured = self.measure(context)
        if self.published is None:
            return measured
        return self.mark_same(join_printed(self.published(), measured, self.absent))

    def mark_same(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Say of each measured row whether data and encoder are the paper's, where it does not say so itself."""
        for name, same in zip(SAME, (self.same_data, self.same_encoder), strict=True):
            is_same = same(rows) if callable(same) else pd.Series(same, index=rows.index)
            said = is_same.map({True: "yes", False: "no"}).where(rows["measured"].notna())
            given = rows[name].where(rows["measured"].notna()) if name in rows else None
            rows = rows.assign(**{name: said if given is None else given.where(given.notna(), said)})
        return rows[[*(c for c in rows if c not in (*SAME, "note")), *SAME, "note"]]


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
    needs: tuple[
        str, ...
    ] = ()  # tasks of which one has to have data, or nothing is measured; by default any of `tasks`
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
    """Return what a table says of a verdict on a row against its reference, in the order of `TESTED`.

    Of one training, or one seed, it says the difference alone: a test that knows texts only is none of the method.
    """
    if verdict.undecided in (Undecided.ONE_TRAINING, Undecided.ONE_SEED):
        return scale * verdict.difference, *UNTESTED[1:]
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
    others = [column for column in (*OTHERS, PRINTED_VERDICT) if column in published]
    keys = [column for column in published.columns if column not in (*NUMBERS, *others, ERRATUM)]
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
