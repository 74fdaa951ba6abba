"""The leaderboard of a page, its entries that are unbeaten at their cost, and scores over time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from traube._core.spending import in_dollars
from traube._pipeline.params import Protocol
from traube._reports.tables import show_interval, show_name, show_rank
from traube._storage import Storage
from traube.comparison._candidates import WITHOUT_LABELS, main_metric
from traube.components._method import name_methods
from traube.models._checkpoints import trained_on
from traube.tasks._stored import get_card

OWN_CHOICE = ", own choice"
STATE = ["protocol", "model", "fingerprint", "data_version", "code_version"]


def rows(table: pd.DataFrame, costs: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a row for each scored level, protocol, model and method of a task, with its `costs`.

    Returns
    -------
    list of dict
        Rows of names and numbers that JSON takes; a number that does not exist is None. `front` says that nothing of the
        same level and protocol scores higher at no more seconds, `earlier` that the texts had been encoded before.
    """
    done = table[table["status"] == "done"].merge(costs, how="left", on=["task", "protocol", "model", "method"])
    done["front"], done["earlier"] = False, done["earlier"].eq(True)
    # silhouettes are each of a model's own space, and do not compare
    compared = done[done["metric"] != WITHOUT_LABELS]
    for _, group in compared.groupby(["level", "protocol", "own_choice"]):
        done.loc[group.index, "front"] = on_front(group["mean"], group["seconds"])
    return [
        {
            "level": row.level,
            "protocol": row.protocol + (OWN_CHOICE if row.own_choice else ""),
            "model": row.model,
            "name": show_name(row),
            "method": row.method,
            "rank": show_rank(row),
            "score": number(100 * row.mean),
            "sd": number(100 * row.sd),
            "interval": show_interval(row),
            "seeds": int(row.seeds),
            "splits": int(row.splits),
            "encoding": number(row.encoding, 4),
            "clustering": number(row.clustering, 4),
            "seconds": number(row.seconds, 4),
            "memory": number(row.memory, 1),
            "money": number(row.money, 15),
            "paid": "" if pd.isna(row.money) else in_dollars(row.money),
            "earlier": bool(row.earlier),
            "best": bool(row.best),
            "front": bool(row.front),
        }
        for row in done.itertuples(index=False)
    ]


def on_front(scores: pd.Series, seconds: pd.Series) -> pd.Series:
    """Return which rows have no rival that scores higher at no more seconds.

    A row whose score or seconds are unknown is never on the front.
    """
    known = pd.DataFrame({"score": scores, "seconds": seconds}).dropna()
    order = known.sort_values(["seconds", "score"], ascending=[True, False])
    before = order["score"].cummax().shift(fill_value=-np.inf)
    return (order["score"] > before).reindex(scores.index, fill_value=False)


def history(storage: Storage, protocols: Mapping[str, Protocol], task: str) -> list[dict[str, Any]]:
    """Return all scores ever computed on a task, by time.

    For each model, weights, data and code, the score is the mean of the best method.

    A checkpoint of the task's own (`<trainer>__<task>__<name>`) belongs to its trainer's `line`.
    """
    cells = storage.read_cells(task)
    cells = cells[cells["status"] == "done"]
    if cells.empty:
        return []
    cells = cells.assign(method=name_methods(cells))
    card = get_card(storage, task)
    wanted = {name: main_metric(card, protocols.get(name)) for name in cells["protocol"].unique()}
    scores = storage.read_scores(cells, set(wanted.values())).merge(cells[["cell_id", "method", "created", *STATE]])
    scores = scores[scores["metric"] == scores["protocol"].map(wanted)]
    means = scores.groupby([*STATE, "method"], dropna=False).agg(mean=("value", "mean"), created=("created", "max"))
    best = means.reset_index().sort_values("mean", ascending=False).drop_duplicates(STATE).sort_values("created")
    points = []
    for row in best[best["mean"].notna()].itertuples(index=False):
        trainer, *rest = row.model.split("__")
        is_own = rest and trained_on(row.model) == task
        points.append(
            {
                "line": f"{trainer}'s checkpoints" if is_own else row.model,
                "protocol": row.protocol,
                "model": row.model,
                "weights": row.fingerprint[:12],
                "data": row.data_version[:12],
                "code": str(row.code_version),
                "method": row.method,
                "score": number(100 * row.mean),
                "created": row.created,
            }
        )
    return points


def number(value: float, digits: int = 2) -> float | None:
    """Return a number rounded for JSON; None for one that does not exist."""
    return round(float(value), digits) if np.isfinite(value) else None
