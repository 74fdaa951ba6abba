"""COB's figures: time to convergence, and what training does to the space."""

import numpy as np
import pandas as pd

from traube.core.errors import TraubeError
from traube.papers.cob.spaces import Space, spaces_page
from traube.papers.cob.tables import METRICS, PROTOCOL, REFERENCE, parts_of, trained_cells
from traube.papers.context import Context
from traube.papers.spec import Drawing
from traube.reports.figures import Plot, Trace, axes, line
from traube.reports.rendering import figures_page

CURVE = ("step", "epoch", "seconds", "validation_ari")
SHOWN_SPLITS = 4
SHOWN_TASKS = ("trec_car_coarse", "car_test200_coarse", "newsgroups")  # the first that has trained models


def trainings(context: Context) -> pd.DataFrame:
    """The learning curves of COB and Triplet.

    Returns
    -------
    DataFrame task, base, method, n, recipe, seed, step, epoch, seconds (of training, without
    evaluations), validation_ari
    """
    rows = []
    for checkpoint, record in context.trainings("cob", REFERENCE):
        name = parts_of(checkpoint)
        if name is None:
            continue
        n = int(name["n"]) if name["n"] else None
        key = (name["task"], name["base"], name["trainer"], n, name["recipe"], int(name["seed"]))
        rows += [(*key, *(entry[column] for column in CURVE)) for entry in record["curve"]]
    return pd.DataFrame(rows, columns=["task", "base", "method", "n", "recipe", "seed", *CURVE])


def convergence(curves: pd.DataFrame) -> pd.DataFrame:
    """Time to convergence and of an epoch, and COB's beside Triplet's.

    A training has converged at the first evaluation at which the mean validation ARI has come 95 %
    of its way from start to best; one that never rose above its start, never.

    Returns
    -------
    DataFrame task, base, n, seed, method, recipe, seconds_to_converge, seconds_an_epoch, best_ari,
    times_slower (than COB with the same seed, the better one where there are several recipes)
    """
    same = ["task", "base", "n", "seed"]
    keys = [*same, "method", "recipe"]
    rows = []
    for key, curve in curves.groupby(keys, dropna=False):
        curve = curve.sort_values("step")
        ari, seconds = curve["validation_ari"].to_numpy(), curve["seconds"].to_numpy()
        near = ari >= ari[0] + 0.95 * (ari.max() - ari[0])
        epoch = seconds[-1] / curve["epoch"].iloc[-1] if curve["epoch"].iloc[-1] else np.nan
        reached = seconds[int(near.argmax())] if ari.max() > ari[0] else np.nan
        rows.append((*key, reached, epoch, ari.max()))
    times = pd.DataFrame(rows, columns=[*keys, "seconds_to_converge", "seconds_an_epoch", "best_ari"])
    cob = times[times["method"] == "cob"].sort_values("best_ari").drop_duplicates(same, keep="last")
    base = times.merge(cob[[*same, "seconds_to_converge"]], how="left", on=same, suffixes=("", "_cob"))
    return times.assign(times_slower=times["seconds_to_converge"] / base["seconds_to_converge_cob"])


def times_to_convergence(context: Context) -> Drawing | None:
    """Figures 3 and 5: learning curves against seconds, and the time to convergence; None without a
    training.
    """
    curves = trainings(context)
    if curves.empty:
        return None
    told = "COB converges at least five times sooner; an epoch takes a hundredth of Triplet's on 20 Newsgroups"
    page = figures_page("Validation ARI against seconds of training", learning_curves(curves))
    return Drawing(page, {"published": told}, convergence(curves))


def learning_curves(curves: pd.DataFrame) -> list[Plot]:
    """Draw validation ARI against seconds of training: a figure for each task and base model, a line for
    each training, those of a method in one color.
    """
    plots = []
    for (task, base), rows in curves.groupby(["task", "base"]):
        methods, traces = sorted(rows["method"].unique()), list[Trace]()
        for (method, _, _, _), of in rows.groupby(["method", "n", "recipe", "seed"], dropna=False):
            known = any(trace["name"] == method for trace in traces)
            x, y = of["seconds"] + 1, of["validation_ari"]
            traces.append(line(method, x, y, methods.index(method), showlegend=not known))
        layout = axes("1 + seconds of training", "ARI, validation")
        plots.append(Plot(f"{base} on {task}", traces, {**layout, "xaxis": {**layout["xaxis"], "type": "log"}}))
    return plots


def spaces(context: Context, name: str, count: int) -> list[Space]:
    """A task's largest test splits as the trained models of the lowest seed place them, from
    vectors that are kept.

    Parameters
    ----------
    count : of splits
    """
    task = context.task(name)
    if task is None or PROTOCOL not in context.protocols:
        return []
    cells = trained_cells(context, name)
    cells = cells[cells["method"].isin(("cob", REFERENCE))]
    cells = cells.sort_values(["method", "training_seed"]).drop_duplicates(["method", "base"])
    scores = context.storage.read_scores(cells, [METRICS["ari"]]).set_index(["cell_id", "split"])["value"]
    splits = sorted(task.test_splits(), key=lambda s: -s.size)[:count]
    panels = []
    for cell in cells.itertuples(index=False):
        vectors = context.vectors(task, context.model(cell.model, context.protocols[PROTOCOL].precision))
        for split in splits:
            labels = [] if split.labels is None else list(split.labels)
            texts = task.texts_at(split.rows)
            ari = float(scores[cell.cell_id, split.split])
            panels.append(Space(cell.model, split.split, vectors.subset(split.rows).load(), labels, texts, ari))
    return panels


def trained_spaces(context: Context) -> Drawing | None:
    """Figure 4: COB beside Triplet on the first task that has trained models; None without one."""
    for task in SHOWN_TASKS:
        try:
            panels = spaces(context, task, SHOWN_SPLITS)
        except TraubeError as error:  # a model is gone; its scores are not
            context.warn(f"{task}: {error}")
            continue
        if panels:
            models = ", ".join(dict.fromkeys(panel.model for panel in panels))
            return Drawing(spaces_page(panels, task), {"panels": len(panels), "models": models})
    return None
