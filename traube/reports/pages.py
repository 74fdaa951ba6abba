"""Where the pages lie, and a task's page made where it is not up to date: what makes it is imported only then."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import pandas as pd

from traube.comparison.regressions import kept_changes
from traube.core.errors import TraubeError
from traube.core.files import locked, read_parquet, write_text
from traube.core.hashing import digest, file_sha256
from traube.core.versions import installed
from traube.pipeline.params import Protocol
from traube.pipeline.workbench import Workbench
from traube.reports.rendering import render
from traube.reports.tables import NAME, places, shown_interval, shown_name

FOLDER, INDEX = "report", "index.html"  # below a home
SERVED = "/traube"  # where `traube dev` serves that folder, beside the Dagster UI


def make_page(bench: Workbench, protocols: Mapping[str, Protocol], task: str, home: Path) -> Path:
    """A task's page as of the last publication, made anew where what it shows has changed.

    Raises
    ------
    TraubeError
        If nothing of the task is published.
    """
    try:
        table = read_parquet(bench.storage.get_table_path(NAME))
    except FileNotFoundError:
        table = pd.DataFrame({"task": []})
    if task not in set(table["task"]):
        raise TraubeError(f"{task}: nothing is scored yet: `traube run -t {task}`")
    changes = kept_changes(bench.storage)
    # a hash of what the page is made of
    own = table[table["task"].isin((task, ""))]
    changed = changes[changes["task"] == task] if len(changes) else changes
    ours = [file_sha256(path) for path in sorted((Path(__file__).parent / "templates").iterdir())]
    path, state = home / FOLDER / f"{task}.html", digest([own.to_json(), changed.to_json(), installed("traube"), ours])
    with locked(path):
        is_new, is_current = not path.exists(), False
        with suppress(OSError), path.open(encoding="utf-8") as file:
            is_current = state in file.read(500)
        if not is_current:
            from traube.reports.explorer import task_page

            write_text(path, task_page(bench, protocols, task, table, changes, state))
    if is_new:
        write_index(table, changes, home)
    return path


def write_index(table: pd.DataFrame, changes: pd.DataFrame | None, home: Path) -> Path:
    """The page of all tasks, which leads to those of them that have one."""
    path = home / FOLDER / INDEX
    write_text(path, leaderboard_page(table, changes, {other.stem for other in path.parent.glob("*.html")}))
    return path


def leaderboard_page(table: pd.DataFrame, changes: pd.DataFrame | None = None, pages: Collection[str] = ()) -> str:
    """Return the page of all tasks, which needs no server and leads to each task's own. All text is escaped.

    Parameters
    ----------
    table : from `leaderboard`
    changes : from `regressions`, with a column `since`
    pages : tasks whose own pages lie beside it
    """
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
        pages=pages,
        places=places,
        shown_interval=shown_interval,
        shown_name=shown_name,
        changes=[] if changes is None else list(changes.itertuples(index=False)),
        others=others.astype(object).fillna("").to_dict("records"),
    )
