"""QS3M's figures: which queries it helps and which it hurts, arXiv by subject, and the pairs that it
judges otherwise than the encoder's distances do.
"""

from collections.abc import Iterator
from html import escape

import numpy as np
import pandas as pd

from traube.foundation.errors import TraubeError
from traube.papers.context import Context
from traube.papers.qs3m.pages import REFERENCE, by_model, page_scores, split_sets, trained
from traube.papers.qs3m.tables import ARXIV, CAR, LEVELS
from traube.papers.spec import Drawing
from traube.tasks.task import Task

SHOWN = 6  # pairs of a query, each way
TIED = 1e-9


def helps_and_hurts(context: Context) -> Drawing | None:
    """Figure 3: for each query, how much better its passages are grouped than by Euclidean distances
    of the same encoder. Interactive: a bar says which query it is. None without a trained similarity.
    """
    import plotly.graph_objects as go

    changes = _changes(context)
    if changes.empty:
        return None
    panels = list(changes.groupby(["task", "method", "base", "recipe"], sort=False))
    figure = go.Figure()
    for i, (key, rows) in enumerate(panels):
        rows = rows.sort_values("change", ascending=False)
        colours = np.where(rows["change"] > TIED, "#2a7", np.where(rows["change"] < -TIED, "#c44", "#999"))
        figure.add_bar(
            x=list(range(1, len(rows) + 1)),
            y=rows["change"],
            text=rows["page"],
            textposition="none",
            hovertemplate="%{text}: %{y:+.3f}<extra></extra>",
            marker_color=colours,
            visible=i == 0,
            name=" ".join(filter(None, key)),
        )
    buttons = [
        {
            "label": " ".join(filter(None, key)),
            "method": "update",
            "args": [{"visible": [j == i for j in range(len(panels))]}, {"title.text": _counted(key, rows)}],
        }
        for i, (key, rows) in enumerate(panels)
    ]
    figure.update_layout(
        title_text=_counted(*panels[0]),
        updatemenus=[{"buttons": buttons, "x": 1, "xanchor": "right", "y": 1.15}] if len(panels) > 1 else [],
        yaxis_title=f"ARI less that of {REFERENCE}",
        xaxis_title="queries, from the most helped to the most hurt",
        template="simple_white",
    )
    content = figure.to_html(include_plotlyjs=True, full_html=True)
    return Drawing(content, {_name(key): _counts(rows) for key, rows in panels}, changes)


def _changes(context: Context) -> pd.DataFrame:
    """DataFrame task, method, base, recipe, page, change: ARI of each trained similarity and of
    rivals, less that of the encoder's Euclidean distances.
    """
    tables = []
    for task in _tasks(context):
        scores = page_scores(context, task)
        if scores.empty:
            continue
        reference = scores[scores["method"] == REFERENCE][["base", "fold", "page", "ari"]]
        both = scores[scores["method"] != REFERENCE].merge(
            reference, on=["base", "fold", "page"], suffixes=("", "_reference")
        )
        tables.append(both.assign(task=task.name, change=both["ari"] - both["ari_reference"]))
    columns = ["task", "method", "base", "recipe", "page", "change"]
    return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)


def _tasks(context: Context) -> Iterator[Task]:
    for name in CAR.values():
        for level in LEVELS:
            task = context.task(f"{name}_{level}")
            if task is not None:
                yield task


def _name(key: tuple[str, ...]) -> str:
    return " ".join(filter(None, key))


def _counts(rows: pd.DataFrame) -> str:
    helped, hurt = int((rows["change"] > TIED).sum()), int((rows["change"] < -TIED).sum())
    return f"{helped} helped, {hurt} hurt, {len(rows) - helped - hurt} tied of {len(rows)}"


def _counted(key: tuple[str, ...], rows: pd.DataFrame) -> str:
    return f"{_name(key)}: {_counts(rows)}"


def by_subject(context: Context) -> Drawing | None:
    """Figure 4: ARI of each of arXiv's subjects, means over folds with their standard error; None
    without a trained similarity.
    """
    from traube.papers.plots import grouped_bars

    task = context.task(ARXIV)
    scores = page_scores(context, task) if task is not None else pd.DataFrame()
    if scores.empty:
        return None
    shown = scores.assign(method=[_name(key) for key in scores[["method", "base", "recipe"]].itertuples(index=False)])
    means = shown.groupby(["page", "method"], sort=False)["ari"].agg(["mean", "sem"]).reset_index()
    return Drawing(grouped_bars(means, "page", "method", "ARI"), {}, means)


def changed_pairs(context: Context) -> Drawing | None:
    """The pairs of each query whose place among all pairs of the page changes most against Euclidean
    distances, towards the truth and away from it, with their texts; None without a trained similarity.
    """
    rows: list[tuple[object, ...]] = []
    for task in _tasks(context):
        try:
            rows += _of_task(context, task)
        except TraubeError as error:  # the encoder or a checkpoint is gone
            context.warn(f"{task.name}: {error}")
    if not rows:
        return None
    columns = ["task", "query", "one", "other", "same", "before", "after"]
    table = pd.DataFrame(rows, columns=columns)
    return Drawing(_page(table), {"queries": table[["task", "query"]].drop_duplicates().shape[0]}, table)


def _of_task(context: Context, task: Task) -> Iterator[tuple[object, ...]]:
    """Rows of the first recipe that was trained on a task."""
    from scipy.stats import rankdata
    from sklearn.metrics import pairwise_distances

    chosen = next(iter(trained(context, task)), None)
    if chosen is None:
        return
    vectors = context.vectors(task, context.model(chosen.base, None))
    texts = task.texts
    for fold in (name for name in split_sets(task) if name in chosen.checkpoints):
        distances = by_model(context, task, context.model(chosen.checkpoints[fold][0], None))
        for i, split in enumerate(task.test_splits(fold)):
            if split.labels is None or split.size < 3:
                continue
            first, second = np.triu_indices(split.size, 1)
            before = pairwise_distances(vectors.subset(split.rows).load())[first, second]
            after = distances(i, split)[first, second]
            # 1: the most alike of all pairs of the page
            places = [1 - (rankdata(values) - 1) / (len(values) - 1 or 1) for values in (before, after)]
            same = split.labels[first] == split.labels[second]
            gain = (places[1] - places[0]) * np.where(same, 1, -1)
            order = np.argsort(-gain, kind="stable")
            for p in dict.fromkeys([*order[:SHOWN], *order[-SHOWN:]]):
                pair = (texts[split.rows[first[p]]], texts[split.rows[second[p]]])
                yield task.name, split.split, *pair, bool(same[p]), float(places[0][p]), float(places[1][p])


def _page(table: pd.DataFrame) -> str:
    """Queries that open to their pairs."""
    parts = []
    for (task, query), rows in table.groupby(["task", "query"], sort=False):
        pairs = "".join(
            f"<tr><td>{'same' if row.same else 'different'}</td><td>{row.before:.2f}</td><td>{row.after:.2f}</td>"
            f"<td>{escape(row.one)}</td><td>{escape(row.other)}</td></tr>"
            for row in rows.itertuples()
        )
        head = "<tr><th>subtopic</th><th>before</th><th>after</th><th>one passage</th><th>another</th></tr>"
        parts.append(
            f"<details><summary>{escape(str(query))} ({escape(str(task))})</summary><table>{head}{pairs}</table></details>"
        )
    style = (
        "td{vertical-align:top;padding:4px 8px;border-top:1px solid #ddd}body{font-family:sans-serif;font-size:14px}"
    )
    told = (
        "<p>How alike two passages are, as a place among all pairs of the page: 1 is the most alike. "
        f"Before: {REFERENCE}; after: the trained similarity.</p>"
    )
    return (
        f'<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Pairs that are judged otherwise</title>\n<style>{style}</style>\n'
        f"{told}\n{''.join(parts)}\n"
    )
