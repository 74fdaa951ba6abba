"""The leaderboard of all tasks as a page that needs no server; it leads to each task's own
(`traube.report.explorer`). All text is escaped.
"""

from collections.abc import Collection
from datetime import UTC, datetime

import pandas as pd
from jinja2 import Environment, PackageLoader

from traube.foundation.versions import installed
from traube.report.tables import places, shown_interval, shown_name

KEYS = ["task", "level", "protocol", "own_choice"]
TEMPLATES = Environment(loader=PackageLoader("traube.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True)


def page(table: pd.DataFrame, changes: pd.DataFrame | None = None, pages: Collection[str] = ()) -> str:
    """The report.

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
    return TEMPLATES.get_template("report.html").render(
        sections=sections,
        pages=pages,
        places=places,
        shown_interval=shown_interval,
        shown_name=shown_name,
        changes=[] if changes is None else list(changes.itertuples(index=False)),
        others=others.astype(object).fillna("").to_dict("records"),
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=installed("traube"),
    )
