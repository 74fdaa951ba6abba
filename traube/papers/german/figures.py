"""The German benchmark's figures."""

import numpy as np
import pandas as pd

from traube._pipeline.cluster import locate_reduction
from traube._reports.figures import Plot, axes, band, grouped_bars, line, text_map, tip
from traube._reports.papers.context import Context
from traube._reports.papers.spec import Drawing
from traube._reports.rendering import figures_page
from traube.models.vectors import open_matrix
from traube.papers.german.tables import PROTOCOL, read_adaptations

MAPPED, HIGHLIGHTED = "tenkgnad_p2p", "Wissenschaft"
OTHERS = "others"
REDDIT = ("reddit_s2s", "reddit_p2p")


def maps(context: Context) -> Drawing | None:
    """Draw figure 1: a task's largest split as UMAP placed it in its evaluation, a panel a model; None without a map.

    One category is highlighted; pointing at a text shows it.
    """
    task, protocol = context.task(MAPPED), context.protocols.get(PROTOCOL)
    if task is None or protocol is None:
        return None
    split = max(task.test_splits(protocol.split_set), key=lambda split: split.size)
    if split.labels is None:
        return None
    cells = context.cells([MAPPED], PROTOCOL)
    texts, ids = task.texts_at(split.rows), task.corpus["text_id"].to_numpy()[split.rows]
    is_highlighted = np.array([label == HIGHLIGHTED for label in split.labels])
    groups = {HIGHLIGHTED: np.flatnonzero(is_highlighted), OTHERS: np.flatnonzero(~is_highlighted)}
    tips, plots = list(map(tip, split.labels, texts)), []
    for model, rows in cells[cells["reducer"] == "umap"].groupby("model"):
        cell = rows.iloc[0]
        method = protocol.for_task(MAPPED).method(f"umap/{cell['clusterer']}")
        numerics, seed = cell["numerics"]["model"], int(cell["seed"] or 0)
        if path := locate_reduction(context.storage, cell["fingerprint"], numerics, method, seed, ids):
            plots.append(text_map(str(model), open_matrix(path), tips, groups, OTHERS, height=520))
    if not plots:
        return None
    page = figures_page(f"{MAPPED}, {split.split}: {len(texts):,} texts by UMAP", plots)
    return Drawing(page, {"models": ", ".join(plot.title for plot in plots)})


def reddit_sizes(context: Context) -> Drawing | None:
    """Draw figure 3: the texts of each subreddit, titles and whole submissions; None where neither task has been read."""
    counts = {
        task.name: task.splits.drop_duplicates(["text_id", "label"])["label"].value_counts()
        for task in context.tasks(REDDIT)
    }
    if not counts:
        return None
    data = pd.concat(counts, names=["task", "subreddit"]).rename("mean").reset_index().assign(sem=np.nan)
    page = figures_page("Texts of each subreddit", [grouped_bars("Reddit", data, "subreddit", "task", "texts")])
    return Drawing(
        page,
        {"subreddits": int(data["subreddit"].nunique())},
        data.drop(columns="sem").rename(columns={"mean": "texts"}),
    )


def learning_curves(context: Context) -> Drawing | None:
    """Draw figures 2 and 4: V-measure against epochs of adaptive pre-training; None without a training."""
    trainings = read_adaptations(context)
    if trainings.empty:
        return None
    page = figures_page("V-measure against epochs of adaptive pre-training", curves(trainings))
    return Drawing(page, {"trainings": int(trainings["checkpoint"].nunique())})


def curves(trainings: pd.DataFrame) -> list[Plot]:
    """Draw V-measure against epochs, from `read_adaptations`: a figure for each task and base model.

    There is a line for each method and recipe, the band from the lowest seed to the highest, and the model as it was
    (epoch 0).
    """
    plots = []
    for (task, model), rows in trainings.groupby(["task", "model"]):
        several = rows.groupby("method")[["recipe", "epochs"]].agg(["nunique"]).max(axis=1) > 1
        traces = []
        for place, ((method, recipe, epochs), of) in enumerate(rows.groupby(["method", "recipe", "epochs"])):
            name = f"{method}, {epochs:g} epochs, {recipe}" if several[method] else str(method)
            seeds = of.groupby("epoch")["v_measure"].agg(["mean", "min", "max"])
            traces += [
                band(name, seeds.index, seeds["min"], seeds["max"], place),
                line(name, seeds.index, seeds["mean"], place),
            ]
        before, ends = rows.loc[rows["epoch"] == 0, "v_measure"].mean(), [rows["epoch"].min(), rows["epoch"].max()]
        dashed = {"mode": "lines", "line": {"dash": "dash", "color": "gray"}}
        traces.append(line("as it was", ends, [before, before], 0, **dashed))
        plots.append(Plot(f"{model} on {task}", traces, axes("epochs", "V-measure x100")))
    return plots
