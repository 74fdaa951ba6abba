"""From cells and scores to the leaderboard."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from traube.params import Protocol
from traube.store import Store
from traube.task import TaskCard

COLUMNS = (
    "task", "family", "level", "protocol", "model", "method", "metric", "mean", "sd", "low", "high", "splits", "seeds", "best",
    "status", "reason", "fingerprint", "data_version", "created",
)  # fmt: skip
CONFIDENCE = 0.95
WITHOUT_LABELS = "silhouette"
DEFAULT_METRIC = TaskCard.model_fields["main_metric"].default


def summary(
    cells: pd.DataFrame,
    scores: pd.DataFrame,
    cards: Mapping[str, TaskCard],
    metric: str | None = None,
    protocols: Mapping[str, Protocol] | None = None,
) -> pd.DataFrame:
    """One row per task, level, protocol, model and method.

    `mean` is the unweighted mean over splits of the mean over seeds, `sd` its population standard deviation over splits, as in
    the German benchmark (A.3). `low` and `high` are the 95 % Student interval over splits, or over seeds where there is
    one split; empty where there is one of each. Splits drawn from one corpus overlap, so that interval is too narrow.

    Parameters
    ----------
    cells, scores : as the store gives them
    cards : by task; says the main metric
    metric : instead of the main metrics
    protocols : by name; their main metric goes before the card's

    Returns
    -------
    DataFrame with COLUMNS; `best` marks the best method of each task, level, protocol and model. Rows of cells that are not
    done have an empty level and a status with its reason.
    """
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    keys = ["task", "family", "protocol", "model", "method", "fingerprint", "data_version"]
    done = cells[cells["status"] == "done"][["cell_id", "seed", "created", *keys]].merge(scores, on="cell_id")
    rows = []
    for values, group in done.groupby([*keys, "level"], sort=False):
        key = dict(zip([*keys, "level"], values, strict=True))
        wanted = metric or _main_metric(cards.get(key["task"]), (protocols or {}).get(key["protocol"]), group["metric"])
        chosen = group[group["metric"] == wanted]
        if len(chosen):
            rows.append(
                {
                    **key,
                    "metric": wanted,
                    "status": "done",
                    "reason": "",
                    "created": chosen["created"].max(),
                    **_statistics(chosen),
                }
            )
    others = cells[cells["status"] != "done"].drop_duplicates([*keys, "status"])
    rows += [
        {**row, "level": "", "metric": ""} for row in others[[*keys, "status", "reason", "created"]].to_dict("records")
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table["best"] = False
    order = ["task", "level", "protocol", "mean", "model", "method"]
    table = table.sort_values(order, ascending=[True, True, True, False, True, True], ignore_index=True)
    ranked = table[table["mean"].notna()]
    if len(ranked):
        best = ranked.groupby(["task", "level", "protocol", "model"])["mean"].idxmax()
        table.loc[best, "best"] = True  # of equal ones the first
    return table


def _main_metric(card: TaskCard | None, protocol: Protocol | None, metrics: pd.Series) -> str:
    """The protocol's main metric, or the card's, or the silhouette where there are no labels."""
    wanted = (protocol and protocol.main_metric) or (card.main_metric if card else DEFAULT_METRIC)
    return wanted if (metrics == wanted).any() else WITHOUT_LABELS


def _statistics(values: pd.DataFrame) -> dict[str, float | int]:
    by_split = values.groupby("split")["value"].mean()
    by_seed = values.groupby("cell_id")["value"].mean()
    sample = by_split if len(by_split) > 1 else by_seed
    low, high = _interval(sample.to_numpy())
    return {
        "mean": float(by_split.mean()),
        "sd": float(by_split.std(ddof=0)),
        "low": low,
        "high": high,
        "splits": len(by_split),
        "seeds": len(by_seed),
    }


def _interval(sample: np.ndarray) -> tuple[float, float]:
    if len(sample) < 2 or not np.isfinite(sample).all():
        return float("nan"), float("nan")
    from scipy import stats  # slow to import, and only needed here

    margin = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(sample) - 1) * sample.std(ddof=1) / np.sqrt(len(sample)))
    return float(sample.mean() - margin), float(sample.mean() + margin)


def current(cells: pd.DataFrame, store: Store) -> pd.DataFrame:
    """The cells that belong on the leaderboard: of a task's present data, and of a model's newest fingerprint."""
    if cells.empty:
        return cells
    manifests = {task: store.manifest(task) for task in cells["task"].unique()}
    versions = cells["task"].map({task: m.data_version for task, m in manifests.items() if m})
    cells = cells[versions.isna() | (versions == cells["data_version"])]
    cells = cells.sort_values("created", kind="stable")
    newest = cells.groupby(["task", "model", "protocol"])["fingerprint"].transform("last")
    return cells[newest == cells["fingerprint"]]


def leaderboard(
    store: Store,
    unavailable: Mapping[str, str] | None = None,
    metric: str | None = None,
    protocols: Mapping[str, Protocol] | None = None,
) -> pd.DataFrame:
    """The whole leaderboard, from what is stored.

    Parameters
    ----------
    unavailable : reason by task or model that is asked for and cannot be had; shown as rows of that status
    """
    cells = current(store.cells(), store)
    cards = {task: card for task in cells["task"].unique() if (card := store.card(task))}
    own = {p.main_metric for p in (protocols or {}).values() if p.main_metric}
    wanted = {metric} if metric else {WITHOUT_LABELS, DEFAULT_METRIC, *own, *(c.main_metric for c in cards.values())}
    table = summary(cells, store.scores(cells, wanted), cards, metric, protocols)
    rows = [
        {"task": "", "model": name, "status": "unavailable", "reason": reason, "best": False}
        for name, reason in (unavailable or {}).items()
    ]
    return pd.concat([table, pd.DataFrame(rows, columns=list(COLUMNS))], ignore_index=True) if rows else table
