"""One page of all papers' tables, as they were last written: what is printed beside what was measured here."""

from pathlib import Path

import pandas as pd

from traube.core.references import cite
from traube.papers import papers
from traube.papers.spec import Table, table_path
from traube.reports.markdown import markdown
from traube.storage import Storage

INTRODUCTION = """# Results of the papers

What each table prints beside what was measured here: `printed | measured`, `–` where there is no number. Written by
`traube papers --output docs/results.md` from stored results, not by hand; what differs from the papers, and why, is in
[papers.md](papers.md#where-we-differ)."""


def results_page(storage: Storage) -> str:
    """Return the page, in Markdown.

    Parameters
    ----------
    storage : Storage
        A data directory, in which `traube run` has written the tables.
    """
    devices = sorted({device for device in storage.read_cells()["device"] if device})
    parts = [INTRODUCTION, f"Computed on: {', '.join(devices) or 'nothing yet'}."]
    for name, paper in papers().items():
        tables = [table for table in paper.tables if table.published is not None]
        parts += [f"## {cite(paper.reference)}", *(_section(t, table_path(storage.folder, name, t)) for t in tables)]
    return "\n\n".join(parts) + "\n"


def _section(table: Table, path: Path) -> str:
    title = f"### {table.name.replace('_', ' ').capitalize()}\n\n{table.description}"
    if not path.is_file():
        return f"{title}\n\nNot written yet: `traube run` writes it."
    rows = pd.read_csv(path, keep_default_na=False, na_values=[""])
    printed, measured = rows["published"].notna(), rows["measured"].notna()
    counts = f"{(printed & measured).sum()} of {printed.sum()} printed numbers stand beside one measured here."
    notes = [f"- {count} x {note}" for note, count in rows.loc[printed, "note"].value_counts().items()]
    shown = table.shown(rows).map(_in_words)
    shown = shown.loc[:, (shown != "").any()]
    return "\n\n".join([title, counts, markdown(shown), *(["\n".join(notes)] if notes else [])])


def _in_words(value: object) -> str:
    return "" if pd.isna(value) else f"{value:g}" if isinstance(value, float) else str(value)
