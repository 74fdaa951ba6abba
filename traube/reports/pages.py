"""Where the pages lie, and a task's page made where it is not up to date.

What makes a page is heavy to import and is imported when one is made.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from traube.comparison.regressions import kept_changes
from traube.core.errors import TraubeError
from traube.core.files import locked, read_parquet, write_text
from traube.core.hashing import digest, file_sha256
from traube.core.versions import installed
from traube.pipeline.params import Protocol
from traube.pipeline.workbench import Workbench
from traube.reports.tables import NAME

FOLDER, INDEX = "report", "index.html"  # below a home
SERVED = "/traube"  # where `traube dev` serves that folder, beside the Dagster UI
TEMPLATES = Path(__file__).parent / "templates"


def page_of(home: Path, task: str) -> Path:
    """Where a task's page lies."""
    return home / FOLDER / f"{task}.html"


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
    path, state = page_of(home, task), _state(table, changes, task)
    with locked(path):
        is_new = not path.exists()
        if not _says(path, state):
            from traube.reports.explorer import task_page

            write_text(path, task_page(bench, protocols, task, table, changes, state))
    if is_new:
        write_index(table, changes, home)
    return path


def write_index(table: pd.DataFrame, changes: pd.DataFrame | None, home: Path) -> Path:
    """The page of all tasks, which leads to those of them that have one."""
    from traube.reports.leaderboard_page import leaderboard_page

    path = home / FOLDER / INDEX
    write_text(path, leaderboard_page(table, changes, {other.stem for other in path.parent.glob("*.html")}))
    return path


def _state(table: pd.DataFrame, changes: pd.DataFrame, task: str) -> str:
    """A hash of what a page is made of."""
    own = table[table["task"].isin((task, ""))]
    changed = changes[changes["task"] == task] if len(changes) else changes
    ours = [file_sha256(path) for path in sorted(TEMPLATES.iterdir())]
    return digest([own.to_json(), changed.to_json(), installed("traube"), ours])


def _says(path: Path, state: str) -> bool:
    """Whether a page is there and says that it is made of this."""
    try:
        with path.open(encoding="utf-8") as file:
            return state in file.read(500)
    except OSError:
        return False
