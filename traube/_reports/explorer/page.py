"""The report of a task: one self-contained HTML page."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pandas as pd

from traube._core.errors import TraubeError, join_words
from traube._pipeline.current import current_cells
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Protocol
from traube._pipeline.workbench import Workbench
from traube._reports.costs import costs
from traube._reports.explorer.board import OWN_CHOICE, history, number, rows
from traube._reports.explorer.ranks import differences, rank_diagram
from traube._reports.explorer.views import SHOWN, views
from traube._reports.figures import COLORS, HEATMAP_MODELS, as_data, color_models, heatmap
from traube._reports.recommendation import recommend_among
from traube._reports.rendering import render
from traube.comparison.candidates import WITHOUT_LABELS, Candidate, candidates, main_metric, pick_best_methods
from traube.comparison.family import is_compared, list_lasting
from traube.comparison.standings import Standing, read_standing
from traube.comparison.verdict import format_significance
from traube.models.prompts import get_model_prompt
from traube.tasks.task import Task

MODELS = 8  # the best ones, shown in maps and compared in pairs
Key = tuple[str, str]  # a protocol, and a level of the labels; an empty level is all of them


def task_page(
    bench: Workbench,
    protocols: Mapping[str, Protocol],
    task: str,
    table: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    made_of: str = "",
) -> str:
    """Return a task's page, from its rows of the leaderboard `table` and its `changes`.

    The page contains `made_of`, a hash of its data, by which a later call finds that it is current.
    """
    task_rows, lookup = table[table["task"].isin((task, ""))], Lookup()
    cells = current_cells(bench.storage, protocols, [task], own_choice=True, lookup=lookup)
    done = task_rows[task_rows["status"] == "done"]
    data = _collect_rows(bench, protocols, task, task_rows, cells, changes)
    data |= {"views": [], "pairs": [], "answers": [], "diagrams": []}
    missing, protocol_name = "", ""
    try:
        stored, chosen = bench.task(task), cells[is_compared(cells, list_lasting(bench.storage)) & ~cells["own_choice"]]
        options = _list_candidates(bench, protocols, stored, chosen)
        protocol_name = max(options, key=lambda name: len(pick_best_methods(options[name])), default="")
        firsts = pick_best_methods(options.get(protocol_name, []))[:MODELS]
        data["views"] = views(bench, stored, protocols.get(protocol_name), firsts, lookup)
        if stored.is_labeled:  # silhouettes of different embedding spaces are not comparable
            standings = _read_standings(bench, protocols, stored, options, chosen)
            data |= _compare_models(
                bench, protocols, stored, chosen, standings, protocol_name, color_models(data["models"])
            )
    except TraubeError as error:  # the stored texts are missing or corrupt
        missing = str(error)
    heatmaps = [
        drawn
        for (level, protocol, own_choice), group in done.groupby(["level", "protocol", "own_choice"])
        if (drawn := heatmap(f"{level}, protocol {protocol}{OWN_CHOICE if own_choice else ''}", group))
    ]
    data["heatmaps"] = as_data(heatmaps)
    return render(
        "explorer.html",
        task=task,
        metric=done["metric"].iloc[0] if len(done) else "",
        made_of=made_of,
        notes=[*(sorted(set(done["note"]) - {""}) if len(done) else []), *_describe_prompts(protocols, cells, lookup)],
        has_ranks=bool(data["diagrams"]),
        heatmaps=[drawn.title for drawn in heatmaps],
        heatmap_shown=HEATMAP_MODELS,
        protocol=protocol_name,
        missing=missing,
        models=MODELS,
        most=SHOWN,
        changes=data["changes"],
        format_significance=format_significance,
        data=data,
    )


def _collect_rows(
    bench: Workbench,
    protocols: Mapping[str, Protocol],
    task: str,
    task_rows: pd.DataFrame,
    cells: pd.DataFrame,
    changes: pd.DataFrame | None,
) -> dict[str, Any]:
    """Return the task's leaderboard, what is absent from it, its scores over time, and its changes."""
    absent = task_rows[task_rows["status"] != "done"].drop_duplicates(["model", "method", "reason"])
    board, past = rows(task_rows, costs(bench.storage, protocols, cells)), history(bench.storage, protocols, task)
    changed = [] if changes is None or changes.empty else changes[changes["task"] == task].to_dict("records")
    reasons = absent[["model", "method", "status", "reason"]].astype(object)
    return {
        "board": board,
        "absent": reasons.where(reasons.notna(), "").to_dict("records"),
        "colors": COLORS,
        "models": list(color_models([*(row["model"] for row in board), *(point["line"] for point in past)])),
        "history": past,
        "changes": [
            {key: number(value, 6) if isinstance(value, float) else value for key, value in change.items()}
            for change in changed
        ],
    }


def _describe_prompts(protocols: Mapping[str, Protocol], cells: pd.DataFrame, lookup: Lookup) -> list[str]:
    """Return what is put in front of the texts under each prompt, and the models that it is the prompt of."""
    models: dict[str, list[str]] = {}
    for name, protocol in sorted(set(zip(cells["model"], cells["protocol"], strict=True))):
        with suppress(TraubeError):  # its weights are not here
            model = lookup.usable(name, protocols[protocol].precision if protocol in protocols else None)
            if (prompt := get_model_prompt(model)) and name not in models.setdefault(prompt, []):
                models[prompt].append(name)
    have = {prompt: f"{join_words(names)} {'have' if len(names) > 1 else 'has'}" for prompt, names in models.items()}
    return [f"In front of each text {names} {prompt!r}" for prompt, names in have.items()]


def _list_candidates(
    bench: Workbench, protocols: Mapping[str, Protocol], task: Task, cells: pd.DataFrame
) -> dict[str, list[Candidate]]:
    """Return the candidates under each protocol by the main metric, the best first."""
    options = {}
    for name in sorted(set(cells["protocol"]) & set(protocols)):
        metric = main_metric(task.card, protocols[name]) if task.is_labeled else WITHOUT_LABELS
        if scored := candidates(bench.storage, task.name, name, protocols[name], metric, cells):
            options[name] = scored
    return options


def _compare_models(
    bench: Workbench,
    protocols: Mapping[str, Protocol],
    task: Task,
    cells: pd.DataFrame,
    standings: Mapping[Key, Standing],
    protocol_name: str,
    colors: Mapping[str, str],
) -> dict[str, Any]:
    """Return the answers, the rank diagrams, and the differences of pairs under the protocol that is shown."""
    known = costs(bench.storage, protocols, cells)
    bests = {key: recommend_among(standing, task, known) for key, standing in standings.items()}
    diagrams = []
    for (name, level), standing in standings.items():
        if level and (drawn := rank_diagram(level, standing, colors)):
            diagrams += [{"protocol": name, "level": level, **plot} for plot in as_data([drawn])]
    of_shown = {level: standing for (name, level), standing in standings.items() if level and name == protocol_name}
    splits = task.test_splits(protocols[protocol_name].split_set) if protocol_name else ()
    return {
        "answers": [
            {"protocol": name, "level": level, "text": recommendation.text, "bargain": recommendation.bargain}
            for (name, level), recommendation in bests.items()
        ],
        "diagrams": diagrams,
        "pairs": differences(of_shown, list(splits), MODELS),
    }


def _read_standings(
    bench: Workbench,
    protocols: Mapping[str, Protocol],
    task: Task,
    options: Mapping[str, list[Candidate]],
    cells: pd.DataFrame,
) -> dict[Key, Standing]:
    """Return the standing of the models under each protocol, over all levels of the labels and at each."""
    standings = {}
    for name, protocol_candidates in options.items():
        standings[name, ""], metric = read_standing(bench.storage, protocol_candidates), protocol_candidates[0].metric
        levels = dict.fromkeys(split.level for split in task.test_splits(protocols[name].split_set))
        for level in levels:
            if len(levels) == 1:
                standings[name, level] = standings[name, ""]
            elif at := candidates(bench.storage, task.name, name, protocols[name], metric, cells, level):
                standings[name, level] = read_standing(bench.storage, at)
    return standings
