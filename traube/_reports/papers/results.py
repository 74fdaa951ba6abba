"""One page of all papers' tables, as they were last written: printed numbers beside those measured here."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from traube._core.errors import Invalid
from traube._core.escaping import format_csv
from traube._core.files import write_text
from traube._core.references import cite
from traube._reports.markdown import markdown
from traube._reports.papers import papers
from traube._reports.papers.spec import OTHERS, Table, locate_table
from traube._storage import Storage

INTRODUCTION = """# Results of the papers

What each table prints beside what was measured here: `printed | measured`, `–` where there is no number. Written by
`traube papers --output docs/results.md` from stored results and the rows in the folder beside it, not by hand; what
differs from the papers, and why, is on [their pages](papers.md).

- `base`: the encoder. `recipe`: the digest of a training's values that are not its trainer's defaults; the lines below a table
  list these. `trained_on`: the task of the training. `as it is`: nothing is trained.
- `±` and `sd`: standard deviation, of scores over seeds. `low`, `high`: 95 % interval. `sets`: how many of the table's data sets
  are measured. `NMI_GEOMETRIC`: NMI by the geometric mean of the entropies.
- `*`: what the others are tested against; ▲ (`higher`) and ▼ (`lower`): better or worse by that test, which is corrected for
  their number (`comparisons`). Without a mark: no difference is shown, or, where there is no `p`, none was tested.
- The lines below a table: why a printed number has none measured beside it, what is printed wrong, and what a number is of.
  Other empty cells: not printed, or of what is not printed not measured."""
GPU_COLUMNS = [
    *("machine", "unit", "side", "texts", "tokens a text", "tokens a s", "of peak", "times sentence-transformers")
]
WHICH = ("base", "recipe", "trained_on")  # what tells rows of the same printed number apart
FEW = 2  # numbers that share a note and are named
WHEN = "measured_on"  # the day on which the number was first written, and the devices of its data directory


def write_results(storage: Storage, output: Path) -> None:
    """Write the page, and its rows into a folder beside it that has its name: a CSV file for each table.

    Numbers that lie there already, and that this data directory does not have, stay on the page: what a GPU has measured,
    or an earlier data directory, is not lost. To drop one, delete its row.

    Raises
    ------
    TraubeError
        If the file is not called `.md`: the folder needs another name.
    """
    if output.suffix != ".md":
        raise Invalid(f"{output}: name a file that ends in .md; its rows are written beside it, into {output.stem}/")
    folder, read_here = output.with_suffix(""), _make_reader(storage)
    tables = {}
    for name, table in _list_tables():
        here, file = locate_table(storage.folder, name, table), folder / name / f"{table.name}.csv"
        copies = [read_here(here)] if here.is_file() else []
        copies += [_read(file)] if file.is_file() else []
        if copies:
            tables[name, table.name] = rows = _merge_kept(*copies)
            write_text(file, format_csv(rows))
    gpu, file = _read_gpu(storage), folder / "gpu.csv"
    if file.is_file():
        kept = pd.read_csv(file, float_precision="round_trip")
        gpu = kept if gpu is None else pd.concat([kept[~kept["machine"].isin(gpu["machine"])], gpu])
    if gpu is not None:
        write_text(file, format_csv(gpu))
    write_text(output, _render_page(tables, gpu))


def results_page(storage: Storage) -> str:
    """Return the page, in Markdown.

    Parameters
    ----------
    storage : Storage
        A data directory, in which `traube run` has written the tables.
    """
    read_here = _make_reader(storage)
    paths = {(name, table.name): locate_table(storage.folder, name, table) for name, table in _list_tables()}
    return _render_page({key: read_here(path) for key, path in paths.items() if path.is_file()}, _read_gpu(storage))


def _read_gpu(storage: Storage) -> pd.DataFrame | None:
    """Return the speed of encoders as `make bench-gpu` has measured it in this data directory; None where it has not."""
    path = storage.folder / "gpu_day" / "rows.jsonl"
    if not path.is_file():
        return None
    rows = pd.read_json(path, lines=True)
    rows = rows[rows["part"] == "speed"].reindex(columns=GPU_COLUMNS).convert_dtypes()
    return None if rows.empty else rows


def _list_tables() -> Iterator[tuple[str, Table]]:
    """Yield the papers' own tables, each with its paper's name."""
    return ((name, table) for name, paper in papers().items() for table in paper.tables if table.published is not None)


def _make_reader(storage: Storage) -> Callable[[Path], pd.DataFrame]:
    """Return a reader of this data directory's tables, which dates what is measured."""
    devices = sorted({device for device in storage.read_cells()["device"] if device})
    when = ", ".join([str(date.today()), *devices])

    def read(path: Path) -> pd.DataFrame:
        rows = _read(path)
        return rows.assign(**{WHEN: rows["measured"].notna().map({True: when, False: None})})

    return read


def _read(path: Path) -> pd.DataFrame:
    # a recipe is a digest, which may have digits alone; the fast parser would change last digits at each writing
    texts = dict.fromkeys(WHICH, str)
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=texts, float_precision="round_trip")


def _merge_kept(here: pd.DataFrame, kept: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return a table's rows, and the kept numbers that are not measured in it, beside what is printed today."""
    if kept is None:
        return here
    printed = list(here.columns[: here.columns.get_loc("published")])
    which = [*printed, *(column for column in WHICH if column in here)]
    kept = kept.reindex(columns=[*here.columns, *kept.columns.difference(here.columns)])
    kept = kept[kept["measured"].notna()]
    kept = kept[~_make_keys(kept, which).duplicated()]  # people edit these files
    ids = _make_keys(here, which)
    first = kept.assign(_key=_make_keys(kept, which)).set_index("_key").reindex(ids)  # when it was the same
    same = first["measured"].to_numpy() == here["measured"].to_numpy()
    here = here.assign(**{WHEN: here[WHEN].mask(same, first[WHEN].to_numpy())})
    for column in here.columns.difference([*which, "published", "note", *OTHERS]):
        # a verdict stays where the rival that it names is not in this data directory
        here[column] = here[column].mask(same & here[column].isna().to_numpy(), first[column].to_numpy())

    done = here["measured"].notna()
    kept = kept[~_make_keys(kept, which).isin(ids[done])]
    known = here.assign(_key=_make_keys(here, printed)).drop_duplicates("_key").set_index("_key")
    for column in ("published", *(other for other in OTHERS if other in here)):
        kept = kept.assign(**{column: known[column].reindex(_make_keys(kept, printed)).to_numpy()})
    rows = pd.concat([here[done | ~_make_keys(here, printed).isin(_make_keys(kept, printed))], kept])

    # in a printed row's place what is measured of it, by encoder, in the order of the columns; what is not printed keeps
    # its place, and new rows follow
    row = printed[:-1] or printed
    orders = (row, [*row, *which[len(printed) :]], printed)
    ordered = pd.concat([here[here["published"].notna()], kept, here])
    ranks = [_make_keys(ordered, columns).unique().get_indexer(_make_keys(rows, columns)) for columns in orders]
    return rows.iloc[np.lexsort(ranks[::-1])].reset_index(drop=True)


def _make_keys(rows: pd.DataFrame, columns: list[str]) -> pd.Index:
    """Return the values that tell rows apart, as texts: a whole number is the same one where gaps made it a fraction."""
    texts = rows[columns].astype(object).map(lambda value: "" if pd.isna(value) else str(value).removesuffix(".0"))
    return pd.Index(["\n".join(row) for row in texts.itertuples(index=False)], dtype=str)


def _render_page(tables: Mapping[tuple[str, str], pd.DataFrame], gpu: pd.DataFrame | None) -> str:
    """Return the page of tables as they were written, by paper and name, and of what a GPU has measured."""
    days = sorted({str(day) for rows in tables.values() for day in rows.loc[rows["measured"].notna(), WHEN].dropna()})
    parts = [INTRODUCTION, f"Measured on: {'; '.join(days) or 'nothing yet'}."]
    for name, paper in papers().items():
        parts.append(f"## {cite(paper.reference)}")
        parts += [_render_section(table, tables.get((name, table.name))) for of, table in _list_tables() if of == name]
    parts += [
        "## Encoders on a GPU",
        "No GPU has measured here yet: `make bench-gpu`." if gpu is None else _render_gpu(gpu),
    ]
    return "\n\n".join(parts) + "\n"


def _render_gpu(rows: pd.DataFrame) -> str:
    said = (
        "Tokens a second as `make bench-gpu` measures them ([how, and what follows](../benchmarks/README.md#gpu)); `of peak`: "
        "share of the fastest matrix product of that precision."
    )
    return f"{said}\n\n{markdown(_format_cells(rows))}"


def _render_section(table: Table, rows: pd.DataFrame | None) -> str:
    title = f"### {table.name.replace('_', ' ').capitalize()}\n\n{table.description}"
    if rows is None:
        return f"{title}\n\nNot written yet: `traube run` writes it."
    printed = rows[rows["published"].notna()]  # several rows where it was measured in several ways
    keys = _make_keys(printed, list(rows.columns[: rows.columns.get_loc("published")]))
    beside = keys[printed["measured"].notna().to_numpy()].nunique()
    counts = f"{beside} of {keys.nunique()} printed numbers stand beside one measured here."
    grid = _format_cells(table.shown(rows.drop(columns=WHEN)).drop(columns="note", errors="ignore"))
    notes = _list_notes(rows)
    return "\n\n".join([title, counts, markdown(grid), *(["\n".join(notes)] if notes else [])])


def _list_notes(rows: pd.DataFrame) -> list[str]:
    """Return a table's notes, most frequent first, each with the numbers that it is of or, if they are many, their count."""
    columns = list(rows.columns[: rows.columns.get_loc("published")])
    notes = rows[rows["note"].notna()].groupby("note", sort=False)
    lines = []
    for note, noted in sorted(notes, key=lambda group: -len(group[1])):
        keys = noted[columns].astype(object).map(lambda key: f"{key:g}" if isinstance(key, float) else str(key))
        keys = keys.where(noted[columns].notna(), "")
        named = ", ".join(" / ".join(filter(None, key)) for key in keys.itertuples(index=False))
        lines.append(f"- {named if len(noted) <= FEW else f'{len(noted)} numbers'}: {note}")
    return lines


def _format_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of texts, without its empty columns."""
    texts = table.map(lambda value: f"{value:g}" if isinstance(value, float) else str(value)).where(table.notna(), "")
    return texts.loc[:, (texts != "").any()]
