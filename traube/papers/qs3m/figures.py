"""QS3M's figures: the queries it helps and hurts, arXiv by subject, and the pairs that it judges otherwise."""

from collections.abc import Iterator
from html import escape

import numpy as np
import pandas as pd

from traube._core.errors import TraubeError
from traube._reports.figures import Plot, axes, grouped_bars, numbers
from traube._reports.papers.context import Context
from traube._reports.papers.spec import Drawing
from traube._reports.rendering import figures_page, render
from traube.papers.qs3m.pages import KEYS, REFERENCE, find_trained, make_distances, page_scores, split_sets
from traube.papers.qs3m.tables import WIKIPEDIA, subject_scores
from traube.tasks.task import Task

SHOWN = 6  # pairs of a query, each way
TIED = 1e-9


def helps_and_hurts(context: Context) -> Drawing | None:
    """Draw figure 3: for each query, how much better trained similarities group its passages than the encoder's distances.

    Interactive: a bar says which query it is. None without a trained similarity.
    """
    tables = []
    for task in context.tasks(WIKIPEDIA):
        scores = page_scores(context, task)
        if scores.empty:
            continue
        same = ["base", "fold", "page"]
        reference = scores[scores["method"] == REFERENCE][[*same, "ari"]]
        both = scores[scores["trained_on"] != ""].merge(reference, on=same, suffixes=("", "_reference"))
        tables.append(both.assign(task=task.name, change=both["ari"] - both["ari_reference"]))
    if not any(map(len, tables)):
        return None
    changes = pd.concat(tables, ignore_index=True)[["task", *KEYS, "page", "change"]]
    panels = list(changes.groupby(["task", *KEYS], sort=False))
    page = figures_page("Queries that are helped and hurt", [_draw_bars(key, rows) for key, rows in panels])
    return Drawing(page, {_join_names(key): _count_changes(rows) for key, rows in panels}, changes)


def _draw_bars(key: tuple[str, ...], rows: pd.DataFrame) -> Plot:
    rows = rows.sort_values("change", ascending=False)
    colors = np.select([rows["change"] > TIED, rows["change"] < -TIED], ["#2a7", "#c44"], "#999").tolist()
    trace = {
        "type": "bar",
        "x": list(range(1, len(rows) + 1)),
        "y": numbers(rows["change"]),
        "hovertext": [f"{escape(row.page)}: {row.change:+.3f}" for row in rows.itertuples(index=False)],
        "hoverinfo": "text",
        "marker": {"color": colors},
    }
    layout = axes("queries, from the most helped to the most hurt", f"ARI less that of {REFERENCE}")
    return Plot(f"{_join_names(key)}: {_count_changes(rows)}", [trace], layout)


def _join_names(key: tuple[str, ...]) -> str:
    return " ".join(filter(None, key))


def _count_changes(rows: pd.DataFrame) -> str:
    helped, hurt = int((rows["change"] > TIED).sum()), int((rows["change"] < -TIED).sum())
    return f"{helped} helped, {hurt} hurt, {len(rows) - helped - hurt} tied of {len(rows)}"


def by_subject(context: Context) -> Drawing | None:
    """Draw figure 4: ARI of each of arXiv's subjects, means and errors over folds; None without a trained similarity."""
    scores = subject_scores(context)
    if scores.empty:
        return None
    named_scores = scores.assign(
        method=[_join_names(key) for key in scores[["method", "base", "recipe"]].itertuples(index=False)]
    )
    means = named_scores.groupby(["page", "method"], sort=False)["ari"].agg(["mean", "sem"]).reset_index()
    page = figures_page("arXiv by subject", [grouped_bars("", means, "page", "method", "ARI")])
    return Drawing(page, {}, means)


def changed_pairs(context: Context) -> Drawing | None:
    """Draw the pairs of each query whose rank among all pairs of the page changes most against Euclidean distances.

    They change toward the truth and away from it, and are shown with their texts; None without a trained similarity.
    """
    rows: list[tuple[object, ...]] = []
    for task in context.tasks(WIKIPEDIA):
        try:
            rows += _list_changed_pairs(context, task)
        except TraubeError as error:  # the encoder or a checkpoint is gone
            context.warn(f"{task.name}: {error}")
    if not rows:
        return None
    columns = ["task", "query", "one", "other", "same", "before", "after"]
    table = pd.DataFrame(rows, columns=columns)
    queries = len(table[["task", "query"]].drop_duplicates())
    return Drawing(render_pairs(table), {"queries": queries}, table)


def _list_changed_pairs(context: Context, task: Task) -> Iterator[tuple[object, ...]]:
    """Yield rows of the first recipe that was trained on a task."""
    from scipy.stats import rankdata
    from sklearn.metrics import pairwise_distances

    every = find_trained(context, task)
    if not every:
        return
    (_, base, *_), checkpoints = next(iter(every.items()))
    vectors = context.vectors(task, context.model(base, None))
    texts = task.texts
    for fold in (name for name in split_sets(task) if name in checkpoints):
        name, split_set = checkpoints[fold][0]
        distances = make_distances(context, task, context.model(name, None), split_set)
        for i, split in enumerate(task.test_splits(fold)):
            if split.labels is None or split.size < 3:
                continue
            first, second = np.triu_indices(split.size, 1)
            before = pairwise_distances(vectors.subset(split.rows).load())[first, second]
            after = distances(i, split)[first, second]
            # 1: the most similar of all pairs of the page
            places = [1 - (rankdata(values) - 1) / (len(values) - 1 or 1) for values in (before, after)]
            same = split.labels[first] == split.labels[second]
            gain = (places[1] - places[0]) * np.where(same, 1, -1)
            order = np.argsort(-gain, kind="stable")
            for p in dict.fromkeys([*order[:SHOWN], *order[-SHOWN:]]):
                pair = (texts[split.rows[first[p]]], texts[split.rows[second[p]]])
                yield task.name, split.split, *pair, bool(same[p]), float(places[0][p]), float(places[1][p])


def render_pairs(table: pd.DataFrame) -> str:
    """Return a page of queries that open to their pairs."""
    return render("changed_pairs.html", queries=table.groupby(["task", "query"], sort=False), reference=REFERENCE)
