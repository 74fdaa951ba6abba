"""The German benchmark's figures."""

import pandas as pd

from traube.papers.context import Context
from traube.papers.german.maps import kept_maps, maps_page
from traube.papers.german.tables import PROTOCOL, adapted
from traube.papers.spec import Drawing
from traube.reports.figures import Plot, axes, band, line
from traube.reports.rendering import figures_page

MAPPED, HIGHLIGHTED = "tenkgnad_p2p", "Wissenschaft"


def maps(context: Context) -> Drawing | None:
    """Figure 1: the vectors of a task's largest split by UMAP, a panel a model; None without a map."""
    kept = kept_maps(context.storage, context.protocols, MAPPED, PROTOCOL)
    if not kept:
        return None
    return Drawing(maps_page(kept, HIGHLIGHTED), {"models": ", ".join(m.model for m in kept)})


def learning_curves(context: Context) -> Drawing | None:
    """Figures 2 and 4: V-measure against epochs of adaptive pre-training; None without a training."""
    trainings = adapted(context)
    if trainings.empty:
        return None
    page = figures_page("V-measure against epochs of adaptive pre-training", curves(trainings))
    return Drawing(page, {"trainings": int(trainings["checkpoint"].nunique())})


def curves(trainings: pd.DataFrame) -> list[Plot]:
    """Draw V-measure against epochs: a figure for each task and base model, a line for each method and
    recipe, the band from the lowest seed to the highest, and the model as it was.

    Parameters
    ----------
    trainings : DataFrame
        Columns model, method, task, recipe, seed, epochs, epoch, v_measure (x100); epoch 0 is the
        model as it was.
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
        dashed = {"mode": "lines", "line": {"dash": "dash", "color": "grey"}}
        traces.append(line("as it was", ends, [before, before], 0, **dashed))
        plots.append(Plot(f"{model} on {task}", traces, axes("epochs", "V-measure x100")))
    return plots
