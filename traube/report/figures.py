"""Figures as SVG: small, still readable in a paper, and without scripts."""

from io import StringIO
from typing import Any

import pandas as pd
from markupsafe import Markup


def heatmap(rows: pd.DataFrame) -> Markup:
    """Mean score by method and model, x100, for one task, level and protocol; nothing if there is no score.

    Parameters
    ----------
    rows : of the leaderboard, columns method, model and mean
    """
    from matplotlib.figure import Figure

    grid = rows.pivot_table(index="method", columns="model", values="mean") * 100
    if grid.empty:
        return Markup()
    grid = grid.loc[grid.max(axis=1).sort_values(ascending=False).index, grid.max().sort_values(ascending=False).index]
    figure = Figure(figsize=(2.4 + 1.1 * grid.shape[1], 0.8 + 0.3 * grid.shape[0]), layout="constrained")
    axes = figure.subplots()
    axes.imshow(grid.to_numpy(), aspect="auto", cmap="viridis")
    axes.set_xticks(range(grid.shape[1]), grid.columns)
    axes.set_yticks(range(grid.shape[0]), grid.index)
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    middle = (grid.max().max() + grid.min().min()) / 2
    for y in range(grid.shape[0]):
        for x in range(grid.shape[1]):
            value = grid.iat[y, x]
            if pd.notna(value):
                axes.text(
                    x,
                    y,
                    f"{value:.1f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="black" if value > middle else "white",
                )
    return _svg(figure)


def curves(trainings: pd.DataFrame) -> Markup:
    """V-measure against epochs: a panel for each task and base model, a line for each method and recipe, the band from the lowest
    seed to the highest, and the model as it was.

    Parameters
    ----------
    trainings : columns model, method, task, recipe, seed, epochs, epoch, v_measure (x100); epoch 0 is the model as it was
    """
    from matplotlib.figure import Figure

    panels = list(trainings.groupby(["task", "model"]))
    if not panels:
        return Markup()
    figure = Figure(figsize=(4.2 * len(panels), 3.2), layout="constrained")
    for axes, ((task, model), rows) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        several = rows.groupby("method")[["recipe", "epochs"]].agg(["nunique"]).max(axis=1) > 1
        for (method, recipe, epochs), lines in rows.groupby(["method", "recipe", "epochs"]):
            by_epoch = lines.groupby("epoch")["v_measure"].agg(["mean", "min", "max"])
            (line,) = axes.plot(
                by_epoch.index,
                by_epoch["mean"],
                marker=".",
                label=f"{method}, {epochs:g} epochs, {recipe}" if several[method] else str(method),
            )
            axes.fill_between(by_epoch.index, by_epoch["min"], by_epoch["max"], alpha=0.2, color=line.get_color())
        before = rows.loc[rows["epoch"] == 0, "v_measure"].mean()
        axes.axhline(before, linestyle="--", color="grey", label="as it was")
        axes.set(title=f"{model} on {task}", xlabel="epochs", ylabel="V-measure x100")
        axes.legend(frameon=False)
    return _svg(figure)


def convergence(trainings: pd.DataFrame) -> Markup:
    """Validation ARI against seconds of training, on a logarithmic axis: a panel for each task and base model, a line for each training.

    Parameters
    ----------
    trainings : columns task, base, method, n, recipe, seed, seconds, validation_ari
    """
    from matplotlib.figure import Figure

    panels = list(trainings.groupby(["task", "base"]))
    if not panels:
        return Markup()
    figure = Figure(figsize=(4.8 * len(panels), 3.4), layout="constrained")
    for axes, ((task, base), rows) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        colours = {method: f"C{i}" for i, method in enumerate(sorted(rows["method"].unique()))}
        for (method, _, _, seed), line in rows.groupby(["method", "n", "recipe", "seed"], dropna=False):
            label = str(method) if seed == rows.loc[rows["method"] == method, "seed"].min() else None
            axes.plot(
                line["seconds"] + 1, line["validation_ari"], marker=".", color=colours[method], label=label, alpha=0.8
            )
        axes.set(title=f"{base} on {task}", xlabel="1 + seconds of training", ylabel="ARI, validation", xscale="log")
        axes.legend(frameon=False)
    return _svg(figure)


def _svg(figure: Any) -> Markup:
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # drawn by matplotlib, which escapes labels  # noqa: S704
