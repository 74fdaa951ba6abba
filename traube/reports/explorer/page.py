"""The page of a task, as one file."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from traube.comparison.candidates import WITHOUT_LABELS, Candidate, candidates, main_metric, pick_best_methods
from traube.comparison.standings import Standing, read_standing
from traube.core.errors import TraubeError
from traube.pipeline.current import current_cells
from traube.pipeline.lookup import Lookup
from traube.pipeline.params import Protocol
from traube.pipeline.workbench import Workbench
from traube.reports.best import best_of
from traube.reports.costs import costs
from traube.reports.explorer.board import OWN_CHOICE, history, number, rows
from traube.reports.explorer.ranks import differences, rank_diagram
from traube.reports.explorer.views import SHOWN, views
from traube.reports.figures import COLORS, HEATMAP_MODELS, as_data, color_models, heatmap
from traube.reports.rendering import render
from traube.tasks.task import Task

MODELS = 8  # of maps and pairs: the best ones
Key = tuple[str, str]  # a protocol, and a level of the labels; an empty level is all of them


def task_page(
    bench: Workbench,
    protocols: Mapping[str, Protocol],
    task: str,
    table: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    made_of: str = "",
) -> str:
    """Return a task's page, made of its rows in the leaderboard and its `changes`.

    The page holds a hash of the data that it is made of.
    """
    own = table[table["task"].isin((task, ""))]
    lookup = Lookup()
    cells = current_cells(bench.storage, protocols, [task], own_choice=True, lookup=lookup)
    done = own[own["status"] == "done"]
    absent = own[own["status"] != "done"].drop_duplicates(["model", "method", "reason"])
    data: dict[str, Any] = {
        "board": rows(own, costs(bench.storage, protocols, cells)),
        "absent": absent[["model", "method", "status", "reason"]].astype(object).fillna("").to_dict("records"),
        "colors": COLORS,
        "views": [],
        "pairs": [],
        "answers": [],
        "diagrams": [],
        "history": history(bench.storage, protocols, task),
        "changes": [] if changes is None or changes.empty else _plain(changes[changes["task"] == task]),
    }

    colors = color_models([*(row["model"] for row in data["board"]), *(point["line"] for point in data["history"])])
    data["models"] = list(colors)
    missing, shown, standings = "", "", dict[Key, Standing]()
    try:
        stored, chosen = bench.task(task), cells[~cells["own_choice"]]
        options: dict[str, list[Candidate]] = {}  # what is scored by the main metric, the best first, by protocol
        for name in sorted(set(chosen["protocol"]) & set(protocols)):
            metric = main_metric(stored.card, protocols[name]) if stored.labelled else WITHOUT_LABELS
            if scored := candidates(bench.storage, task, name, protocols[name], metric, chosen):
                options[name] = scored
        shown = max(options, key=lambda name: len(pick_best_methods(options[name])), default="")
        firsts = pick_best_methods(options.get(shown, []))[:MODELS]
        data["views"] = views(bench, stored, protocols.get(shown), firsts, lookup)
        if stored.labelled:  # silhouettes, each of a model's own space, do not compare
            standings = _standings(bench, protocols, stored, options, chosen)
            known = costs(bench.storage, protocols, chosen)
            bests = {key: best_of(found, stored, known) for key, found in standings.items()}
            data["answers"] = [
                {"protocol": name, "level": level, "text": found.said, "bargain": found.bargain}
                for (name, level), found in bests.items()
            ]
            of_shown = {level: found for (name, level), found in standings.items() if level and name == shown}
            splits = stored.test_splits(protocols[shown].split_set) if shown else ()
            data["pairs"] = differences(of_shown, list(splits), MODELS)
    except TraubeError as error:  # its texts are not here, or damaged
        missing = str(error)

    for (name, level), found in standings.items():
        if level and (drawn := rank_diagram(level, found, colors)):
            data["diagrams"] += [{"protocol": name, "level": level, **plot} for plot in as_data([drawn])]
    heatmaps = []
    for (level, protocol, own_choice), of in done.groupby(["level", "protocol", "own_choice"]):
        if drawn := heatmap(f"{level}, protocol {protocol}{OWN_CHOICE if own_choice else ''}", of):
            heatmaps.append(drawn)
    data["heatmaps"] = as_data(heatmaps)
    return render(
        "explorer.html",
        task=task,
        metric=done["metric"].iloc[0] if len(done) else "",
        made_of=made_of,
        notes=sorted(set(done["note"]) - {""}) if len(done) else [],
        has_ranks=bool(data["diagrams"]),
        heatmaps=[drawn.title for drawn in heatmaps],
        heatmap_shown=HEATMAP_MODELS,
        protocol=shown,
        missing=missing,
        models=MODELS,
        most=SHOWN,
        changes=data["changes"],
        data=data,
    )


def _standings(
    bench: Workbench,
    protocols: Mapping[str, Protocol],
    task: Task,
    options: Mapping[str, list[Candidate]],
    cells: pd.DataFrame,
) -> dict[Key, Standing]:
    """Return the standing of the models under each protocol, over all levels of the labels and at each."""
    found = {}
    for name, own in options.items():
        found[name, ""], metric = read_standing(bench.storage, own), own[0].metric
        levels = dict.fromkeys(split.level for split in task.test_splits(protocols[name].split_set))
        for level in levels:
            if len(levels) == 1:
                found[name, level] = found[name, ""]
            elif at := candidates(bench.storage, task.name, name, protocols[name], metric, cells, level):
                found[name, level] = read_standing(bench.storage, at)
    return found


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {key: number(value, 6) if isinstance(value, float) else value for key, value in row.items()}
        for row in frame.to_dict("records")
    ]
