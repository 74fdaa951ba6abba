"""The stored cells that count today: all that was ever computed is kept, but tables show what is requested now."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from traube._pipeline.forgotten import drop_forgotten
from traube._pipeline.kinds import kinds, select_kind
from traube._pipeline.kinds.clustering import CLUSTERINGS
from traube._pipeline.kinds.kind import Kind
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Point, Protocol
from traube._pipeline.present import CHOICE, answer_each, keep_present_data
from traube._storage import Storage


def current_cells(
    storage: Storage,
    protocols: Mapping[str, Protocol],
    tasks: Iterable[str] = (),
    *,
    kind: Kind[Any] = CLUSTERINGS,
    own_choice: bool = False,
    lookup: Lookup | None = None,
    stored: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the cells of a kind that count today.

    They belong to each task's present data, each model's present weights and settings, and each protocol's present
    parameters, and were computed by today's code and libraries.

    Parameters
    ----------
    storage : Storage
        The storage that holds the cells.
    protocols : mapping of str to Protocol
        Protocols by name; cells of other protocols count whatever their parameters.
    tasks : iterable of str, optional
        By default all.
    kind : Kind, optional
        The kind of the tasks. By default clustering.
    own_choice : bool, default=False
        Also give the cells of a method or seed that somebody requested beside the protocol's own. A protocol's
        numbers are the same for everybody without them.
    lookup : Lookup, optional
        The models as they are now, if they have been looked up before.
    stored : DataFrame, optional
        The cells of these tasks, if they have been read before.

    Returns
    -------
    DataFrame
        The columns are CELL_COLUMNS and `own_choice` (bool); clusterings are sorted by time of creation.
    """
    cells = cells_of_any_weights(storage, protocols, tasks, stored, kind)
    cells = kind.keep_weights(cells, storage, protocols, lookup or Lookup())
    return cells if own_choice else cells[~cells[CHOICE]]


def drop_sweeps(cells: pd.DataFrame, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """Return the cells that are not points of a sweep, which compares a method with itself."""
    points = [name for name, protocol in protocols.items() if isinstance(protocol, Point)]
    return cells[~cells["protocol"].isin(points)]


def cells_of_any_weights(
    storage: Storage,
    protocols: Mapping[str, Protocol],
    tasks: Iterable[str] = (),
    stored: pd.DataFrame | None = None,
    kind: Kind[Any] = CLUSTERINGS,
) -> pd.DataFrame:
    """Return what `current_cells` returns with own choices, but of any fingerprint: the registry knows former ones."""
    cells = drop_forgotten(storage.read_cells(*tasks) if stored is None else stored, storage)
    cells = keep_present_data(select_kind(cells, kind), storage)
    choices = kind.list_choices(cells, protocols)
    return cells.assign(**{CHOICE: choices}).dropna(subset=CHOICE).astype({CHOICE: bool})


def list_outdated_cells(storage: Storage, protocols: Mapping[str, Protocol]) -> set[str]:
    """Return the ids of the finished cells of all kinds that do not count today."""
    cells, lookup = storage.read_cells(), Lookup()
    outdated = {*cells["cell_id"]}
    for kind in kinds():
        current = current_cells(storage, protocols, kind=kind, own_choice=True, lookup=lookup, stored=cells)
        outdated -= {*current["cell_id"]}
    return outdated


def count_outdated(cells: pd.DataFrame) -> int:
    """Return how many cells were computed by earlier code or libraries, and not again since."""
    return sum(_count_outdated(select_kind(cells, kind), kind) for kind in kinds())


def _count_outdated(cells: pd.DataFrame, kind: Kind[Any]) -> int:
    today = answer_each(cells, ["reducer", "clusterer", "code_version", "numerics"], kind.is_current)
    keys = cells[list(kind.replaced_by)].astype(str)  # parameters are dictionaries, which are not hashable
    is_today = keys.assign(today=today).groupby(list(kind.replaced_by), dropna=False)["today"].any()
    return int((~is_today).sum())
