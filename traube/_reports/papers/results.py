"""Pages of the papers' claims and tables, as these were last written: printed numbers beside those measured here."""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from traube._core.errors import Invalid
from traube._core.escaping import format_csv
from traube._core.files import write_text
from traube._core.references import cite
from traube._reports.markdown import markdown, markdown_rows
from traube._reports.papers import papers
from traube._reports.papers.claims import Holds
from traube._reports.papers.spec import (
    OTHERS,
    PRINTED_VERDICT,
    SAME,
    TESTED,
    WHICH,
    Paper,
    Table,
    format_key,
    list_keys,
    locate_table,
)
from traube._storage import Storage

INTRODUCTION = """# Results of the papers

What five papers say, and what was measured here. Written by `traube papers --output docs/results.md` from stored results and the
rows in the folder beside it, not by hand; what differs from the papers, and why, is on [their pages](papers.md)."""
READING = """On the papers' pages a number is what was measured, and what the paper prints follows in brackets, as in `72.0 ± 1.5▲ (80.5)`.

- `±`: sample standard deviation over seeds (ddof 1); where something was trained, a seed is a training.
- ▲ and ▼: better or worse than `*` by a test, corrected for the rows that are compared with it; inside the brackets the paper's own.
  Where something was trained, the test counts trainings: what another would give is part of its error. No mark: no difference is
  shown, or none was tested. The line *tests find* below a table has the differences that its tests find four times in five, as does
  `finds` in the evidence; the CSV files have them for each row (`detectable`), with p-values, and what is printed, with the papers' marks,
  where nothing is measured.
- `same data`, `same encoder`: whether they are the paper's. `(our row)`: of a method, data or an encoder that the
  paper's table does not have, whoever made the method.
- `base`: the encoder. `recipe`: the digest of a training's values that are not its trainer's defaults; the lines below a table list
  these. `trained_on`: the task of the training. `as it is`: nothing is trained."""
FEW = 2  # numbers that share a note and are named
Tables: TypeAlias = Mapping[tuple[str, str], pd.DataFrame]  # by paper and name
WHEN = "measured_on"  # the day on which the number was first written, and the devices of its data directory


def write_results(storage: Storage, output: Path) -> None:
    """Write the page of claims, and into a folder beside it that has its name a page for each paper and a CSV file a table.

    Numbers that lie there already, and that this data directory does not have, stay: what an earlier data directory has
    measured is not lost. To drop one, delete its row. A picture of a figure, `PAPER/figure_N.png` in that folder, is shown.

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
            tables[name, table.name] = rows = table.mark_same(_print_again(_merge_kept(*copies), table))
            write_text(file, format_csv(rows))
    write_text(output, _render_claims(tables, folder.name))
    for name, paper in papers().items():
        write_text(folder / f"{name}.md", _render_paper(name, paper, tables, folder / name))


def results_page(storage: Storage) -> str:
    """Return the page of claims and those of the papers, in Markdown, from the tables of a data directory.

    Parameters
    ----------
    storage : Storage
        A data directory, in which `traube run` has written the tables.
    """
    read_here = _make_reader(storage)
    paths = {(name, table.name): locate_table(storage.folder, name, table) for name, table in _list_tables()}
    tables = {key: read_here(path) for key, path in paths.items() if path.is_file()}
    pages = [_render_paper(name, paper, tables, None) for name, paper in papers().items()]
    return "\n".join([_render_claims(tables, None), *pages])


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
    beside = (*OTHERS, PRINTED_VERDICT)
    printed = list_keys(here)
    which = [*printed, *(column for column in WHICH if column in here)]
    kept = kept.reindex(columns=[*here.columns, *kept.columns.difference(here.columns)])
    kept = kept[kept["measured"].notna()]
    kept = kept[~_make_keys(kept, which).duplicated()]  # people edit these files
    ids = _make_keys(here, which)
    first = kept.assign(_key=_make_keys(kept, which)).set_index("_key").reindex(ids)  # when it was the same
    same = first["measured"].to_numpy() == here["measured"].to_numpy()
    here = here.assign(**{WHEN: here[WHEN].mask(same, first[WHEN].to_numpy())})
    # a verdict stays where the rival that it names is not in this data directory, and nowhere else
    is_tested = here[[column for column in ("p", "verdict") if column in here]].notna().any(axis=1).to_numpy()
    for column in here.columns.difference([*which, "published", "note", *beside]):
        is_absent = here[column].isna().to_numpy() & ~(is_tested & (column in TESTED))
        here[column] = here[column].mask(same & is_absent, first[column].to_numpy())

    done = here["measured"].notna()
    kept = kept[~_make_keys(kept, which).isin(ids[done])]
    known = here.assign(_key=_make_keys(here, printed)).drop_duplicates("_key").set_index("_key")
    for column in ("published", *(other for other in beside if other in here)):
        kept = kept.assign(**{column: known[column].reindex(_make_keys(kept, printed)).to_numpy()})
    rows = pd.concat([here[done | ~_make_keys(here, printed).isin(_make_keys(kept, printed))], kept])

    # in a printed row's place what is measured of it, by encoder, in the order of the columns; what is not printed keeps
    # its place, and new rows follow
    row = printed[:-1] or printed
    orders = (row, [*row, *which[len(printed) :]], printed)
    ordered = pd.concat([here[here["published"].notna()], kept, here])
    ranks = [_make_keys(ordered, columns).unique().get_indexer(_make_keys(rows, columns)) for columns in orders]
    return rows.iloc[np.lexsort(ranks[::-1])].reset_index(drop=True)


def _print_again(rows: pd.DataFrame, table: Table) -> pd.DataFrame:
    """Return rows with what the paper prints as it is known today: a misread number may have been mended since."""
    printed = table.published() if table.published else pd.DataFrame()
    columns = list_keys(rows)
    known = printed.assign(_key=_make_keys(printed, columns)).set_index("_key") if len(printed) else printed
    beside = [name for name in ("published", *OTHERS, PRINTED_VERDICT) if name in known]
    keys = _make_keys(rows, columns)
    return rows.assign(**{name: known[name].reindex(keys).to_numpy() for name in beside})


def _make_keys(rows: pd.DataFrame, columns: list[str]) -> pd.Index:
    """Return the values that tell rows apart, as texts: a whole number is the same one where gaps made it a fraction."""
    texts = rows[columns].astype(object).map(lambda value: "" if pd.isna(value) else str(value).removesuffix(".0"))
    return pd.Index(["\n".join(row) for row in texts.itertuples(index=False)], dtype=str)


def _render_claims(tables: Tables, folder: str | None) -> str:
    """Return the page of what the papers say; `folder` has their pages, to which it links."""
    claims, measured, counts = list[tuple[str, ...]](), list[tuple[str, ...]](), list[tuple[str, ...]]()
    verdicts = Counter[Holds]()
    for name, paper in papers().items():
        title = f"[{name}]({folder}/{name}.md)" if folder else name
        of_paper = {table: of_table for (of, table), of_table in tables.items() if of == name}
        for claim in paper.claims:
            evidence = claim.judge(partial(_select_measured, of_paper))
            number = str(len(claims) + 1)
            claims.append((number, claim.says, evidence.holds.value, evidence.findings[0], f"{name}, {claim.place}"))
            measured.append((number, evidence.measured, evidence.on))
            verdicts[evidence.holds] += 1
        counts.append(
            (title, *map(str, _count_printed([table for table in _list_tables() if table[0] == name], tables)))
        )
    days = sorted(
        {str(day) for of_table in tables.values() for day in of_table.loc[of_table["measured"].notna(), WHEN].dropna()}
    )
    parts = [
        INTRODUCTION,
        f"Of {len(claims)} claims, here {', '.join(f'{verdicts[holds]} *{holds.value}*' for holds in Holds)}. *Not tested*: data, an "
        "encoder or trainings are not here, or what was measured decides nothing. *In part* also says that the evidence is weaker than "
        "the paper's: no test, fewer sets, another encoder. Where such evidence speaks against a claim, the claim is *not tested*, so "
        "that few can fail here.",
        markdown_rows(["", "what a paper says", "here", "measured, in short", "which, and where"], claims)
        if claims
        else "No paper has claims.",
        "## The evidence",
        markdown_rows(["", "measured", "on which data and encoder"], measured) if measured else "There is none.",
        "## What is measured",
        "How many printed numbers stand beside one that was measured: *like with like*, with the same data and, where there is one, the "
        "same encoder; or *with another encoder or smaller data*, where the two say how far apart they are, and not who is right.",
        _make_table(["paper", "printed", "like with like", "with another encoder or smaller data"], counts),
        "## How to read the papers' pages",
        READING,
        f"Measured on: {'; '.join(days) or 'nothing yet'}.",
    ]
    if folder:
        pages = "\n".join(f"{folder}/{name}" for name in papers())
        parts.append(f"```{{toctree}}\n:hidden:\n\n{pages}\n```")
    return "\n\n".join(parts) + "\n"


def _make_table(header: list[str], rows: Sequence[Sequence[str]]) -> str:
    """Return cells that are Markdown already as a table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *rows])


def _select_measured(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    rows = tables.get(name, pd.DataFrame({"measured": []}))
    return rows[rows["measured"].notna()]


def _count_printed(specs: Sequence[tuple[str, Table]], tables: Tables) -> tuple[int, int, int]:
    """Return how many numbers are printed, and measured with the same data and encoder, and otherwise alone."""
    printed, alike, otherwise = 0, 0, 0
    for name, table in specs:
        rows = tables.get((name, table.name))
        if rows is None or not table.is_of_paper:
            continue
        rows = rows[rows["published"].notna()]  # several rows where it was measured in several ways
        keys = _make_keys(rows, list_keys(rows))
        is_measured = rows["measured"].notna().to_numpy()
        is_same = is_measured & (rows[list(SAME)] == "yes").all(axis=1).to_numpy()
        printed += keys.nunique()
        alike += keys[is_same].nunique()
        otherwise += keys[is_measured].nunique() - keys[is_same].nunique()
    return printed, alike, otherwise


def _render_paper(name: str, paper: Paper, tables: Tables, folder: Path | None) -> str:
    """Return a paper's page: its figures of which there is a picture in the folder, and its tables as they were written."""
    parts = [f"# {cite(paper.reference)}"]
    for figure in paper.figures:
        if folder and (folder / f"{figure.name}.png").is_file():
            title = figure.name.replace("_", " ").capitalize()
            parts.append(f"## {title}\n\n{figure.description}\n\n![{title}]({name}/{figure.name}.png)")
    parts += [_render_section(table, tables.get((name, table.name))) for of, table in _list_tables() if of == name]
    return "\n\n".join(parts) + "\n"


def _render_section(table: Table, rows: pd.DataFrame | None) -> str:
    title = f"## {table.name.replace('_', ' ').capitalize()}\n\n{table.description}"
    if rows is None:
        return f"{title}\n\nNot written yet: `traube run` writes it."
    notes = _list_notes(rows)
    if rows["measured"].isna().all():
        return "\n\n".join([title, "Nothing of it is measured here.", "\n".join(notes)])
    grid = table.shown(rows.drop(columns=WHEN)).drop(columns="note", errors="ignore").map(format_key)
    grid = grid.loc[:, (grid != "").any()]
    lines = [*notes, *_describe_power(rows, {str(name).lower() for name in [*grid, *grid.get("metric", ())]})]
    return "\n\n".join([title, markdown(grid), *(["\n".join(lines)] if lines else [])])


def _list_notes(rows: pd.DataFrame) -> list[str]:
    """Return a table's notes, most frequent first, each with the numbers that it is of or, if they are many, their count."""
    columns = list_keys(rows)
    notes = rows[rows["note"].notna()].groupby("note", sort=False)
    lines = []
    for note, noted in sorted(notes, key=lambda group: -len(group[1])):
        keys = noted[columns].astype(object).map(format_key)
        named = ", ".join(" / ".join(filter(None, key)) for key in keys.itertuples(index=False))
        lines.append(f"- {named if len(noted) <= FEW else f'{len(noted)} numbers'}: {note}")
    return lines


def _describe_power(rows: pd.DataFrame, metrics: Container[str]) -> list[str]:
    """Return what a table's tests find, from the best to the worst of them, by each metric that stands on the page.

    A table of one metric says it by its columns.
    """
    if "detectable" not in rows or rows["detectable"].isna().all():
        return []
    by = "metric" if "metric" in rows else rows.columns[rows.columns.get_loc("published") - 1]
    sizes = rows[rows["detectable"].notna()].groupby(by, sort=False)["detectable"]
    ranges = {
        name: " to ".join(dict.fromkeys(f"{round(end, 4):.2g}" for end in (size.min(), size.max())))
        for name, size in sizes
        if name in metrics
    }
    names = {name: name.upper() if by == "metric" else name for name in ranges}
    return [f"- Tests find: {'; '.join(f'{names[name]} {ends}' for name, ends in ranges.items())}."]
