"""From cells and scores to the leaderboard."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube.benchmark.current import current_cells, own_choice
from traube.benchmark.params import Protocol
from traube.foundation import paths
from traube.foundation.files import digest
from traube.metrics.significance import CONFIDENCE, ONE_SEED, Sample, best, holm, interval, p_values
from traube.models.checkpoints import trained_on
from traube.store import Store
from traube.tasks.task import TaskCard

COLUMNS = (
    "task", "family", "level", "protocol", "model", "method", "metric", "mean", "sd", "low", "high", "splits", "seeds", "best",
    "rank_low", "rank_high", "seen", "note",
    "status", "reason", "fingerprint", "data_version", "created",
)  # fmt: skip
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

    `mean` is the unweighted mean over splits of the mean over seeds, `sd` the population standard deviation over splits, as in
    the German benchmark (A.3), or over seeds where there is one split. `low` and `high` are the 95 % interval of the mean
    (`traube.metrics.significance`).

    Ranks are those of each model's best method. `rank_low` to `rank_high` are the places that the data allow: one place for
    each model that is significantly better or worse (paired tests, Holm-corrected over the table's pairs). Models whose places
    overlap are ties. The best method is chosen anew in each replicate of the interval and of the tests, so that its choice is
    part of them. With one split and one seed, interval and places hold what the texts explain only, and `note` says so. Silhouettes
    have no places: each model's is of its own vectors.

    Parameters
    ----------
    cells, scores : as the store gives them, the scores with replicates
    cards : by task; says the main metric
    metric : instead of the main metrics
    protocols : by name; their main metric goes before the card's

    Returns
    -------
    DataFrame with COLUMNS; `best` marks the best method of each task, level, protocol and model. Rows of cells that are not
    done have an empty level and a status with its reason. `seen` is for `leaderboard` to fill: whether the model was trained on
    the task's texts.
    """
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    keys = ["task", "family", "protocol", "model", "method", "fingerprint", "data_version"]
    done = cells[cells["status"] == "done"][["cell_id", "seed", "created", *keys]].merge(scores, on="cell_id")
    rows: list[dict[str, Any]] = []
    samples: list[Sample] = []
    for values, group in done.groupby([*keys, "level"], sort=False):
        key = dict(zip([*keys, "level"], values, strict=True))
        wanted = metric or main_metric(cards.get(key["task"]), (protocols or {}).get(key["protocol"]), group["metric"])
        chosen = group[group["metric"] == wanted]
        if len(chosen):
            sample = Sample.of(chosen, seeded=bool(chosen["seed"].notna().any()))
            rows.append(
                {
                    **key,
                    "metric": wanted,
                    "status": "done",
                    "reason": "",
                    "note": "" if sample.complete else ONE_SEED,
                    "sample": len(samples),
                    "created": chosen["created"].max(),
                    **_statistics(chosen, sample),
                }
            )
            samples.append(sample)
    others = cells[cells["status"] != "done"].drop_duplicates([*keys, "status"])
    rows += [
        {**row, "level": "", "metric": ""} for row in others[[*keys, "status", "reason", "created"]].to_dict("records")
    ]
    table = pd.DataFrame(rows, columns=[*COLUMNS, "sample"])
    table["best"] = False
    table["seen"] = False
    order = ["task", "level", "protocol", "mean", "model", "method"]
    table = table.sort_values(order, ascending=[True, True, True, False, True, True], ignore_index=True)
    for _, group in table[table["mean"].notna()].groupby(["task", "level", "protocol"]):
        _rank(table, group, samples)
    return table[list(COLUMNS)]


def _rank(table: pd.DataFrame, group: pd.DataFrame, samples: Sequence[Sample]) -> None:
    """Mark each model's best method, of equal ones the first, and give it an interval and places."""
    first = group.drop_duplicates("model").index
    table.loc[first, "best"] = True
    chosen = [_chosen([samples[int(i)] for i in rows["sample"]]) for _, rows in group.groupby("model", sort=False)]
    table.loc[first, ["low", "high"]] = [interval(sample) for sample in chosen]
    # each model's silhouette is of its own vectors, in its own space: that does not compare
    if WITHOUT_LABELS in set(group["metric"]):
        return
    if len(first) > 1 and len({sample.splits for sample in chosen}) == 1:
        table.loc[first, ["rank_low", "rank_high"]] = _places(chosen)


def _chosen(samples: Sequence[Sample]) -> Sample:
    """A model's best method, the choice being made in each replicate; those scored on other splits are left out of it."""
    return best([sample for sample in samples if sample.splits == samples[0].splits])


def main_metric(card: TaskCard | None, protocol: Protocol | None, metrics: pd.Series) -> str:
    """The protocol's main metric, or the card's, or the silhouette where there are no labels."""
    wanted = (protocol and protocol.main_metric) or (card.main_metric if card else DEFAULT_METRIC)
    return wanted if (metrics == wanted).any() else WITHOUT_LABELS


def _statistics(values: pd.DataFrame, sample: Sample) -> dict[str, float | int]:
    by_seed = values.groupby("cell_id")["value"].agg(lambda v: v.mean(skipna=False))
    spread = by_seed.to_numpy() if len(sample.values) == 1 else sample.values[:, 0]
    low, high = interval(sample)
    return {
        "mean": sample.mean,
        "sd": float(spread.std()) if len(spread) > 1 else float("nan"),
        "low": low,
        "high": high,
        "splits": len(sample.values),
        "seeds": len(by_seed),
    }


def _places(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """First and last place, [models, 2]; nan where they cannot be compared."""
    n = len(samples)
    if not all(np.isfinite(sample.values).all() for sample in samples):
        return np.full((n, 2), np.nan)
    means, pairs = np.array([sample.mean for sample in samples]), np.triu_indices(n, k=1)
    decided = np.zeros((n, n), dtype=bool)
    decided[pairs] = holm(p_values(samples)[pairs]) < 1 - CONFIDENCE
    decided |= decided.T
    higher = means[:, None] > means[None, :]
    return np.column_stack([1 + (decided & ~higher).sum(axis=1), n - (decided & higher).sum(axis=1)]).astype(np.float64)


def shown_name(row: Any) -> str:
    """A model's name in a table; with a mark if it was trained on the task's texts."""
    return f"{row.model} \N{DAGGER}" if row.seen else str(row.model)


def places(row: Any) -> str:
    """The rank interval of a leaderboard's row in words: `1`, `2-4`, or a dash where nothing can be said."""
    if pd.isna(row.rank_low):
        return "-"
    return f"{row.rank_low:.0f}" if row.rank_low == row.rank_high else f"{row.rank_low:.0f}-{row.rank_high:.0f}"


PUBLISHED = "published.json"


def state(store: Store) -> str:
    """A hash of everything that the leaderboard is made of: cells, tasks, params.yaml."""
    files = [*store.folder.glob("results/*/*.json"), *store.folder.glob("tasks/*/manifest.json"), paths.params()]
    return digest(sorted((str(f), f.stat().st_mtime_ns) for f in files if f.exists()))


def tables_are_current(store: Store) -> bool:
    """Whether leaderboard, registry and report were made of what is stored now."""
    try:
        return bool(json.loads(store.table(PUBLISHED).read_text())["state"] == state(store))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


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
    protocols = protocols or {}
    cells = current_cells(store.cells(), store, protocols)
    protocols = {**protocols, **{own_choice(name): protocol for name, protocol in protocols.items()}}
    cards = {task: card for task in cells["task"].unique() if (card := store.card(task))}
    own = {p.main_metric for p in protocols.values() if p.main_metric}
    wanted = {metric} if metric else {WITHOUT_LABELS, DEFAULT_METRIC, *own, *(c.main_metric for c in cards.values())}
    table = summary(cells, store.scores(cells, wanted, replicates=True), cards, metric, protocols)
    table["seen"] = [trained_on(model) == task for model, task in zip(table["model"], table["task"], strict=True)]
    rows = [
        {"task": "", "model": name, "status": "unavailable", "reason": reason, "best": False, "seen": False}
        for name, reason in (unavailable or {}).items()
    ]
    return pd.concat([table, pd.DataFrame(rows, columns=list(COLUMNS))], ignore_index=True) if rows else table
