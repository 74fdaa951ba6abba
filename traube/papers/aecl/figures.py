"""AECL's figures: representations of texts in its trainings, the course of these, and the effect of parameters on clusters."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.errors import Missing, TraubeError
from traube._core.frames import stack
from traube._pipeline.cluster import REPRESENTATIONS
from traube._pipeline.params import Point
from traube._pipeline.units import sample_for_plots
from traube._reports.figures import by_label, lines, text_map, tip
from traube._reports.papers.context import Context
from traube._reports.papers.spec import Drawing, deviation
from traube._reports.rendering import figures_page
from traube.models.vectors import locate_matrix, open_matrix, store_matrix
from traube.papers.aecl.tables import (
    ABLATIONS,
    FROZEN,
    NAMES,
    ON_ENCODER,
    PRINTED,
    PRINTED_WAYS,
    PROTOCOL,
    TASKS,
    WITHOUT,
    measure_scores,
)
from traube.tasks.task import Task

PLACES = "places"  # kind of the artifact: where texts are in a figure
SHOWN = ("none/kmeans", "none/sccl", "none/rstc", "none/aecl")  # as in the paper
PREFERRED = ("stackoverflow", *TASKS)  # the paper shows the first
SWEEP = "aecl_sensitivity"
CONFIDENT = "AECL, confidence filter (CCSSL)"
# names of AECL's trainings, with the protocol that holds each
TRAININGS = {
    **WITHOUT,
    CONFIDENT: "aecl_confident",
    "AECL, frozen encoder": FROZEN,
    "No IC, frozen encoder": f"{ABLATIONS}.contrast=unguided",
    f"{CONFIDENT}, frozen encoder": f"{ABLATIONS}.contrast=confident",
    "AECL, frozen encoder, unit vectors": f"{ABLATIONS}.scaled=False",
}
STAGES = {"figure_8": "stage_1", "figure_9": "stage_2"}
NS_OF_CONTRAST = "ns_contrast_alone"
CURVES = {"same_class_similarity": "cosine between texts of one class", "ns": "similarity to other classes (NS)"}


def histories(context: Context) -> pd.DataFrame:
    """Return the trainings that are kept, epoch by epoch.

    The columns are method, task, base, seed, epoch, and the recorded values (same_class_similarity, ns, ps, clusters,
    acc, nmi, losses by name).
    """
    rows = []
    for name, protocol in TRAININGS.items():
        # where only a sweep was computed, its point that changes nothing is the same training
        cells = context.cells(TASKS, protocol, *([ABLATIONS, PRINTED_WAYS] if protocol == FROZEN else []))
        cells = cells.drop_duplicates(["task", "model", "method", "seed"])
        for cell in cells[cells["method"].isin(NAMES)].itertuples():
            method = name if cell.method == "none/aecl" else NAMES[cell.method]
            if protocol == FROZEN and method in ON_ENCODER:
                method = f"{method}, frozen encoder"
            about = {"method": method, "task": cell.task, "base": cell.model, "seed": cell.seed}
            for history in context.storage.read_histories(cell.cell_id).values():
                rows += [{**about, **entry} for entry in history]
    return pd.DataFrame(rows)


def similarity(context: Context) -> pd.DataFrame:
    """Measure how alike texts are in the last epoch of a training, means over seeds, and NS after the contrast alone.

    The columns are task, method, metric (of `CURVES`, or `NS_OF_CONTRAST`), base, measured, sd, seeds. The first stage
    trains by the contrast alone (L_I), as the paper does for its figure of NS (section 4.7).
    """
    table, keys = histories(context), ["task", "method", "metric", "base"]
    if table.empty:
        return pd.DataFrame(columns=[*keys, "measured", "sd", "seeds"])
    training = ["task", "method", "base", "seed"]
    ordered = table.sort_values("epoch")
    last = ordered.groupby(training, as_index=False).last()
    values = [last.melt(training, [column for column in CURVES if column in last], "metric")]
    if "ns" in ordered:
        later = [name for name in ("labels", "clusters_contrast") if name in ordered]  # losses of stages 2 and 3
        contrasted = ordered[ordered[later].isna().all(axis=1)]
        contrasted = contrasted.groupby(training, as_index=False).last()
        values.append(contrasted.rename(columns={"ns": NS_OF_CONTRAST}).melt(training, [NS_OF_CONTRAST], "metric"))
    values = stack(values).dropna(subset="value")
    return values.groupby(keys)["value"].agg(measured="mean", sd=deviation, seeds="size").reset_index()


def curves(column: str, context: Context) -> Drawing | None:
    """Draw figures 5 and 6, a column of the histories over the training; None without a training.

    The column is how alike texts of one class become (`same_class_similarity`), or how much of a text's similarity
    goes to texts of other classes (`ns`, equation 18).
    """
    table = histories(context)
    if column not in table or table[column].isna().all():
        return None
    rows = table.dropna(subset=[column])
    keys = ["task", "base", "method", "epoch"]
    means = rows.groupby(keys, sort=False)[column].agg(["mean", "std", "size"]).reset_index()
    means = means.assign(std=means["std"].fillna(0.0))
    curve = means["method"] + " (" + means["base"] + ")"
    plots = lines(means.assign(curve=curve), "task", "curve", "epoch", CURVES[column])
    return Drawing(figures_page(f"{CURVES[column]}, epoch by epoch", plots), {}, means)


def sensitivity(name: str, context: Context) -> Drawing | None:
    """Draw figures 7 to 9, a panel for each parameter; None without a point.

    Figure 7 is accuracy by the weights of the losses, and by the other numeric parameters of the sweep except the
    stages; figures 8 and 9 are accuracy and NMI by the number of epochs of a stage.
    """
    table, label = _measure_sweep(context), "accuracy and NMI x100"
    if name == "figure_7":
        label = "accuracy x100"
        table = table[(table["metric"] == "acc") & ~table["parameter"].isin(STAGES.values())]
    else:
        table = table[(table["parameter"] == STAGES[name]) & table["metric"].isin(PRINTED)]
        table = table.assign(curve=table["curve"] + " " + table["metric"].str.upper())
    if table.empty:
        return None
    drawn = table.sort_values(["parameter", "curve", "value"])
    plots = lines(drawn, "parameter", "curve", "value", label)
    return Drawing(figures_page(f"{label}, one parameter changed at a time", plots), {}, drawn)


def _measure_sweep(context: Context) -> pd.DataFrame:
    """Return the results of the points of the sweep.

    The columns are parameter, value, curve (task and encoder), metric, mean, std, size; a point that changes nothing
    is a point of each parameter.
    """
    points = {name: p for name, p in context.protocols.items() if isinstance(p, Point) and p.sweep == SWEEP}
    table = measure_scores(context, TASKS, *points).rename(columns={"measured": "mean", "sd": "std", "seeds": "size"})
    table = table.assign(std=table["std"].fillna(0.0))  # one seed: no band
    rows = []
    for row in table.to_dict("records"):
        point = points[row.pop("protocol")]
        same = {"curve": f"{row['task']} ({row['base']})", **row}
        if point.parameter is None:
            unchanged = point.methods()[0].clusterer_params
            varied = dict.fromkeys(point.parameter for point in points.values() if point.parameter is not None)
            rows += [{"parameter": name, "value": unchanged[name], **same} for name in varied]
        else:
            rows.append({"parameter": point.parameter, "value": point.value, **same})
    sweep_table = pd.DataFrame(rows, columns=["parameter", "value", "curve", "metric", "mean", "std", "size"])
    values = pd.to_numeric(sweep_table["value"], errors="coerce").astype(float)
    return sweep_table.assign(value=values).dropna(subset="value")


def beside_each_other(context: Context) -> Drawing | None:
    """Draw figure 4 of the first set on which an AECL was trained that has kept its representations; None without one."""
    for name in PREFERRED:
        for protocol in (PROTOCOL, FROZEN):
            task, cells = context.task(name), context.cells([name], protocol)
            is_kept = [
                cell.method == "none/kmeans"
                or locate_matrix(context.storage, REPRESENTATIONS, cell.cell_id) is not None
                for cell in cells.itertuples()
            ]
            kept = cells[np.array(is_kept, dtype=bool)].sort_values("seed")
            trained = kept[kept["method"] == "none/aecl"]
            if task is None or trained.empty:
                continue
            kept = kept[kept["model"] == trained["model"].iloc[0]].drop_duplicates("method").set_index("method")
            return _draw_maps(context, task, kept, protocol == FROZEN)
    return None


def _draw_maps(context: Context, task: Task, cells: pd.DataFrame, is_frozen: bool) -> Drawing:
    """Draw a map of each method's cell; the method is the index of `cells`."""
    split = max(task.test_splits(), key=lambda split: split.size)
    rows = sample_for_plots(split.size)
    labels = [""] * len(rows) if split.labels is None else [str(label) for label in np.asarray(split.labels)[rows]]
    tips, groups = list(map(tip, labels, task.texts_at(split.rows[rows]))), by_label(labels)
    panels = []
    for method in SHOWN:
        if method not in cells.index:
            continue
        places = _place_cell(context, task, split.rows[rows], cells.loc[method])
        if places is not None:
            name = NAMES[method]
            name = f"{name}, frozen encoder" if is_frozen and name in ON_ENCODER else name
            panels.append(text_map(name, places, tips, groups))
    title = f"{task.name}: {len(rows):,} texts by t-SNE, colored by their gold category"
    names = ", ".join(panel.title for panel in panels)
    return Drawing(figures_page(title, panels), {"panels": names, "texts": len(rows)})


def _place_cell(context: Context, task: Task, rows: NDArray[np.int64], cell: pd.Series) -> NDArray[np.float32] | None:
    """Return the t-SNE positions of a cell's representations, computed once for a cell; None where these are not kept."""
    storage, key = context.storage, cell["cell_id"]
    if kept := locate_matrix(storage, PLACES, key):
        return np.asarray(open_matrix(kept))
    try:
        if cell.name == "none/kmeans":  # which trains nothing: the encoder's vectors
            model = context.model(cell["model"], context.protocols[cell["protocol"]].precision)
            points = np.asarray(context.vectors(task, model).subset(rows).load(), dtype=np.float32)
        else:
            path = locate_matrix(storage, REPRESENTATIONS, key)
            if path is None:
                raise Missing("its representations are not kept")
            points = np.asarray(open_matrix(path), dtype=np.float32)
    except (FileNotFoundError, TraubeError) as error:
        context.warn(f"{task.name}: no picture of {cell.name}: {error}")
        return None
    places = project(points)
    store_matrix(storage, PLACES, key, places)
    return places


def project(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Project points, [n, d], into the plane by t-SNE on cosine distances, float32 [n, 2] within 0 and 1."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    if len(points) < 3:
        return np.zeros((len(points), 2), dtype=np.float32)
    perplexity = min(30.0, (len(points) - 1) / 3)
    with threadpool_limits(1):
        embedding = TSNE(perplexity=perplexity, metric="cosine", init="random", random_state=0).fit_transform(points)
    low, high = embedding.min(axis=0), embedding.max(axis=0)
    return np.asarray((embedding - low) / np.maximum(high - low, 1e-12), dtype=np.float32)
