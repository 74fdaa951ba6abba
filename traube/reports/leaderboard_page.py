"""The leaderboard of all tasks as a page that needs no server; it leads to each task's own
(`traube.reports.explorer`). All text is escaped.
"""

from collections.abc import Collection

import pandas as pd

from traube.reports.rendering import render
from traube.reports.tables import places, shown_interval, shown_name

KEYS = ["task", "level", "protocol", "own_choice"]


def leaderboard_page(table: pd.DataFrame, changes: pd.DataFrame | None = None, pages: Collection[str] = ()) -> str:
    """Return the page.

    Parameters
    ----------
    table : from `leaderboard`
    changes : from `regressions`, with a column `since`
    pages : tasks whose own pages lie beside it
    """
    done = table[table["status"] == "done"]
    sections = [
        {
            "task": task,
            "level": level,
            "protocol": f"{protocol}, own choice" if own_choice else protocol,
            "metric": rows["metric"].iloc[0],
            "splits": int(rows["splits"].max()),
            "notes": sorted(set(rows["note"]) - {""}),
            "rows": list(rows[rows["best"]].itertuples(index=False)),
        }
        for (task, level, protocol, own_choice), rows in done.groupby(KEYS, sort=True)
    ]
    others = table[table["status"] != "done"].drop_duplicates(["task", "model", "method", "reason"])
    return render(
        "leaderboard.html",
        sections=sections,
        pages=pages,
        places=places,
        shown_interval=shown_interval,
        shown_name=shown_name,
        changes=[] if changes is None else list(changes.itertuples(index=False)),
        others=others.astype(object).fillna("").to_dict("records"),
    )
