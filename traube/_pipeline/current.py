"""The stored cells that count today: all that was ever computed is kept, but tables show what is requested now."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from traube._core.errors import TraubeError
from traube._pipeline.cell import CLUSTERING_VERSION
from traube._pipeline.changes import Change, Kind
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Point, Protocol
from traube._storage import Storage
from traube.components import get_clusterer, get_reducer
from traube.models import fingerprint_on, present_version
from traube.tasks._stored import get_manifest

Answer = TypeVar("Answer")
CHOICE = "own_choice"


def current_cells(
    storage: Storage,
    protocols: Mapping[str, Protocol],
    tasks: Iterable[str] = (),
    *,
    own_choice: bool = False,
    lookup: Lookup | None = None,
    stored: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return the cells that count today.

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
        The columns are CELL_COLUMNS and `own_choice` (bool); the rows are sorted by time of creation.
    """
    cells = cells_of_any_weights(storage, protocols, tasks, stored)
    cells = keep_present_models(cells, storage, protocols, lookup or Lookup())
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
) -> pd.DataFrame:
    """Return what `current_cells` returns with own choices, but of any fingerprint: the registry knows former ones."""
    cells = keep_present_data(keep_clusterings(storage.read_cells(*tasks) if stored is None else stored), storage)
    columns = ["task", "protocol", "reducer", "clusterer", "params", "seed", "code_version", "numerics"]
    special = {(name, task) for name, protocol in protocols.items() for task in protocol.parameters_of}
    named = zip(cells["protocol"], cells["task"], strict=True)
    equal = cells.assign(task=[key[1] if key in special else "" for key in named])  # tasks share an answer
    choices = _answer_each(equal, columns, lambda cell: _is_own_choice(cell, protocols.get(cell["protocol"])))
    return cells.assign(**{CHOICE: choices}).dropna(subset=CHOICE).astype({CHOICE: bool})


def keep_clusterings(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of clustering tasks: those of pair tasks belong to no protocol."""
    return cells[cells["protocol"] != ""]


def keep_present_data(cells: pd.DataFrame, storage: Storage) -> pd.DataFrame:
    """Return the cells of each task's data as it is stored now; of a task whose reading failed, of the data before."""
    if cells.empty:
        return cells
    manifests = {task: get_manifest(storage, task) for task in cells["task"].unique()}
    latest = cells.sort_values("created", kind="stable").groupby("task")["data_version"].last()
    versions = {task: m.data_version if (m := manifests[task]) else latest[task] for task in manifests}
    cells = cells[cells["task"].map(versions) == cells["data_version"]]
    present = {task: m.card.clusters if m else None for task, m in manifests.items()}
    clusters, then = cells["task"].map(present).astype(float), cells["clusters"].astype(float)
    return cells[(clusters == then) | (clusters.isna() & then.isna())]


def _answer_each(
    cells: pd.DataFrame, columns: list[str], answer: Callable[[Mapping[str, Any]], Answer]
) -> list[Answer]:
    """Return the answer for each cell, found once for cells that are equal in the columns."""
    own = cells[columns]
    shared = {name: own[name].map(id) for name in ("params", "numerics") if name in own}  # cells share dictionaries
    numbers = own.assign(**shared).groupby(columns, sort=False, dropna=False).ngroup().to_numpy()
    _, firsts = np.unique(numbers, return_index=True)
    answers = [answer(row) for row in own.iloc[firsts].to_dict("records")]
    return [answers[number] for number in numbers]


def _is_own_choice(cell: Mapping[str, Any], protocol: Protocol | None) -> bool | None:
    """Return whether a cell's method or seed is another than its protocol's; None for a cell that does not count."""
    if not is_current(cell):
        return None
    if protocol is None:
        return False
    try:
        method = protocol.for_task(cell["task"]).method(f"{cell['reducer']}/{cell['clusterer']}")
    except TraubeError:  # a parameter that is no longer there
        return None
    if method.params() != cell["params"]:
        return None
    in_grid = method.reducer in protocol.reducers and method.clusterer in protocol.clusterers
    in_seeds = pd.isna(cell["seed"]) or int(cell["seed"]) in protocol.seeds
    return not (in_grid and in_seeds)


def is_current(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell was computed by the code and libraries that are installed now.

    Cells computed by others are never mixed with it.
    """
    return cell["code_version"] == CLUSTERING_VERSION and not find_version_changes(cell)


def find_version_changes(cell: Mapping[str, Any]) -> list[Change]:
    """Return the components and libraries that computed a cell and have changed since."""
    if not cell["numerics"]:
        return [Change(Kind.NUMERICS, "a version of Traube that did not note which libraries did the numbers")]
    try:
        components = {"reducer": get_reducer(cell["reducer"]), "clusterer": get_clusterer(cell["clusterer"])}
    except TraubeError as error:  # a part that is no longer registered
        return [Change(Kind.NUMERICS, str(error))]
    model = cell["numerics"]["model"]
    now = {
        "model": {name: present_version(name) for name in model},
        **{s: component.numerics for s, component in components.items()},
    }
    changes: dict[Change, None] = {}
    for stage, present in now.items():
        then = cell["numerics"][stage]
        for name in sorted({*then, *present}):
            if then.get(name) != present.get(name):
                what = f"{stage} {cell.get(stage, '')}".strip() if name in ("version", "class") else name
                changes[Change(Kind.NUMERICS, what, then.get(name) or "none", present.get(name) or "none")] = None
    return list(changes)


def count_outdated(cells: pd.DataFrame) -> int:
    """Return how many clustering cells were computed by earlier code or libraries, and not again since."""
    cells = keep_clusterings(cells)
    today = _answer_each(cells, ["reducer", "clusterer", "code_version", "numerics"], is_current)
    same = ["task", "model", "reducer", "clusterer", "seed", "protocol"]
    is_today = cells.assign(today=today).groupby(same, dropna=False)["today"].any()
    return int((~is_today).sum())


def keep_present_models(
    cells: pd.DataFrame, storage: Storage, protocols: Mapping[str, Protocol], lookup: Lookup
) -> pd.DataFrame:
    """Return the cells of each model as it is now; of a model that is gone, of the fingerprint that was evaluated last."""
    if cells.empty:
        return cells
    cells = cells.sort_values("created", kind="stable")
    manifests = {task: get_manifest(storage, task) for task in cells["task"].unique()}
    keys = ["task", "model", "protocol"]
    present: dict[tuple[str, str, str], str] = {}
    for task, name, protocol in cells[keys].drop_duplicates().itertuples(index=False):
        precision, manifest = protocols[protocol].precision if protocol in protocols else None, manifests[task]
        try:
            model = lookup.usable(name, precision)
        except TraubeError:  # it is gone, or cannot be had here
            continue
        if manifest is not None:
            present[task, name, protocol] = fingerprint_on(model, manifest.corpus_version)

    key_of_cell = zip(*(cells[key].tolist() for key in keys), strict=True)
    fingerprints = np.array([present.get(key) for key in key_of_cell], dtype=object)
    same = cells["fingerprint"].to_numpy() == fingerprints
    groups = [cells[key] for key in (*keys, CHOICE)]
    is_there = pd.Series(same, index=cells.index).groupby(groups).transform("any").to_numpy()
    last = cells["fingerprint"].groupby(groups).transform("last")
    return cells[np.where(is_there, same, cells["fingerprint"] == last)]
