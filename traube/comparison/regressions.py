"""Changes since the previous nightly run, their significance, and the likely cause."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import pandas as pd

from traube._core.errors import Corrupt
from traube._core.files import read_parquet
from traube._pipeline.changes import Change, ChangeKind, in_words
from traube._pipeline.current import current_cells, drop_sweeps
from traube._pipeline.params import Keep, Protocol
from traube._storage import Document, Storage, write_table
from traube.comparison.candidates import WITHOUT_LABELS, main_metric
from traube.comparison.jackknife import Sample
from traube.comparison.samples import make_samples
from traube.comparison.verdict import Verdict, compare
from traube.components.method import name_methods
from traube.tasks.stored import get_card

Key = tuple[Any, ...]
KEYS = ["task", "protocol", "model", "method"]
CAUSES = {
    "data_version": ChangeKind.DATA,
    "fingerprint": ChangeKind.MODEL,
    "code_version": ChangeKind.CLUSTERING_CODE,
    "scoring_version": ChangeKind.SCORING_CODE,
    "params": ChangeKind.PARAMETERS,
    "clusters": ChangeKind.CLUSTERS,
    "library_versions": ChangeKind.LIBRARY,
    "numerics": ChangeKind.NUMERICS,
}
COLUMNS = {  # meaning of each column
    "task": "Task that the score is of.",
    "protocol": "Protocol of the benchmark: its methods and seeds.",
    "model": "Model whose vectors are clustered.",
    "method": "Reducer and clusterer.",
    "metric": "Metric of the score.",
    "before": "Score of the night before, at most 1.",
    "after": "Score now, at most 1.",
    "difference": "Score now less that of the night before.",
    "p": "p-value of the paired test, corrected for all comparisons.",
    "comparisons": "Number of comparisons that p is corrected for.",
    "verdict": "better, worse or no significant change; new, gone, or changed without a test.",
    "cause": "Likely cause: data, model, parameters, code or libraries.",
}
KEEP = Keep()
CHANGES = "regressions.parquet"  # what the last publication found


class Night(Document):
    """The cells that counted on a date, its key; their scores are in the storage."""

    kind: ClassVar[str] = "night"


def select_counting_cells(storage: Storage, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """Return the cells that count now, with the columns that may explain a change of their scores."""
    cells = drop_sweeps(current_cells(storage, protocols), protocols)
    cells = cells[cells["status"] == "done"]
    cells = cells.assign(method=name_methods(cells))
    kept = cells[["cell_id", *KEYS, "seed", *CAUSES]].copy()
    for column in ("params", "library_versions", "numerics"):
        kept[column] = kept[column].map(lambda value: json.dumps(value, sort_keys=True))
    return kept


def save_snapshot(storage: Storage, counting: pd.DataFrame, night: str, kept: int = KEEP.nightly_runs) -> None:
    """Keep which cells count, from `select_counting_cells`, by date; and of the nightly runs before, so many that all are `kept`."""
    storage.save_document(Night(key=night, cells=tuple(counting["cell_id"])), {"cells": write_table(counting)})
    for old in storage.read_documents(Night)[:-kept]:
        storage.remove_document(old)


def find_regressions(
    storage: Storage, protocols: Mapping[str, Protocol], counting: pd.DataFrame, today: str
) -> tuple[str, pd.DataFrame]:
    """Compare the cells that count now, from `select_counting_cells`, with the last snapshot before today's.

    Parameters
    ----------
    storage : Storage
        The storage that keeps the snapshots and scores.
    protocols : mapping of str to Protocol
        The protocols, by name.
    counting : DataFrame
        The cells that count now, from `select_counting_cells`.
    today : str
        Date before which the last snapshot is taken.

    Returns
    -------
    since : str
        The date compared with; empty if there is none.
    changes : DataFrame
        The columns are COLUMNS, with one row for each task, protocol, model and method that is new, gone or made of
        other cells. Those that can be tested are the family of comparisons, whose size stands beside p; both are nan
        for the others.
    """
    since, earlier = _read_night_before(storage, today)
    if earlier is None:
        return "", pd.DataFrame(columns=list(COLUMNS))
    then, after = (dict(iter(cells.groupby(KEYS))) for cells in (earlier, counting))
    differing = [key for key in sorted({*then, *after}) if _ids(then.get(key)) != _ids(after.get(key))]
    before = {}
    for key in differing:
        if key in then:  # only cells whose scores have not been removed since
            stored = storage.read_cells(ids=then[key]["cell_id"].tolist())
            is_scored = then[key]["cell_id"].isin(stored.loc[stored["status"] == "done", "cell_id"])
            if is_scored.any():
                before[key] = then[key][is_scored]
    changed = [key for key in differing if key in before or key in after]
    old = _read_samples(storage, protocols, before)
    new = _read_samples(storage, protocols, {key: after[key] for key in changed if key in after})
    causes = {key: _find_causes(before[key], after[key]) for key in changed if key in old and key in new}
    verdicts = {
        key: compare("today", new[key][1], since, old[key][1])
        for key, key_causes in causes.items()
        if all(cause.kind is not ChangeKind.DATA for cause in key_causes)  # scores on other texts cannot be paired
    }
    tested = sum(not verdict.undecided for verdict in verdicts.values())
    rows = [
        {
            **dict(zip(KEYS, key, strict=True)),
            **_describe_scores(old.get(key), new.get(key)),
            **_describe_change(causes.get(key), verdicts.get(key), tested, is_new=key not in before),
        }
        for key in changed
    ]
    return since, pd.DataFrame(rows, columns=list(COLUMNS)).astype({"p": float, "comparisons": float})


def read_changes(storage: Storage) -> pd.DataFrame:
    """Return the changes that the last publication found, with a column `since`; empty if there are none."""
    path = storage.get_table_path(CHANGES)
    return read_parquet(path) if path.exists() else pd.DataFrame()


def _read_night_before(storage: Storage, day: str) -> tuple[str, pd.DataFrame | None]:
    """Return the last snapshot before a day that is not corrupt, and its date."""
    for night in reversed(storage.read_documents(Night)):
        if night.key < day:
            with suppress(Corrupt):  # a corrupt snapshot cannot be recomputed: take the one before it
                return night.key, storage.read_table(night.files["cells"])
    return "", None


def _ids(cells: pd.DataFrame | None) -> set[str]:
    return set() if cells is None else set(cells["cell_id"])


def _read_samples(
    storage: Storage, protocols: Mapping[str, Protocol], groups: Mapping[Key, pd.DataFrame]
) -> dict[Key, tuple[str, Sample]]:
    """Return the main metric of each group of cells, and their scores by it, all read and assembled at once."""
    if not groups:
        return {}
    cells = pd.concat([rows.assign(group=i) for i, rows in enumerate(groups.values())], ignore_index=True)
    chosen = [main_metric(get_card(storage, key[0]), protocols.get(key[1])) for key in groups]
    stored = storage.read_cells(ids=cells["cell_id"].tolist())
    scores = storage.read_scores(stored, {*chosen, WITHOUT_LABELS}, replicates=True)
    scores = scores.merge(cells[["cell_id", "group"]], on="cell_id")
    is_first = scores["metric"] == scores["group"].map(dict(enumerate(chosen)))
    is_there = is_first.groupby(scores["group"]).transform("any")
    scores = scores[is_first | (~is_there & (scores["metric"] == WITHOUT_LABELS))]
    seeded = (cells.groupby("group")["seed"].count() > 0).tolist()
    group_rows = make_samples(scores, scores["group"].to_numpy(), seeded)
    metrics = scores.groupby("group")["metric"].first()
    return {key: (metrics[i], group_rows[i].sample) for i, key in enumerate(groups)}


def _describe_scores(was: tuple[str, Sample] | None, now: tuple[str, Sample] | None) -> dict[str, Any]:
    """Return a group's metric, and its mean before and now."""
    row: dict[str, Any] = {"metric": (now or was or ("", None))[0]}
    row |= {name: side[1].mean for name, side in (("before", was), ("after", now)) if side}
    return {**row, "difference": row["after"] - row["before"]} if was and now else row


def _describe_change(
    causes: Sequence[Change] | None, verdict: Verdict | None, comparisons: int, is_new: bool
) -> dict[str, Any]:
    """Return the verdict and the cause of a change; without causes there is nothing to compare."""
    if causes is None:
        return {"verdict": "new" if is_new else "gone", "cause": ""}
    row: dict[str, Any] = {"cause": in_words(causes) or ChangeKind.SEEDS.value}
    if verdict is None:
        return {**row, "verdict": "changed; not comparable"}
    if verdict.undecided:
        return {**row, "verdict": "changed; not tested"}
    corrected = replace(verdict, comparisons=comparisons)
    words = {"a": "better", "b": "worse", "": "no significant change"}[corrected.better]
    return {**row, "p": corrected.p, "comparisons": comparisons, "verdict": words}


def _find_causes(old: pd.DataFrame, new: pd.DataFrame) -> list[Change]:
    """Return the likely causes of a change of scores; for libraries, which ones."""
    causes: list[Change] = []
    for column, kind in CAUSES.items():
        before, after = ({None if pd.isna(v) else v for v in side[column]} for side in (old, new))
        if before == after:
            continue
        if kind is ChangeKind.LIBRARY:
            a, b = (json.loads(max(map(str, side))) for side in (before, after))
            # a library that only one of them names is not known to be another
            differing = sorted(name for name in a.keys() & b.keys() if a[name] != b[name])
            causes += [Change(kind, name, a[name], b[name]) for name in differing]
        elif kind is not ChangeKind.NUMERICS or all(cause.kind is not ChangeKind.LIBRARY for cause in causes):
            causes.append(Change(kind, column))  # unless a library says it already
    return causes
