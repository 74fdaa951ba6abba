"""A paper's tables and figures as files: a folder for each paper below `papers/` of a home."""

from pathlib import Path

import pandas as pd

from traube.core.files import write_text
from traube.core.inert import csv_text
from traube.papers.context import Context
from traube.papers.spec import Drawing, Figure, Table


def write_table(home: Path, paper: str, table: Table, context: Context) -> tuple[pd.DataFrame, Path]:
    """Measure a table of a paper and write it; return its rows and where it lies."""
    rows = table.make(context)
    path = home / "papers" / paper / f"{table.name}.csv"
    write_text(path, csv_text(rows))
    return rows, path


def write_figure(home: Path, paper: str, figure: Figure, context: Context) -> tuple[Drawing, Path]:
    """Draw a figure of a paper and write it, and its data beside it; return both and where it lies."""
    drawing = figure.make(context)
    path = home / "papers" / paper / f"{figure.name}.html"
    write_text(path, drawing.content)
    if drawing.data is not None:
        write_text(path.with_suffix(".csv"), csv_text(drawing.data))
    return drawing, path
