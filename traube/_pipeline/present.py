"""The stored cells of the data and the models that there are now."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from traube._core.errors import TraubeError
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Protocol
from traube._storage import Storage
from traube.models import fingerprint_on
from traube.tasks._stored import get_manifest

Answer = TypeVar("Answer")
CHOICE = "own_choice"


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


def answer_each(cells: pd.DataFrame, columns: list[str], answer: Callable[[Mapping[str, Any]], Answer]) -> list[Answer]:
    """Return the answer for each cell, found once for cells that are equal in the columns."""
    keys = cells[columns]
    shared = {name: keys[name].map(id) for name in ("params", "numerics") if name in keys}  # cells share dictionaries
    numbers = keys.assign(**shared).groupby(columns, sort=False, dropna=False).ngroup().to_numpy()
    _, firsts = np.unique(numbers, return_index=True)
    answers = [answer(row) for row in keys.iloc[firsts].to_dict("records")]
    return [answers[number] for number in numbers]


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
