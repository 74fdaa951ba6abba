"""COB's figures: time to convergence and of an epoch, and the effect of training on the space."""

from dataclasses import replace

import numpy as np
import pandas as pd

from traube._core.errors import TraubeError
from traube._reports.figures import Plot, Trace, axes, by_label, grouped_bars, line, text_map, tip
from traube._reports.papers.context import Context
from traube._reports.papers.spec import Drawing, deviation
from traube._reports.rendering import figures_page
from traube.papers.cob.tables import CHECKPOINT, METRICS, PROTOCOL, REFERENCE, trained_cells
from traube.tasks.task import Task

CURVE = ("step", "epoch", "seconds", "validation_ari")
SHOWN_SPLITS = 4
SHOWN_TASKS = ("trec_car_coarse", "car_test200_coarse", "newsgroups")  # the first that has trained models


def trainings(context: Context) -> pd.DataFrame:
    """Return the learning curves of COB and Triplet.

    The columns are task, base, method, n, recipe, seed, share (of all triples that makes an epoch of Triplet), step, epoch,
    seconds (of training, without evaluations), validation_ari.
    """
    rows = []
    for checkpoint, record in context.trainings("cob", REFERENCE):
        if name := CHECKPOINT.fullmatch(checkpoint):
            n = int(name["n"]) if name["n"] else None
            share = record["config"].get("share", 1.0)
            key = (name["task"], name["base"], name["trainer"], n, name["recipe"], int(name["seed"]), share)
            rows += [(*key, *(entry[column] for column in CURVE)) for entry in record["curve"]]
    return pd.DataFrame(rows, columns=["task", "base", "method", "n", "recipe", "seed", "share", *CURVE])


def convergence(curves: pd.DataFrame) -> pd.DataFrame:
    """Compute the time to convergence and of an epoch, and COB's beside Triplet's.

    A training has converged at the first evaluation at which the mean validation ARI has come 95 %
    of its way from start to best; one that never rose above its start, never.

    Returns
    -------
    DataFrame
        Columns task, base, n, seed, method, recipe, seconds_to_converge, seconds_an_epoch (of all triples, if only a share of
        them makes one), best_ari, times_slower (than COB
        with the same seed, the better one where there are several recipes).
    """
    same = ["task", "base", "n", "seed"]
    keys = [*same, "method", "recipe"]
    rows = []
    for key, curve in curves.groupby(keys, dropna=False):
        curve = curve.sort_values("step")
        ari, seconds = curve["validation_ari"].to_numpy(), curve["seconds"].to_numpy()
        near = ari >= ari[0] + 0.95 * (ari.max() - ari[0])
        epochs = curve["epoch"].iloc[-1] * curve["share"].iloc[-1]
        epoch = seconds[-1] / epochs if epochs else np.nan
        reached = seconds[int(near.argmax())] if ari.max() > ari[0] else np.nan
        rows.append((*key, reached, epoch, ari.max()))
    times = pd.DataFrame(rows, columns=[*keys, "seconds_to_converge", "seconds_an_epoch", "best_ari"])
    cob = times[times["method"] == "cob"].sort_values("best_ari").drop_duplicates(same, keep="last")
    base = times.merge(cob[[*same, "seconds_to_converge"]], how="left", on=same, suffixes=("", "_cob"))
    return times.assign(times_slower=times["seconds_to_converge"] / base["seconds_to_converge_cob"])


def measure_convergence(context: Context) -> pd.DataFrame:
    """Measure how many times longer Triplet takes than COB, means over seeds.

    The columns are task, measure, base, recipe (of Triplet), measured, sd, seeds, layers (of the encoder that learn, the
    fewer of both; missing: all), note (both recipes' values).
    """
    times, notes = convergence(trainings(context)), context.describe_recipes("cob", REFERENCE)
    recipes = context.read_recipes("cob", REFERENCE)
    same = ["task", "base", "n", "seed"]
    cob = times[times["method"] == "cob"].sort_values("best_ari").drop_duplicates(same, keep="last")
    pairs = times[times["method"] == REFERENCE].merge(cob, on=same, suffixes=("", "_cob"))
    measures = {"times_slower": "seconds_to_converge", "epoch_times_slower": "seconds_an_epoch"}
    rows = []
    for (task, base, recipe), of_seeds in pairs.groupby(["task", "base", "recipe"], dropna=False):
        keys = [(REFERENCE, recipe), *(("cob", name) for name in of_seeds["recipe_cob"])]
        counts = [recipes.get(key, {}).get("layers") for key in keys]
        layers = min((count for count in counts if count is not None), default=None)
        beside = dict.fromkeys(notes.get(key, "COB") for key in keys[1:])
        note = f"{notes.get(keys[0], 'Triplet')} beside {' and '.join(beside)}"
        for measure, seconds in measures.items():
            ratios = (of_seeds[seconds] / of_seeds[f"{seconds}_cob"]).dropna()
            if len(ratios):
                rows.append((task, measure, base, recipe, ratios.mean(), deviation(ratios), len(ratios), layers, note))
    return pd.DataFrame(
        rows, columns=["task", "measure", "base", "recipe", "measured", "sd", "seeds", "layers", "note"]
    )


def times_to_convergence(context: Context) -> Drawing | None:
    """Draw figure 3: learning curves against seconds; None without a training."""
    curves = trainings(context)
    if curves.empty:
        return None
    page = figures_page("Validation ARI against seconds of training", learning_curves(curves))
    return Drawing(page, {"published": "COB converges at least five times sooner"}, convergence(curves))


def epoch_times(context: Context) -> Drawing | None:
    """Draw figure 5: seconds of an epoch of all triples, means over trainings, a panel a task; None without a training."""
    times = convergence(trainings(context))
    if times.empty:
        return None
    means = times.groupby(["task", "base", "method"], as_index=False)["seconds_an_epoch"].agg(["mean", "sem"])
    plots = []
    for (task, base), rows in means.groupby(["task", "base"]):
        plot = grouped_bars(f"{base} on {task}", rows.assign(task=task), "task", "method", "seconds")
        plots.append(replace(plot, layout={**plot.layout, "yaxis": {**plot.layout["yaxis"], "type": "log"}}))
    facts = {"published": "an epoch of COB takes a hundredth of Triplet's on 20 Newsgroups"}
    return Drawing(figures_page("Seconds of an epoch of all triples", plots), facts, times)


def learning_curves(curves: pd.DataFrame) -> list[Plot]:
    """Draw validation ARI against seconds: a figure for each task and base, a line a training, a color a method."""
    plots = []
    for (task, base), rows in curves.groupby(["task", "base"]):
        methods, traces = sorted(rows["method"].unique()), list[Trace]()
        for (method, _, _, _), of in rows.groupby(["method", "n", "recipe", "seed"], dropna=False):
            is_first = all(trace["name"] != method for trace in traces)
            x, y = of["seconds"] + 1, of["validation_ari"]
            traces.append(line(method, x, y, methods.index(method), showlegend=is_first))
        layout = axes("1 + seconds of training", "ARI, validation")
        plots.append(Plot(f"{base} on {task}", traces, {**layout, "xaxis": {**layout["xaxis"], "type": "log"}}))
    return plots


def trained_spaces(context: Context) -> Drawing | None:
    """Draw figure 4: COB beside Triplet on the first task that has trained models; None without one.

    The largest test splits in three principal components, as the models of the lowest seed place them: a panel for
    each split and model, colored by label; pointing at a text shows it.
    """
    for name in SHOWN_TASKS:
        try:
            task = context.task(name)
            if task is None or PROTOCOL not in context.protocols:
                continue
            cells = trained_cells(context, name)
            cells = cells[cells["method"].isin(("cob", REFERENCE))]
            cells = cells.sort_values(["method", "training_seed"]).drop_duplicates(["method", "base"])
            plots = _draw_spaces(context, task, cells)
        except TraubeError as error:  # a model is gone; its scores are not
            context.warn(f"{name}: {error}")
            continue
        if plots:
            models = ", ".join(dict.fromkeys(cells["model"]))
            return Drawing(figures_page(name, plots), {"panels": len(plots), "models": models})
    return None


def _draw_spaces(context: Context, task: Task, cells: pd.DataFrame) -> list[Plot]:
    from sklearn.decomposition import PCA

    scores = context.storage.read_scores(cells, [METRICS["ari"]]).set_index(["cell_id", "split"])["value"]
    splits = sorted(task.test_splits(), key=lambda split: -split.size)[:SHOWN_SPLITS]
    precision = context.protocols[PROTOCOL].precision
    vectors = {model: context.vectors(task, context.model(model, precision)) for model in cells["model"]}
    plots = []
    for split in splits:
        labels = [] if split.labels is None else list(split.labels)
        tips, groups = list(map(tip, labels, task.texts_at(split.rows))), by_label(labels)
        for cell in cells.itertuples(index=False):
            embeddings = vectors[cell.model].subset(split.rows).load()
            points = PCA(min(3, *embeddings.shape)).fit_transform(embeddings)
            points = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))
            title = f"{split.split}, {cell.model}: ARI {float(scores[cell.cell_id, split.split]):.2f}"
            plots.append(text_map(title, points, tips, groups, height=460))
    return plots
