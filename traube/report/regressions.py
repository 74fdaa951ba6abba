"""What changed since the previous night, whether it is significant, and the likely cause."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from traube.benchmark.current import current_cells
from traube.benchmark.params import Protocol
from traube.foundation.errors import TraubeError
from traube.foundation.files import write_parquet
from traube.report.tables import main_metric
from traube.store import Store

KEYS = ["task", "protocol", "model", "method"]
CAUSES = {
    "data_version": "data",
    "fingerprint": "model weights or settings",
    "code_version": "clustering code",
    "scoring_version": "scoring code",
    "params": "method parameters",
    "clusters": "the card's number of clusters",
    "library_versions": "libraries",
    "numerics": "what computes the cell",
}
COLUMNS = (*KEYS, "metric", "before", "after", "difference", "p", "verdict", "cause")
LEVEL = 0.05
OWN_CHOICE = ", own choice"  # how earlier versions marked the protocol of cells that are left out now


def present(store: Store, protocols: Mapping[str, Protocol]) -> pd.DataFrame:
    """The cells that count now, and what may explain a change of their scores."""
    cells = current_cells(store, protocols)
    cells = cells[cells["status"] == "done"]
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    kept = cells[["cell_id", *KEYS, "seed", *CAUSES]].copy()
    for column in ("params", "library_versions", "numerics"):
        kept[column] = kept[column].map(lambda value: json.dumps(value, sort_keys=True))
    return kept


def snapshot(store: Store, protocols: Mapping[str, Protocol], night: str) -> None:
    """Keep which cells count, by date. Their scores are in the store."""
    write_parquet(_path(store, night), present(store, protocols))


def has_snapshot(store: Store, night: str) -> bool:
    """Whether there is a snapshot of that date."""
    return _path(store, night).exists()


def today(timezone: str) -> str:
    """The date of a night, in the benchmark's time zone."""
    return datetime.now(ZoneInfo(timezone)).date().isoformat()


def regressions(store: Store, protocols: Mapping[str, Protocol], today: str) -> tuple[str, pd.DataFrame]:
    """Compare what counts now with the last snapshot before today's.

    Returns
    -------
    since : the date compared with; empty if there is none
    changes : DataFrame with COLUMNS, one row for each task, protocol, model and method that is new, gone or made of other cells;
        p is Holm-corrected over them, nan where there is nothing to pair
    """
    earlier = sorted(p.stem for p in _folder(store).glob("*.parquet") if p.stem < today)
    if not earlier:
        return "", pd.DataFrame(columns=list(COLUMNS))
    before, after = _groups(_read(_path(store, earlier[-1]))), _groups(present(store, protocols))
    rows = []
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old is not None and new is not None and set(old["cell_id"]) == set(new["cell_id"]):
            continue
        rows.append({**dict(zip(KEYS, key, strict=True)), **_change(store, protocols, key, old, new)})
    return earlier[-1], _judged(pd.DataFrame(rows, columns=[*COLUMNS]))


def _folder(store: Store) -> Path:
    return store.table("nights")


def _path(store: Store, night: str) -> Path:
    return _folder(store) / f"{night}.parquet"


def _read(path: Path) -> pd.DataFrame:
    cells = pd.read_parquet(path)
    return cells[~cells["protocol"].str.endswith(OWN_CHOICE)]


def _groups(cells: pd.DataFrame) -> dict[tuple[Any, ...], pd.DataFrame]:
    return {tuple(key): rows for key, rows in cells.groupby(KEYS)}


def _change(
    store: Store,
    protocols: Mapping[str, Protocol],
    key: tuple[Any, ...],
    old: pd.DataFrame | None,
    new: pd.DataFrame | None,
) -> dict[str, Any]:
    from traube.metrics.significance import Sample, difference

    task, protocol = key[0], protocols.get(key[1])
    values: dict[str, Sample] = {}
    metric = ""
    for name, cells in (("before", old), ("after", new)):
        if cells is None:
            continue
        scores = store.scores(cells.assign(status="done"), replicates=True)
        metric = main_metric(store.card(task), protocol, scores["metric"])
        values[name] = Sample.of(scores[scores["metric"] == metric], seeded=bool(cells["seed"].notna().any()))
    found: dict[str, Any] = {"metric": metric, **{name: v.mean for name, v in values.items()}}
    if old is None or new is None:
        return {**found, "verdict": "new" if old is None else "gone", "cause": ""}
    cause = "; ".join(_differing(old, new)) or "seeds"
    found |= {"difference": found["after"] - found["before"], "cause": cause}
    if "data" in cause.split("; "):
        return found  # other texts: nothing to pair
    try:
        test = difference(values["after"], values["before"])
    except TraubeError:  # a score that is not defined
        return found
    return found if test.note else {**found, "p": test.p}


def _differing(old: pd.DataFrame, new: pd.DataFrame) -> list[str]:
    """The likely causes, in words; of libraries, which."""
    causes: list[str] = []
    for column, name in CAUSES.items():
        if column not in old:  # a night of an earlier version
            continue
        before, after = ({None if pd.isna(v) else v for v in side[column]} for side in (old, new))
        if before == after:
            continue
        if column == "numerics" and any(cause.startswith("libraries") for cause in causes):
            continue  # that says it already
        if column != "library_versions":
            causes.append(name)
            continue
        a, b = (json.loads(sorted(map(str, side))[-1]) for side in (before, after))
        causes.append("libraries: " + ", ".join(f"{k} {a.get(k)} -> {b[k]}" for k in sorted(b) if a.get(k) != b[k]))
    return causes


def _judged(changes: pd.DataFrame) -> pd.DataFrame:
    from traube.metrics.significance import holm

    changes = changes.astype({"p": float, "verdict": object})
    tested = changes["p"].notna()
    changes.loc[tested, "p"] = holm(changes.loc[tested, "p"].to_numpy())
    for i, row in changes.iterrows():
        if pd.notna(row["verdict"]):
            continue
        significant = pd.notna(row["p"]) and row["p"] < LEVEL
        better = "better" if row["difference"] > 0 else "worse"
        untested = "changed; not comparable" if "data" in str(row["cause"]).split("; ") else "changed; not tested"
        changes.loc[i, "verdict"] = (
            better if significant else ("no significant change" if pd.notna(row["p"]) else untested)
        )
    return changes
