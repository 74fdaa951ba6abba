"""From cells and scores to the leaderboard."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube import paths
from traube.files import digest
from traube.models.checkpoints import trained_on
from traube.params import Protocol
from traube.standing import own_choice, standing
from traube.store import Store
from traube.task import TaskCard

# (task, protocol) -> the texts of each (split, level), as any ids
Texts = Callable[[str, str], Mapping[tuple[str, str], NDArray[np.int64]]]
Overlap: TypeAlias = NDArray[np.float64]
COLUMNS = (
    "task", "family", "level", "protocol", "model", "method", "metric", "mean", "sd", "low", "high", "splits", "seeds", "best",
    "rank_low", "rank_high", "seen",
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
    texts: Texts | None = None,
) -> pd.DataFrame:
    """One row per task, level, protocol, model and method.

    `mean` is the unweighted mean over splits of the mean over seeds, `sd` the population standard deviation over splits, as in
    the German benchmark (A.3), or over seeds where there is one split. `low` and `high` are the 95 % Student interval of the
    mean over splits, widened for the texts that they share (`traube.metrics.significance`), or over seeds where there is one
    split; empty where there is one of each.

    Ranks are those of each model's best method. `rank_low` to `rank_high` are the places that the data allow: one place for
    each model that is significantly better or worse (paired tests over splits, Holm-corrected over the table's pairs). Models
    whose places overlap are ties. Empty where there is one split; `traube compare` tests those by their texts.

    Parameters
    ----------
    cells, scores : as the store gives them
    cards : by task; says the main metric
    metric : instead of the main metrics
    protocols : by name; their main metric goes before the card's
    texts : the texts of each split and level, by task and protocol; by default splits count as independent

    Returns
    -------
    DataFrame with COLUMNS; `best` marks the best method of each task, level, protocol and model. Rows of cells that are not
    done have an empty level and a status with its reason. `seen` is for `leaderboard` to fill: whether the model was trained on
    the task's texts.
    """
    cells = cells.assign(method=cells["reducer"] + "/" + cells["clusterer"])
    keys = ["task", "family", "protocol", "model", "method", "fingerprint", "data_version"]
    done = cells[cells["status"] == "done"][["cell_id", "seed", "created", *keys]].merge(scores, on="cell_id")
    overlaps = _Overlaps(texts)
    rows, by_split = [], {}
    for values, group in done.groupby([*keys, "level"], sort=False):
        key = dict(zip([*keys, "level"], values, strict=True))
        wanted = metric or main_metric(cards.get(key["task"]), (protocols or {}).get(key["protocol"]), group["metric"])
        chosen = group[group["metric"] == wanted]
        if len(chosen):
            # a split without a score leaves the mean without one: to pass over it would flatter
            of_split = chosen.groupby("split")["value"].agg(lambda v: v.mean(skipna=False))
            by_split[*values] = of_split
            overlap = overlaps.of(key["task"], key["protocol"], key["level"], of_split.index)
            rows.append(
                {
                    **key,
                    "metric": wanted,
                    "status": "done",
                    "reason": "",
                    "created": chosen["created"].max(),
                    **_statistics(chosen, of_split, overlap),
                }
            )
    others = cells[cells["status"] != "done"].drop_duplicates([*keys, "status"])
    rows += [
        {**row, "level": "", "metric": ""} for row in others[[*keys, "status", "reason", "created"]].to_dict("records")
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table["best"] = False
    table["seen"] = False
    order = ["task", "level", "protocol", "mean", "model", "method"]
    table = table.sort_values(order, ascending=[True, True, True, False, True, True], ignore_index=True)
    ranked = table[table["mean"].notna()]
    if len(ranked):
        best = ranked.groupby(["task", "level", "protocol", "model"])["mean"].idxmax()
        table.loc[best, "best"] = True  # of equal ones the first
        for (task, level, protocol), group in ranked.loc[best].groupby(["task", "level", "protocol"]):
            if len(group) > 1:
                samples = [by_split[*(row[k] for k in keys), level] for _, row in group.iterrows()]
                overlap = overlaps.of(task, protocol, level, samples[0].index)
                table.loc[group.index, ["rank_low", "rank_high"]] = _rank_intervals(samples, overlap)
    return table


def main_metric(card: TaskCard | None, protocol: Protocol | None, metrics: pd.Series) -> str:
    """The protocol's main metric, or the card's, or the silhouette where there are no labels."""
    wanted = (protocol and protocol.main_metric) or (card.main_metric if card else DEFAULT_METRIC)
    return wanted if (metrics == wanted).any() else WITHOUT_LABELS


class _Overlaps:
    """What the splits of a task and level share, worked out once each."""

    def __init__(self, texts: Texts | None) -> None:
        self._texts = texts
        self._found: dict[tuple[Any, ...], Overlap | None] = {}

    def of(self, task: str, protocol: str, level: str, splits: pd.Index) -> Overlap | None:
        """Covariance [n, n] of those splits, as from `shared`; None where their texts are not known."""
        from traube.metrics.significance import shared

        key = (task, protocol, level, *splits)
        if key not in self._found:
            texts = self._texts(task, protocol) if self._texts else {}
            known = bool(len(splits)) and all((split, level) in texts for split in splits)
            self._found[key] = shared([texts[split, level] for split in splits]) if known else None
        return self._found[key]


def _statistics(values: pd.DataFrame, by_split: pd.Series, overlap: Overlap | None) -> dict[str, float | int]:
    by_seed = values.groupby("cell_id")["value"].agg(lambda v: v.mean(skipna=False))
    single = len(by_split) == 1
    sample = by_seed if single else by_split
    low, high = _interval(sample.to_numpy(), None if single else overlap)
    return {
        "mean": float(by_split.mean(skipna=False)),
        "sd": float(sample.std(ddof=0, skipna=False)) if len(sample) > 1 else float("nan"),
        "low": low,
        "high": high,
        "splits": len(by_split),
        "seeds": len(by_seed),
    }


def _interval(sample: np.ndarray, overlap: Overlap | None) -> tuple[float, float]:
    if len(sample) < 2 or not np.isfinite(sample).all():
        return float("nan"), float("nan")
    from traube.metrics.significance import paired_t

    test = paired_t(sample, overlap)
    return (test.low, test.high) if np.isfinite(test.low) else (float("nan"), float("nan"))


def _rank_intervals(samples: Sequence[pd.Series], overlap: Overlap | None) -> NDArray[np.float64]:
    """First and last place, [models, 2], of models with a score [splits] each; nan where they cannot be compared."""
    from traube.metrics.significance import holm, paired_t

    n = len(samples)
    if len(samples[0]) < 2 or any(not s.index.equals(samples[0].index) or s.isna().any() for s in samples):
        return np.full((n, 2), np.nan)
    pairs = list(combinations(range(n), 2))
    tests = [paired_t((samples[i] - samples[j]).to_numpy(), overlap) for i, j in pairs]
    places = np.column_stack([np.ones(n), np.full(n, float(n))])
    for (i, j), test, p in zip(pairs, tests, holm([t.p for t in tests]), strict=True):
        if p < 1 - CONFIDENCE:
            better, worse = (i, j) if test.difference > 0 else (j, i)
            places[worse, 0] += 1
            places[better, 1] -= 1
    return places


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


def is_published(store: Store) -> bool:
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
    cells = standing(store.cells(), store, protocols)
    protocols = {**protocols, **{own_choice(name): protocol for name, protocol in protocols.items()}}
    cards = {task: card for task in cells["task"].unique() if (card := store.card(task))}
    own = {p.main_metric for p in protocols.values() if p.main_metric}
    wanted = {metric} if metric else {WITHOUT_LABELS, DEFAULT_METRIC, *own, *(c.main_metric for c in cards.values())}
    known = protocols

    @lru_cache
    def texts(task: str, protocol: str) -> dict[tuple[str, str], NDArray[np.int64]]:
        split_set = known[protocol].split_set if protocol in known else "default"
        if task not in cards or store.manifest(task) is None:
            return {}
        return {(s.split, s.level): s.rows for s in store.task(cards[task]).test_splits(split_set)}

    table = summary(cells, store.scores(cells, wanted), cards, metric, protocols, texts)
    table["seen"] = [trained_on(model) == task for model, task in zip(table["model"], table["task"], strict=True)]
    rows = [
        {"task": "", "model": name, "status": "unavailable", "reason": reason, "best": False, "seen": False}
        for name, reason in (unavailable or {}).items()
    ]
    return pd.concat([table, pd.DataFrame(rows, columns=list(COLUMNS))], ignore_index=True) if rows else table
