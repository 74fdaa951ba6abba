"""Figures as SVG: small, still readable in a paper, and without scripts. All text is escaped."""

from io import StringIO
from typing import Any

import pandas as pd
from markupsafe import Markup

SHOWN = 30  # models of a heat map, the best; a page has room for no more
CELL_WIDTH, ROW_HEIGHT, LETTER = 62, 24, 7  # pixels
VIRIDIS = (
    (68, 1, 84),
    (71, 44, 122),
    (59, 81, 139),
    (44, 113, 142),
    (33, 144, 141),
    (39, 173, 129),
    (92, 200, 99),
    (170, 220, 50),
    (253, 231, 37),
)


def heatmap(rows: pd.DataFrame) -> Markup:
    """Mean score by method and model, x100, for one task, level and protocol; nothing
    if there is no score.

    Drawn here and not by matplotlib, which takes seconds for some thousand numbers.

    Parameters
    ----------
    rows : of the leaderboard, columns method, model and mean
    """
    grid = rows.pivot_table(index="method", columns="model", values="mean") * 100
    if grid.empty:
        return Markup()
    best = grid.max().sort_values(ascending=False).index[:SHOWN]
    grid = grid.loc[grid.max(axis=1).sort_values(ascending=False).index, best]
    left, top = LETTER * max(map(len, grid.index)) + 10, LETTER * max(map(len, grid.columns)) * 0.7 + 20
    low, high = grid.min().min(), grid.max().max()
    marks = [
        *(_text(left - 6, top + ROW_HEIGHT * (y + 0.65), name, "end") for y, name in enumerate(grid.index)),
        *(_slanted(left + CELL_WIDTH * (x + 0.5), top - 6, name) for x, name in enumerate(grid.columns)),
    ]
    for y, values in enumerate(grid.to_numpy()):
        for x, value in enumerate(values):
            if pd.notna(value):
                share = (value - low) / (high - low) if high > low else 0.0
                marks += _cell(left + CELL_WIDTH * x, top + ROW_HEIGHT * y, value, share)
    width = left + CELL_WIDTH * grid.shape[1] + LETTER * len(grid.columns[-1]) * 0.7
    size = f"{width:.0f} {top + ROW_HEIGHT * grid.shape[0]:.0f}"
    about = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {}" width="{}" font-family="sans-serif" font-size="12">'
    )
    return about.format(size, f"{width:.0f}") + Markup("\n").join(marks) + Markup("</svg>")


def _text(x: float, y: float, text: str, anchor: str, colour: str = "black") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}" fill="{}">{}</text>').format(
        f"{x:.0f}", f"{y:.0f}", anchor, colour, text
    )


def _slanted(x: float, y: float, text: str) -> Markup:
    return Markup('<text transform="translate({} {}) rotate(-40)">{}</text>').format(f"{x:.0f}", f"{y:.0f}", text)


def _cell(x: float, y: float, value: float, share: float) -> list[Markup]:
    """A square in the colour of its share of the range, 0 to 1, and the number on it."""
    place, rest = divmod(share * (len(VIRIDIS) - 1), 1)
    below, above = VIRIDIS[int(place)], VIRIDIS[min(int(place) + 1, len(VIRIDIS) - 1)]
    red, green, blue = (round(a + rest * (b - a)) for a, b in zip(below, above, strict=True))
    square = Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="rgb({},{},{})"/>').format(
        *(f"{x:.0f}", f"{y:.0f}", CELL_WIDTH, ROW_HEIGHT, red, green, blue)
    )
    number = _text(
        x + CELL_WIDTH / 2, y + 0.65 * ROW_HEIGHT, f"{value:.1f}", "middle", "black" if share > 0.5 else "white"
    )
    return [square, number]


def curves(trainings: pd.DataFrame) -> Markup:
    """V-measure against epochs: a panel for each task and base model, a line for each method and
    recipe, the band from the lowest seed to the highest, and the model as it was.

    Parameters
    ----------
    trainings : columns model, method, task, recipe, seed, epochs, epoch, v_measure (x100); epoch 0
        is the model as it was
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
    return svg(figure)


def convergence(trainings: pd.DataFrame) -> Markup:
    """Validation ARI against seconds of training, on a logarithmic axis: a panel for each task and
    base model, a line for each training.

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
    return svg(figure)


def lines(means: pd.DataFrame, panel: str, line: str, x: str, label: str) -> Markup:
    """Lines with a band of one standard deviation, a panel for each value of a column, and one legend
    for all of them.

    Parameters
    ----------
    means : columns `panel`, `line`, `x`, mean, std
    label : of the axis of means
    """
    from matplotlib.figure import Figure

    panels, names = list(means.groupby(panel, sort=False)), means[line].unique()
    colours = {name: f"C{i}" for i, name in enumerate(names)}
    figure = Figure(figsize=(4.2 * len(panels), 3.2 + 0.17 * len(names)), layout="constrained")
    shown: dict[str, Any] = {}
    for axes, (title, rows) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name, of in rows.groupby(line, sort=False):
            (shown[str(name)],) = axes.plot(of[x], of["mean"], marker=".", color=colours[name])
            axes.fill_between(of[x], of["mean"] - of["std"], of["mean"] + of["std"], alpha=0.2, color=colours[name])
        axes.set(title=title, xlabel=x, ylabel=label)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", frameon=False, fontsize="small")
    return svg(figure)


def grouped_bars(means: pd.DataFrame, group: str, bar: str, label: str) -> Markup:
    """Bars with their standard errors, side by side in groups.

    Parameters
    ----------
    means : columns `group` and `bar`, mean, sem (nan where there is none)
    label : of the axis of means
    """
    from matplotlib.figure import Figure

    groups, bars = means[group].unique(), means[bar].unique()
    figure = Figure(figsize=(max(4.8, 0.25 * len(groups) * len(bars) + 2), 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(bars)
    for i, name in enumerate(bars):
        rows = means[means[bar] == name].set_index(group).reindex(groups)
        places = [x + (i - (len(bars) - 1) / 2) * width for x in range(len(groups))]
        axes.bar(places, rows["mean"], width, yerr=rows["sem"].fillna(0), capsize=2, label=name)
    axes.set(xticks=range(len(groups)), xticklabels=groups, ylabel=label)
    axes.legend(frameon=False, fontsize="small")
    return svg(figure)


def svg(figure: Any) -> Markup:
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # drawn by matplotlib, which escapes labels  # noqa: S704
