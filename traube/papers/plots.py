"""Papers' figures as SVG, drawn by matplotlib, which is an extra. All text is escaped."""

from io import StringIO
from typing import Any

import pandas as pd
from markupsafe import Markup

from traube.foundation.errors import MissingExtra
from traube.foundation.extras import install_hint


def curves(trainings: pd.DataFrame) -> Markup:
    """V-measure against epochs: a panel for each task and base model, a line for each method and
    recipe, the band from the lowest seed to the highest, and the model as it was.

    Parameters
    ----------
    trainings : columns model, method, task, recipe, seed, epochs, epoch, v_measure (x100); epoch 0
        is the model as it was
    """
    panels = list(trainings.groupby(["task", "model"]))
    if not panels:
        return Markup()
    figure = _figure((4.2 * len(panels), 3.2))
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
    """Validation ARI against seconds of training, on a logarithmic axis: a panel for each task and
    base model, a line for each training.

    Parameters
    ----------
    trainings : columns task, base, method, n, recipe, seed, seconds, validation_ari
    """
    panels = list(trainings.groupby(["task", "base"]))
    if not panels:
        return Markup()
    figure = _figure((4.8 * len(panels), 3.4))
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


def lines(means: pd.DataFrame, panel: str, line: str, x: str, label: str) -> Markup:
    """Lines with a band of one standard deviation, a panel for each value of a column, and one legend
    for all of them.

    Parameters
    ----------
    means : columns `panel`, `line`, `x`, mean, std
    label : of the axis of means
    """
    panels, names = list(means.groupby(panel, sort=False)), means[line].unique()
    colours = {name: f"C{i}" for i, name in enumerate(names)}
    figure = _figure((4.2 * len(panels), 3.2 + 0.17 * len(names)))
    shown: dict[str, Any] = {}
    for axes, (title, rows) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name, of in rows.groupby(line, sort=False):
            (shown[str(name)],) = axes.plot(of[x], of["mean"], marker=".", color=colours[name])
            axes.fill_between(of[x], of["mean"] - of["std"], of["mean"] + of["std"], alpha=0.2, color=colours[name])
        axes.set(title=title, xlabel=x, ylabel=label)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", frameon=False, fontsize="small")
    return _svg(figure)


def grouped_bars(means: pd.DataFrame, group: str, bar: str, label: str) -> Markup:
    """Bars with their standard errors, side by side in groups.

    Parameters
    ----------
    means : columns `group` and `bar`, mean, sem (nan where there is none)
    label : of the axis of means
    """
    groups, bars = means[group].unique(), means[bar].unique()
    figure = _figure((max(4.8, 0.25 * len(groups) * len(bars) + 2), 3.6))
    axes = figure.subplots()
    width = 0.8 / len(bars)
    for i, name in enumerate(bars):
        rows = means[means[bar] == name].set_index(group).reindex(groups)
        places = [x + (i - (len(bars) - 1) / 2) * width for x in range(len(groups))]
        axes.bar(places, rows["mean"], width, yerr=rows["sem"].fillna(0), capsize=2, label=name)
    axes.set(xticks=range(len(groups)), xticklabels=groups, ylabel=label)
    axes.legend(frameon=False, fontsize="small")
    return _svg(figure)


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        hint = install_hint("papers", "setup")
        raise MissingExtra(f"matplotlib, which draws papers' figures, is not installed: {hint}") from None
    return Figure(figsize=size, layout="constrained")


def _svg(figure: Any) -> Markup:
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # drawn by matplotlib, which escapes labels  # noqa: S704
