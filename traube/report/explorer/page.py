"""A page put together, as one file."""

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from traube.benchmark.current import current_cells
from traube.benchmark.lookup import Lookup
from traube.benchmark.params import Protocol
from traube.comparison.candidates import WITHOUT_LABELS, Candidate, candidates, first_of_each, main_metric
from traube.comparison.standings import standing
from traube.engine.workbench import Workbench
from traube.foundation.errors import TraubeError
from traube.foundation.versions import installed
from traube.report.best import best_on
from traube.report.costs import costs
from traube.report.explorer.board import not_scored, number, rows
from traube.report.explorer.differences import differences
from traube.report.explorer.history import history
from traube.report.explorer.ranks import diagram
from traube.report.explorer.views import SHOWN, views
from traube.report.figures import SHOWN as HEATMAP_SHOWN
from traube.report.figures import heatmap
from traube.tasks.task import Task

TEMPLATES = Environment(loader=PackageLoader("traube.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
MODELS = 8  # of maps and pairs: the best ones


def task_page(
    bench: Workbench,
    protocols: Mapping[str, Protocol],
    task: str,
    table: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    made_of: str = "",
) -> str:
    """A task's page.

    Parameters
    ----------
    table : from `traube.report.tables.leaderboard`; rows of other tasks are left aside
    changes : from `traube.comparison.regressions`, with a column `since`
    made_of : noted in the page
    """
    own = table[table["task"].isin((task, ""))]
    lookup = Lookup()
    cells = current_cells(bench.store, protocols, [task], own_choice=True, lookup=lookup)
    data: dict[str, Any] = {
        "board": rows(own, costs(bench.store, protocols, cells)),
        "absent": not_scored(own),
        "views": [],
        "pairs": [],
        "history": history(bench.store, protocols, task),
        "changes": [] if changes is None or changes.empty else _plain(changes[changes["task"] == task]),
    }
    missing, shown, compared = "", "", dict[str, list[Candidate]]()
    try:
        stored = bench.task(task)
        options = _options(bench, protocols, stored, cells[~cells["own_choice"]])
        shown = max(options, key=lambda name: len(first_of_each(options[name])), default="")
        firsts = first_of_each(options.get(shown, []))[:MODELS]
        data["views"] = views(bench, stored, protocols.get(shown), firsts, lookup)
        if stored.labelled:  # silhouettes, each of a model's own space, do not compare
            compared = options
            data["pairs"] = _pairs(bench, protocols, stored, shown, cells[~cells["own_choice"]]) if shown else []
    except TraubeError as error:  # its texts are not here, or damaged
        missing = str(error)
    done = own[own["status"] == "done"]
    heads = ["level", "protocol", "own_choice"]
    return render(
        "explorer.html",
        task=task,
        metric=done["metric"].iloc[0] if len(done) else "",
        made_of=made_of,
        notes=sorted(set(done["note"]) - {""}) if len(done) else [],
        answers=_answers(bench, protocols, task, compared),
        diagrams=_diagrams(bench, compared),
        heatmaps=[(key, heatmap(group)) for key, group in done.groupby(heads)],
        heatmap_shown=HEATMAP_SHOWN,
        protocol=shown,
        missing=missing,
        models=MODELS,
        most=SHOWN,
        changes=data["changes"],
        data=as_json(data),
    )


def render(template: str, **values: Any) -> str:
    """A page of a template. Its scripts run by a nonce that no text of a task can know; a browser
    refuses any other.
    """
    return TEMPLATES.get_template(template).render(
        nonce=secrets.token_urlsafe(16),
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=installed("traube"),
        **_parts(),
        **values,
    )


def _options(
    bench: Workbench, protocols: Mapping[str, Protocol], task: Task, cells: pd.DataFrame
) -> dict[str, list[Candidate]]:
    """What is scored by the main metric, the best first, by protocol."""
    found = {}
    for name in sorted(set(cells["protocol"]) & set(protocols)):
        protocol = protocols[name]
        metric = main_metric(task.card, protocol) if task.labelled else WITHOUT_LABELS
        if own := candidates(bench.store, task.name, name, protocol, metric, cells):
            found[name] = own
    return found


def _answers(
    bench: Workbench, protocols: Mapping[str, Protocol], task: str, options: Mapping[str, list[Candidate]]
) -> list[tuple[str, str]]:
    """Which model is best, in a sentence, by protocol."""
    said = []
    for name in options:
        with suppress(TraubeError):  # it has no labels
            found = best_on(bench.store, task, name, protocols[name])
            said.append((name, found.said))
    return said


def _diagrams(bench: Workbench, options: Mapping[str, list[Candidate]]) -> list[tuple[str, Markup]]:
    """A critical-difference diagram for each protocol that compares models."""
    standings = {name: standing(bench.store, own) for name, own in options.items()}
    made = [(name, diagram(found.ranking, found.samples)) for name, found in standings.items()]
    return [(name, drawn) for name, drawn in made if drawn]


def _pairs(
    bench: Workbench, protocols: Mapping[str, Protocol], task: Task, name: str, cells: pd.DataFrame
) -> list[dict[str, Any]]:
    """How pairs of models compare at each level, under a protocol."""
    protocol, splits = protocols[name], list(task.test_splits(protocols[name].split_set))
    metric = main_metric(task.card, protocol)
    standings = {}
    for level in dict.fromkeys(split.level for split in splits):
        if options := candidates(bench.store, task.name, name, protocol, metric, cells, level):
            standings[level] = standing(bench.store, options)
    return differences(standings, splits, MODELS)


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON takes them."""
    return [
        {key: number(value, 6) if isinstance(value, float) else value for key, value in row.items()}
        for row in frame.to_dict("records")
    ]


def as_json(data: Any) -> Markup:
    """As it may stand in a script element: nothing in it ends the element or opens another."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=_native)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # noqa: S704


def _native(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value)} is no JSON")


@cache
def _parts() -> dict[str, Markup]:
    """What every page holds: plotly's script, itables' DataTables, and our own script and style."""
    from plotly.offline import get_plotlyjs

    bundle = resources.files("itables") / "html"
    tables = (bundle / "dt_bundle.js").read_text(encoding="utf-8")
    ours = resources.files("traube.report") / "templates"
    return {
        # files of packages, and our own
        "plotly": Markup(get_plotlyjs()),  # noqa: S704
        "tables": Markup(_as_global(tables)),  # noqa: S704
        "tables_style": Markup((bundle / "dt_bundle.css").read_text(encoding="utf-8")),  # noqa: S704
        "ours": Markup((ours / "explorer.js").read_text(encoding="utf-8")),  # noqa: S704
        "tables_own": Markup((ours / "tables.js").read_text(encoding="utf-8")),  # noqa: S704
        "style": Markup((ours / "explorer.css").read_text(encoding="utf-8")),  # noqa: S704
    }


def _as_global(module: str) -> str:
    """DataTables as a module that leaves its table at `DataTable`: a module inside a page cannot be
    imported by another.
    """
    before, _, exported = module.rpartition("export{")
    names, _, after = exported.partition("}")
    of = {new: old for old, _, new in (entry.partition(" as ") for entry in names.split(","))}
    return f"{before}globalThis.DataTable={of['default']};{after.lstrip(';')}"
