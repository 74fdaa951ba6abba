"""The leaderboard of a page, and which entries nobody beats at their cost."""

from typing import Any

import numpy as np
import pandas as pd

from traube.comparison.candidates import WITHOUT_LABELS
from traube.reports.tables import places, shown_interval, shown_name

OWN_CHOICE = ", own choice"


def rows(table: pd.DataFrame, costs: pd.DataFrame) -> list[dict[str, Any]]:
    """What is scored, a row for each level, protocol, model and method.

    Parameters
    ----------
    table : from `traube.reports.tables.leaderboard`, of one task
    costs : from `traube.reports.costs.costs`

    Returns
    -------
    Rows of names and numbers that JSON takes; a number that does not exist is None. `front` says
    that nothing of the same level and protocol scores higher at no more seconds.
    """
    done = table[table["status"] == "done"].merge(costs, how="left", on=["task", "protocol", "model", "method"])
    done["front"] = False
    # silhouettes are each of a model's own space, and do not compare
    compared = done[done["metric"] != WITHOUT_LABELS]
    for _, group in compared.groupby(["level", "protocol", "own_choice"]):
        done.loc[group.index, "front"] = on_front(group["mean"], group["seconds"])
    return [
        {
            "level": row.level,
            "protocol": row.protocol + (OWN_CHOICE if row.own_choice else ""),
            "model": row.model,
            "name": shown_name(row),
            "method": row.method,
            "place": places(row),
            "score": number(100 * row.mean),
            "sd": number(100 * row.sd),
            "interval": shown_interval(row),
            "seeds": int(row.seeds),
            "splits": int(row.splits),
            "encoding": number(row.encoding, 4),
            "clustering": number(row.clustering, 4),
            "seconds": number(row.seconds, 4),
            "memory": number(row.memory, 1),
            "best": bool(row.best),
            "front": bool(row.front),
        }
        for row in done.itertuples(index=False)
    ]


def not_scored(table: pd.DataFrame) -> list[dict[str, Any]]:
    """What has no score, and why."""
    others = table[table["status"] != "done"].drop_duplicates(["model", "method", "reason"])
    return list(others[["model", "method", "status", "reason"]].astype(object).fillna("").to_dict("records"))


def on_front(scores: pd.Series, seconds: pd.Series) -> pd.Series:
    """Whether nothing scores higher at no more seconds; never where either is unknown."""
    order = (
        pd.DataFrame({"score": scores, "seconds": seconds})
        .dropna()
        .sort_values(["seconds", "score"], ascending=[True, False])
    )
    before = order["score"].cummax().shift(fill_value=-np.inf)
    return (order["score"] > before).reindex(scores.index, fill_value=False)


def number(value: float, digits: int = 2) -> float | None:
    """As JSON takes it: rounded; None for one that does not exist."""
    return round(float(value), digits) if np.isfinite(value) else None
