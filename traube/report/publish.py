"""What is made anew of everything stored: the leaderboard, what changed since the night before, and the
page of all tasks.

Called by the Dagster assets of these names and by the library's own launcher.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from traube.benchmark.lookup import Lookup
from traube.benchmark.params import Protocol
from traube.benchmark.plan import Request, unavailable
from traube.comparison.regressions import CHANGES, has_snapshot, kept_changes, present, regressions, snapshot, today
from traube.foundation.files import locked, write_json, write_parquet, write_text
from traube.foundation.inert import csv_text
from traube.foundation.seals import read_parquet
from traube.report.pages import write_index
from traube.report.tables import CSV, MADE_OF, NAME, REBUILT, leaderboard, made_now, state
from traube.store import Store, one_look


def publish_leaderboard(store: Store, request: Request, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """Make the leaderboard from what is stored, and write it.

    Parameters
    ----------
    request : what is asked for: what cannot be had of it has a row
    protocols : of params.yaml, by name
    """
    # the lock spans reading and writing: a slower writer that read first would
    # lose the other's rows
    with locked(store.table(NAME)):
        made_of = state(store)
        lookup = Lookup()
        with one_look():
            absent = unavailable(request, store, lookup)
            table = leaderboard(store, absent, protocols=protocols, lookup=lookup)
        write_parquet(store.table(NAME), table)
        write_text(store.table(CSV), csv_text(table))
        write_json(store.table(MADE_OF), made_now(store, made_of))
    return table


def publish_regressions(
    store: Store, protocols: Mapping[str, Protocol], timezone: str, night: str | None = None
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
    date = night or today(timezone)
    with locked(store.table(CHANGES)):
        # a day is remembered as its night left it; without a night, as the day's
        # first publication did
        counting = present(store, protocols)
        if night or not has_snapshot(store, date):
            snapshot(store, counting, date)
        since, changes = regressions(store, protocols, counting, date)
        write_parquet(store.table(CHANGES), changes.assign(since=since))
    return since, changes


def publish_index(store: Store, home: Path) -> Path:
    """Write the page of all tasks, and note that the publication is whole: to be called last of all."""
    path = write_index(read_parquet(store.table(NAME)), kept_changes(store), home)
    # a publication that was cut short is made again
    shutil.copyfile(store.table(MADE_OF), store.table(REBUILT))
    return path
