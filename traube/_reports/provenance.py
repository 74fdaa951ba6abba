"""The provenance of a score, and what has changed since."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from traube._core.errors import Missing, TraubeError, unknown
from traube._pipeline.changes import Change, ChangeKind
from traube._pipeline.cluster import CLUSTERING_VERSION
from traube._pipeline.current import current_cells
from traube._pipeline.kinds import select_kind
from traube._pipeline.kinds.clustering import CLUSTERINGS, find_version_changes
from traube._pipeline.params import Protocol
from traube._pipeline.record import library_versions
from traube._reports.found import describe_counts, found_k
from traube._reports.tables import metric_of
from traube._storage import CellRow, Storage
from traube.components.method import is_method, name_methods
from traube.metrics import SCORING_VERSION
from traube.models import fingerprint_on, load_model
from traube.models.prompts import get_model_prompt
from traube.tasks import get_source
from traube.tasks.stored import get_card, get_manifest


def trace_provenance(
    storage: Storage, protocols: Mapping[str, Protocol], task: str, model: str, method: str | None = None
) -> list[dict[str, Any]]:
    """Return the provenance of a model's cells on a task: those that count today, else the last that did.

    Returns
    -------
    list of dict
        The record of each cell, `scores` (the mean over splits by level, in the leaderboard's metric) and `changed_since`,
        in words.
    """
    stored = storage.read_cells()
    every = select_kind(stored, CLUSTERINGS)
    for kind, name in (("task", task), ("model", model)):
        if name not in set(every[kind]):
            if kind == "task" and name in set(stored["task"]):
                get_source(name)  # refuses pairs
            raise unknown(f"scored {kind}", name, sorted(set(every[kind])))
    cells = every[(every["task"] == task) & (every["model"] == model)]
    names = name_methods(cells)
    if method:
        meant = names.map(lambda name: is_method(name, method))
        if not meant.any():
            raise unknown(f"scored method of {model} on {task}", method, sorted(set(names)))
        cells = cells[meant]
    if cells.empty:
        raise Missing(f"nothing is stored of {task} x {model}; `traube leaderboard --all` shows what is")
    counted = current_cells(storage, protocols, [task], own_choice=True)
    counted = counted[counted["cell_id"].isin(cells["cell_id"])]
    traced = counted if len(counted) else cells[cells["created"] == cells["created"].max()]
    values = storage.read_scores(traced)
    card, counts = (
        get_card(storage, task),
        found_k(storage, traced, {name: p.split_set for name, p in protocols.items()}),
    )
    records = traced.astype(object).where(traced.notna(), None).to_dict("records")
    rows = {row.cell_id: row for row in storage.read_rows(CellRow, task=task, model=model)}
    for record in records:
        record["prompt"] = _find_prompt(protocols.get(record["protocol"]), rows[record["cell_id"]])
        record["seed"] = None if record["seed"] is None else int(record["seed"])
        cell_scores = values[values["cell_id"] == record["cell_id"]]
        metric = metric_of(card, protocols.get(record["protocol"]), cell_scores["metric"])
        means = cell_scores[cell_scores["metric"] == metric].groupby("level")["value"].mean()
        record["scores"] = {f"{level} {metric}": float(mean) for level, mean in means.items() if pd.notna(mean)}
        own_k = counts[counts["cell_id"] == record["cell_id"]].itertuples()
        record |= {f"{of.level} clusters": describe_counts(of.found_k, of.true_k) for of in own_k}
        changes = [*changed_since(storage, protocols, rows[record["cell_id"]]), *_of_raw_data(storage, task)]
        record["changed_since"] = [str(change) for change in changes]
    return records


def _find_prompt(protocol: Protocol | None, cell: CellRow) -> str | None:
    """Return the prompt that a cell's texts had; None if its model is no longer the same, so that nobody knows."""
    try:
        model = load_model(cell.model, precision=protocol.precision if protocol else None)
        is_same = model.corpus_bound or model.fingerprint == cell.fingerprint
        return get_model_prompt(model) if is_same else None
    except TraubeError:
        return None


def changed_since(storage: Storage, protocols: Mapping[str, Protocol], cell: CellRow) -> list[Change]:
    """Return the differences between now and the time when a cell was computed."""
    manifest, protocol = get_manifest(storage, cell.task), protocols.get(cell.protocol)
    changes = []
    if manifest is None:
        changes.append(Change(ChangeKind.DATA, "the task's data is not there"))
    elif manifest.data_version != cell.data_version:
        changes.append(Change(ChangeKind.DATA, "data version", cell.data_version, manifest.data_version))
    try:
        precision = protocol.precision if protocol else None
        model = load_model(cell.model, precision=precision)
        present = fingerprint_on(model, manifest.corpus_version) if manifest else cell.fingerprint
        if present != cell.fingerprint:
            changes.append(Change(ChangeKind.MODEL, "model fingerprint", cell.fingerprint, present))
    except TraubeError as error:
        changes.append(Change(ChangeKind.MODEL, f"the model cannot be had: {error}"))
    if protocol is None:
        changes.append(Change(ChangeKind.PROTOCOL, f"protocol {cell.protocol} is no longer in params.yaml"))
    elif protocol.for_task(cell.task).method(f"{cell.reducer}/{cell.clusterer}").params() != cell.params:
        changes.append(Change(ChangeKind.PARAMETERS, "the method's parameters in params.yaml"))
    for kind, what, then, now in (
        (ChangeKind.CLUSTERING_CODE, "clustering code version", cell.code_version, CLUSTERING_VERSION),
        (ChangeKind.SCORING_CODE, "scoring code version", cell.scoring_version, SCORING_VERSION),
        (
            ChangeKind.CLUSTERS,
            "the card's number of clusters",
            cell.clusters,
            manifest.card.clusters if manifest else cell.clusters,
        ),
    ):
        if then != now:
            changes.append(Change(kind, what, then, now))
    if by := find_version_changes(cell.numerics, cell.reducer, cell.clusterer, cell.model):
        changes.append(Change(ChangeKind.NUMERICS, f"computed by other versions: {', '.join(map(str, by))}"))
    versions = library_versions()
    for name, then in cell.library_versions.items():
        if then != versions.get(name):
            changes.append(Change(ChangeKind.LIBRARY, name, then, versions.get(name)))
    return changes


def _of_raw_data(storage: Storage, task: str) -> list[Change]:
    manifest = get_manifest(storage, task)
    if manifest is None:
        return []
    try:
        source = get_source(task)
        missing = source.missing()
        if missing:
            return [Change(ChangeKind.RAW_DATA, f"the raw data is gone: {missing}")]
        same = source.raw_version() == manifest.raw_version
        return [] if same else [Change(ChangeKind.RAW_DATA, "the raw data or its card, which has not been read again")]
    except TraubeError as error:
        return [Change(ChangeKind.RAW_DATA, f"the task cannot be had: {error}")]
