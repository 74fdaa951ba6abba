"""What is made anew of everything stored: leaderboard, changes since the night before, and the page of all tasks.

Called by the Dagster assets of these names and by the library's own launcher."""

import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from traube.comparison.regressions import CHANGES, NIGHT, kept_changes, present, regressions, snapshot
from traube.core.files import locked, read_parquet, write_json, write_parquet, write_text
from traube.core.inert import csv_text
from traube.pipeline.lookup import Lookup
from traube.pipeline.params import Protocol
from traube.pipeline.plan import Request
from traube.pipeline.survey import unavailable
from traube.reports.pages import write_index
from traube.reports.tables import CSV, MADE_OF, NAME, REBUILT, leaderboard, made_now, state
from traube.storage import Storage


def publish_leaderboard(storage: Storage, request: Request, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """Make the leaderboard from what is stored, and write it.

    Parameters
    ----------
    request : what is asked for: what cannot be had of it has a row
    protocols : of params.yaml, by name
    """
    # the lock spans reading and writing: a slower writer that read first would
    # lose the other's rows
    with locked(storage.get_table_path(NAME)):
        made_of = state(storage)
        lookup = Lookup()
        absent = unavailable(request, storage, lookup)
        table = leaderboard(storage, absent, protocols=protocols, lookup=lookup)
        write_parquet(storage.get_table_path(NAME), table)
        write_text(storage.get_table_path(CSV), csv_text(table))
        write_json(storage.get_table_path(MADE_OF), made_now(storage, made_of))
    return table


def publish_regressions(
    storage: Storage, protocols: Mapping[str, Protocol], timezone: str, night: str | None = None
) -> tuple[str, pd.DataFrame]:
    """Compare what counts now with the last night before today's, and write what changed.

    Parameters
    ----------
    timezone : of the benchmark, which says when a day begins
    night : date of the night that this is part of; by default none

    Returns
    -------
    since, changes : see `traube.comparison.regressions.regressions`
    """
    date = night or datetime.now(ZoneInfo(timezone)).date().isoformat()
    with locked(storage.get_table_path(CHANGES)):
        # a day is remembered as its night left it; without a night, as the day's
        # first publication did
        counting = present(storage, protocols)
        if night or not storage.read_rows("document", kind=NIGHT, key=date):
            snapshot(storage, counting, date)
        since, changes = regressions(storage, protocols, counting, date)
        write_parquet(storage.get_table_path(CHANGES), changes.assign(since=since))
    return since, changes


def publish_index(storage: Storage, home: Path) -> Path:
    """Write the page of all tasks, and note that the publication is whole: to be called last of all."""
    path = write_index(read_parquet(storage.get_table_path(NAME)), kept_changes(storage), home)
    # a publication that was cut short is made again
    shutil.copyfile(storage.get_table_path(MADE_OF), storage.get_table_path(REBUILT))
    return path
