"""Which of the stored cells count today: everything ever computed is kept, but a table shows what the benchmark asks for now."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from traube.benchmark.params import Protocol
from traube.benchmark.plan import CLUSTERING_VERSION
from traube.foundation.errors import TraubeError
from traube.methods import get_clusterer, get_reducer
from traube.models import fingerprint_on, load_model, present_version
from traube.store import Manifest, Store


def current_cells(cells: pd.DataFrame, store: Store, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """The cells of each task's present data, each model's present weights and settings, and each protocol's present parameters.

    The protocol of a method or seed that was asked for beside the protocol's own becomes `<protocol>, own choice`, so that the
    protocol's numbers are the same for everybody.
    """
    cells = of_present_methods(of_present_data(cells, store), protocols)
    return of_present_models(cells, store, protocols)


def of_present_data(cells: pd.DataFrame, store: Store) -> pd.DataFrame:
    """The cells of each task's data as it is stored now; of a task whose reading failed, of the data before."""
    if cells.empty:
        return cells
    manifests = {task: store.manifest(task) for task in cells["task"].unique()}
    latest = cells.sort_values("created", kind="stable").groupby("task")["data_version"].last()
    versions = {task: m.data_version if (m := manifests[task]) else latest[task] for task in manifests}
    cells = cells[cells["task"].map(versions) == cells["data_version"]]
    clusters = {task: card.clusters if (card := store.card(task)) else None for task in versions}
    same = [_same(clusters[task], k) for task, k in zip(cells["task"], cells["clusters"], strict=True)]
    return cells[np.array(same, dtype=bool)]


def _same(k: int | None, other: float | None) -> bool:
    return pd.isna(other) if k is None else k == other


def of_present_methods(cells: pd.DataFrame, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """The cells computed by today's code and libraries with their protocol's present parameters, and their card's number of clusters.

    Protocols that are not given stay as they are.
    """
    names = [_protocol_of(cell, protocols.get(cell["protocol"])) for cell in cells.to_dict("records")]
    return cells.assign(protocol=pd.Series(names, index=cells.index, dtype=object)).dropna(subset="protocol")


def _protocol_of(cell: Mapping[str, Any], protocol: Protocol | None) -> str | None:
    name = str(cell["protocol"])
    if not is_current(cell):
        return None
    if protocol is None:
        return name
    try:
        method = protocol.method(f"{cell['reducer']}/{cell['clusterer']}")
    except TraubeError:  # a parameter that is no longer there
        return None
    if method.params() != cell["params"]:
        return None
    in_grid = method.reducer in protocol.reducers and method.clusterer in protocol.clusterers
    in_seeds = pd.isna(cell["seed"]) or int(cell["seed"]) in protocol.seeds
    return name if in_grid and in_seeds else own_choice(name)


def is_current(cell: Mapping[str, Any]) -> bool:
    """Whether a cell was computed by the code and the libraries that are installed now: others are computed again, and never mixed."""
    return cell["code_version"] == CLUSTERING_VERSION and not version_changes(cell)


def version_changes(cell: Mapping[str, Any]) -> list[str]:
    """Which of the parts and libraries that computed a cell are others now, in words; none where all are the same."""
    if not cell["numerics"]:
        return ["a version of Traube that did not note which libraries did the numbers"]
    try:
        parts = {"reducer": get_reducer(cell["reducer"]), "clusterer": get_clusterer(cell["clusterer"])}
    except TraubeError as error:  # a part that is no longer registered
        return [str(error)]
    model = cell["numerics"]["model"]
    now = {"model": {name: present_version(name) for name in model}, **{s: part.numerics for s, part in parts.items()}}
    changes: dict[str, None] = {}
    for stage, present in now.items():
        then = cell["numerics"][stage]
        for name in sorted({*then, *present}):
            if then.get(name) != present.get(name):
                what = f"{stage} {cell.get(stage, '')}".strip() if name in ("version", "class") else name
                changes[f"{what} {then.get(name)} -> {present.get(name)}"] = None
    return list(changes)


SAME = ["task", "model", "reducer", "clusterer", "seed", "protocol"]


def outdated(cells: pd.DataFrame) -> int:
    """How many cells were computed by earlier code or libraries, and not again since."""
    if cells.empty:
        return 0
    today = np.array([is_current(cell) for cell in cells.to_dict("records")])
    keys = [tuple(key) for key in cells[SAME].astype(object).where(cells[SAME].notna(), None).to_numpy()]
    again = {key for key, is_today in zip(keys, today, strict=True) if is_today}
    return len({key for key, is_today in zip(keys, today, strict=True) if not is_today} - again)


def own_choice(protocol: str) -> str:
    """The name under which methods and seeds beside a protocol's own are shown."""
    return f"{protocol}, own choice"


def within(name: str) -> str:
    """The protocol that a shown name belongs to: itself, or the one beside which the choice was made."""
    return name.removesuffix(own_choice(""))


def of_present_models(cells: pd.DataFrame, store: Store, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """The cells of each model as it is now; of a model that is gone, of the fingerprint that was evaluated last."""
    if cells.empty:
        return cells
    cells = cells.sort_values("created", kind="stable")
    manifests = {task: store.manifest(task) for task in cells["task"].unique()}
    kept = []
    for (task, model, name), rows in cells.groupby(["task", "model", "protocol"], sort=False):
        protocol = protocols.get(within(name))
        present = _fingerprint(model, protocol, manifests[task])
        if present not in set(rows["fingerprint"]):
            present = rows["fingerprint"].iloc[-1]
        kept.append(rows[rows["fingerprint"] == present])
    return pd.concat(kept)


def _fingerprint(model: str, protocol: Protocol | None, manifest: Manifest | None) -> str | None:
    if manifest is None:
        return None
    precision = protocol.precision if protocol else None
    try:
        return fingerprint_on(load_model(model, precision=precision), manifest.corpus_version)
    except TraubeError:  # it is gone, or cannot be had here
        return None
