"""Publication of everything stored: leaderboard, changes since the night before, and pages."""

import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from traube._core.errors import Missing
from traube._core.escaping import format_csv
from traube._core.files import locked, read_parquet, write_json, write_parquet, write_text
from traube._core.hashing import digest, file_sha256
from traube._core.versions import get_version
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Protocol
from traube._pipeline.request import Request
from traube._pipeline.survey import unavailable
from traube._pipeline.workbench import Workbench
from traube._reports.rendering import render
from traube._reports.tables import (
    CSV,
    MADE_OF,
    NAME,
    REBUILT,
    leaderboard,
    leaderboard_is_current,
    made_now,
    show_interval,
    show_name,
    show_rank,
    state,
)
from traube._storage import Storage
from traube.comparison.champions import Champion, read_champions
from traube.comparison.regressions import (
    CHANGES,
    KEEP,
    Night,
    find_regressions,
    read_changes,
    save_snapshot,
    select_counting_cells,
)
from traube.comparison.verdict import format_score, format_significance

FOLDER, INDEX = "report", "index.html"  # in the data directory
SERVED = "/traube"  # where `traube dev` serves that folder, beside the Dagster UI


def make_page(bench: Workbench, protocols: Mapping[str, Protocol], task: str, home: Path) -> Path:
    """Make a task's page, if anything that it shows has changed, and return its path."""
    try:
        table = read_parquet(bench.storage.get_table_path(NAME))
    except FileNotFoundError:
        table = pd.DataFrame({"task": []})
    if task not in set(table["task"]):
        raise Missing(f"{task}: nothing is scored yet: `traube run -t {task}`")
    if not leaderboard_is_current(bench.storage):  # the page's verdicts are of what is stored, and so are its tables
        of_task = leaderboard(bench.storage, protocols=protocols, tasks=[task])
        table = pd.concat([table[table["task"] != task], of_task], ignore_index=True)
    changes = read_changes(bench.storage)
    # a hash of what the page is made of
    task_rows = table[table["task"].isin((task, ""))]
    changed = changes[changes["task"] == task] if len(changes) else changes
    ours = [file_sha256(path) for path in sorted((Path(__file__).parent / "templates").iterdir())]
    made_of = digest([task_rows.to_json(), changed.to_json(), get_version("traube"), ours])
    path = home / FOLDER / f"{task}.html"
    with locked(path):
        is_new, is_current = not path.exists(), False
        with suppress(OSError), path.open(encoding="utf-8") as file:
            is_current = made_of in file.read(500)
        if not is_current:
            from traube._reports.explorer.page import task_page

            write_text(path, task_page(bench, protocols, task, table, changes, made_of))
    if is_new:
        write_index(table, changes, home, read_champions(bench.storage).now)
    return path


def write_index(
    table: pd.DataFrame, changes: pd.DataFrame | None, home: Path, champions: Sequence[Champion] = ()
) -> Path:
    """Write the page of all tasks, with links to the tasks' own pages where these exist."""
    path = home / FOLDER / INDEX
    pages = {other.stem for other in path.parent.glob("*.html")}
    write_text(path, leaderboard_page(table, changes, pages, champions))
    return path


def leaderboard_page(
    table: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    pages: Collection[str] = (),
    champions: Sequence[Champion] = (),
) -> str:
    """Return the page of all tasks, which needs no server and links to each task's own page among `pages`."""
    done = table[table["status"] == "done"]
    sections = [
        {
            "task": task,
            "level": level,
            "protocol": f"{protocol}, own choice" if own_choice else protocol,
            "metric": rows["metric"].iloc[0],
            "splits": int(rows["splits"].max()),
            "notes": sorted(set(rows["note"]) - {""}),
            "rows": list(rows[rows["best"]].itertuples(index=False)),
        }
        for (task, level, protocol, own_choice), rows in done.groupby(["task", "level", "protocol", "own_choice"])
    ]
    others = table[table["status"] != "done"].drop_duplicates(["task", "model", "method", "reason"])
    return render(
        "leaderboard.html",
        sections=sections,
        champions=champions,
        pages=pages,
        inboxes=sorted(name.removesuffix(".inbox") for name in pages if name.endswith(".inbox")),
        format_score=format_score,
        format_significance=format_significance,
        show_rank=show_rank,
        show_interval=show_interval,
        show_name=show_name,
        changes=[] if changes is None else list(changes.itertuples(index=False)),
        others=others.astype(object).where(others.notna(), "").to_dict("records"),
    )


def publish_leaderboard(storage: Storage, request: Request, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """Make the leaderboard from what is stored, and write it.

    A requested task or model that is unavailable has a row too.
    """
    # the lock spans reading and writing: a slower writer that read first would lose the other's rows
    with locked(storage.get_table_path(NAME)):
        made_of = state(storage)
        lookup = Lookup()
        absent = unavailable(request, storage, lookup)
        table = leaderboard(storage, absent, protocols=protocols, lookup=lookup, keep=True)
        write_parquet(storage.get_table_path(NAME), table)
        write_text(storage.get_table_path(CSV), format_csv(table))
        write_json(storage.get_table_path(MADE_OF), made_now(storage, made_of))
    return table


def publish_regressions(
    storage: Storage,
    protocols: Mapping[str, Protocol],
    timezone: str,
    night: str | None = None,
    kept: int = KEEP.nightly_runs,
) -> tuple[str, pd.DataFrame]:
    """Compare the current scores with those of the last nightly run before today, and write the changes.

    The changes are returned as `regressions` does. A day begins as the benchmark's timezone says; `night` is the
    date of the nightly run that this is part of, if any; of all nightly runs, so many are kept.
    """
    date = night or datetime.now(ZoneInfo(timezone)).date().isoformat()
    with locked(storage.get_table_path(CHANGES)):
        # a day is remembered as its night left it; without a night, as the day's first publication did
        counting = select_counting_cells(storage, protocols)
        if night or storage.get_document(Night, date) is None:
            save_snapshot(storage, counting, date, kept)
        since, changes = find_regressions(storage, protocols, counting, date)
        write_parquet(storage.get_table_path(CHANGES), changes.assign(since=since))
    return since, changes


def publish_index(storage: Storage, home: Path) -> Path:
    """Write the page of all tasks, and note that the publication is complete; call this last."""
    champions = read_champions(storage).now
    path = write_index(read_parquet(storage.get_table_path(NAME)), read_changes(storage), home, champions)
    # a publication that was cut short is made again
    shutil.copyfile(storage.get_table_path(MADE_OF), storage.get_table_path(REBUILT))
    return path
