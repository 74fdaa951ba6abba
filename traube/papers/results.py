"""One page of all papers' tables, as they were last written: what is printed beside what was measured here."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from traube.core.files import write_text
from traube.core.inert import csv_text
from traube.core.references import cite
from traube.papers import papers
from traube.papers.spec import Table, table_path
from traube.reports.markdown import markdown
from traube.storage import Storage

INTRODUCTION = """# Results of the papers

What each table prints beside what was measured here: `printed | measured`, `–` where there is no number. Written by
`traube papers --output docs/results.md` from stored results, not by hand; what differs from the papers, and why, is in
[papers.md](papers.md#where-we-differ)."""
WHICH = ("base", "recipe")  # what tells rows of the same printed number apart
WHEN = "measured_on"  # the day and the devices


def write_results(storage: Storage, output: Path) -> None:
    """Write the page, and its rows into a folder beside it that has its name: a CSV file for each table.

    Numbers that lie there already, and that this data directory does not have, stay on the page: what a GPU has measured,
    or an earlier data directory, is not lost. To drop one, delete its row.
    """
    folder, read_here = output.with_suffix(""), _read_here(storage)
    shown = {}
    for name, table in _tables():
        here, file = table_path(storage.folder, name, table), folder / name / f"{table.name}.csv"
        found = [read_here(here)] if here.is_file() else []
        found += [_read(file)] if file.is_file() else []
        if found:
            shown[name, table.name] = rows = _joined(*found)
            write_text(file, csv_text(rows))
    write_text(output, _page(shown))


def results_page(storage: Storage) -> str:
    """Return the page, in Markdown.

    Parameters
    ----------
    storage : Storage
        A data directory, in which `traube run` has written the tables.
    """
    read_here = _read_here(storage)
    paths = {(name, table.name): table_path(storage.folder, name, table) for name, table in _tables()}
    return _page({key: read_here(path) for key, path in paths.items() if path.is_file()})


def _tables() -> Iterator[tuple[str, Table]]:
    """The papers' own tables, each with its paper's name."""
    return ((name, table) for name, paper in papers().items() for table in paper.tables if table.published is not None)


def _read_here(storage: Storage) -> Callable[[Path], pd.DataFrame]:
    """A reader of this data directory's tables, which dates what is measured."""
    devices = sorted({device for device in storage.read_cells()["device"] if device})
    when = ", ".join([str(date.today()), *devices])

    def read(path: Path) -> pd.DataFrame:
        rows = _read(path)
        return rows.assign(**{WHEN: rows["measured"].notna().map({True: when, False: None})})

    return read


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def _joined(here: pd.DataFrame, kept: pd.DataFrame | None = None) -> pd.DataFrame:
    """A table's rows, and of those that were kept the numbers that are not measured in it."""
    if kept is None:
        return here
    printed = list(here.columns[: here.columns.get_loc("published")])
    which = [*printed, *(column for column in WHICH if column in here)]
    done = here["measured"].notna()
    kept = kept[kept["measured"].notna() & ~_keys(kept, which).isin(_keys(here[done], which))]
    rows = pd.concat([here[done | ~_keys(here, printed).isin(_keys(kept, printed))], kept])
    # in a printed row's place what is measured of it, by encoder, in the order of the columns
    row = printed[:-1] or printed
    orders = (row, [*row, *which[len(printed) :]], printed)
    ranks = [_keys(pd.concat([here, kept]), columns).unique().get_indexer(_keys(rows, columns)) for columns in orders]
    return rows.iloc[np.lexsort(ranks[::-1])].reset_index(drop=True)


def _keys(rows: pd.DataFrame, columns: list[str]) -> pd.Index:
    texts = rows[columns].fillna("").astype(str)
    return pd.Index(["\n".join(row) for row in texts.itertuples(index=False)], dtype=str)


def _page(tables: Mapping[tuple[str, str], pd.DataFrame]) -> str:
    """The page of tables as they were written, by paper and name."""
    measured = [rows.loc[rows["measured"].notna(), WHEN] for rows in tables.values()]
    days = sorted({day for each in measured for day in each})
    parts = [INTRODUCTION, f"Measured on: {'; '.join(days) or 'nothing yet'}."]
    for name, paper in papers().items():
        parts.append(f"## {cite(paper.reference)}")
        parts += [_section(table, tables.get((name, table.name))) for of, table in _tables() if of == name]
    return "\n\n".join(parts) + "\n"


def _section(table: Table, rows: pd.DataFrame | None) -> str:
    title = f"### {table.name.replace('_', ' ').capitalize()}\n\n{table.description}"
    if rows is None:
        return f"{title}\n\nNot written yet: `traube run` writes it."
    printed, measured = rows["published"].notna(), rows["measured"].notna()
    counts = f"{(printed & measured).sum()} of {printed.sum()} printed numbers stand beside one measured here."
    notes = [f"- {count} x {note}" for note, count in rows.loc[printed, "note"].value_counts().items()]
    shown = table.shown(rows.drop(columns=WHEN)).map(_in_words)
    shown = shown.loc[:, (shown != "").any()]
    return "\n\n".join([title, counts, markdown(shown), *(["\n".join(notes)] if notes else [])])


def _in_words(value: object) -> str:
    return "" if pd.isna(value) else f"{value:g}" if isinstance(value, float) else str(value)
