"""AECL's figures: what its trainings were like, epoch by epoch, as the storage keeps it; and how its
clusters depend on its parameters.
"""

import pandas as pd

from traube.papers.aecl.tables import FROZEN, NAMES, ON_ENCODER, TASKS, WITHOUT, measured
from traube.papers.context import Context
from traube.papers.spec import Drawing
from traube.pipeline.params import Point
from traube.reports.figures import lines
from traube.reports.rendering import figures_page

SWEEP = "aecl_sensitivity"
CONFIDENT = "AECL, confidence filter (CCSSL)"
# AECL's trainings by how they are called, and the protocol under which they stand
TRAININGS = {
    **WITHOUT,
    CONFIDENT: "aecl_confident",
    "AECL, frozen encoder": FROZEN,
    "No IC, frozen encoder": f"{SWEEP}.contrast=unguided",
    f"{CONFIDENT}, frozen encoder": f"{SWEEP}.contrast=confident",
}
STAGES = {"figure_8": "stage_1", "figure_9": "stage_2"}
CURVES = {"same_class_similarity": "cosine between texts of one class", "ns": "similarity to other classes (NS)"}


def histories(context: Context) -> pd.DataFrame:
    """The trainings that are kept, epoch by epoch.

    Returns
    -------
    DataFrame method, task, base, seed, epoch, and what was recorded: same_class_similarity, ns, ps,
    clusters, acc, nmi and losses by name
    """
    rows = []
    for name, protocol in TRAININGS.items():
        cells = context.cells(TASKS, protocol)
        for cell in cells[cells["method"].isin(NAMES)].itertuples():
            method = name if cell.method == "none/aecl" else NAMES[cell.method]
            if protocol == FROZEN and method in ON_ENCODER:
                method = f"{method}, frozen encoder"
            for history in context.storage.read_histories(cell.cell_id).values():
                told = {"method": method, "task": cell.task, "base": cell.model, "seed": cell.seed}
                rows += [{**told, **entry} for entry in history]
    return pd.DataFrame(rows)


def same_class_similarity(context: Context) -> Drawing | None:
    """Figure 5: how alike texts of one class become over the training; None without one."""
    return _curves(context, "same_class_similarity")


def negative_similarity(context: Context) -> Drawing | None:
    """Figure 6: how much of a text's similarity goes to texts of other classes (equation 18)."""
    return _curves(context, "ns")


def weights(context: Context) -> Drawing | None:
    """Figure 7: accuracy by the weights of the losses, and by what else the sweep changes in numbers
    but the stages; a panel a parameter. None without a point.
    """
    table = _swept(context, "acc")
    return _sensitivity(table[~table["parameter"].isin(STAGES.values())], "accuracy x100")


def stages(name: str, context: Context) -> Drawing | None:
    """Figures 8 and 9: accuracy and NMI by how many epochs a stage has. None without a point."""
    table = pd.concat([_swept(context, metric) for metric in ("acc", "nmi")], ignore_index=True)
    table = table[table["parameter"] == STAGES[name]]
    return _sensitivity(table.assign(curve=table["curve"] + " " + table["metric"].str.upper()), "x100")


def _swept(context: Context, metric: str) -> pd.DataFrame:
    """What the points of the sweep came to: parameter, value, curve (task and encoder), metric, mean,
    std, size; what changes nothing is a point of each parameter.
    """
    points = {name: p for name, p in context.protocols.items() if isinstance(p, Point) and p.sweep == SWEEP}
    table = measured(context, TASKS, *points)
    table = table[table["metric"] == metric].rename(columns={"measured": "mean", "sd": "std", "seeds": "size"})
    table = table.assign(std=table["std"].fillna(0.0))  # one seed: no band
    rows = []
    for row in table.to_dict("records"):
        point = points[row.pop("protocol")]
        same = {"curve": f"{row['task']} ({row['base']})", **row}
        if point.parameter is not None:
            rows.append({"parameter": point.parameter, "value": point.value, **same})
            continue
        unchanged = point.methods()[0].clusterer_params
        varied = dict.fromkeys(point.parameter for point in points.values() if point.parameter is not None)
        rows += [{"parameter": name, "value": unchanged[name], **same} for name in varied]
    columns = ["parameter", "value", "curve", "metric", "mean", "std", "size"]
    found = pd.DataFrame(rows, columns=columns)
    found = found[pd.to_numeric(found["value"], errors="coerce").notna()]
    return found.assign(value=found["value"].astype(float)).sort_values("value", kind="stable")


def _sensitivity(table: pd.DataFrame, label: str) -> Drawing | None:
    if table.empty:
        return None
    drawn = table.sort_values(["parameter", "curve", "value"])
    plots = lines(drawn, "parameter", "curve", "value", label)
    return Drawing(figures_page(f"{label}, one parameter changed at a time", plots), {}, drawn)


def _curves(context: Context, column: str) -> Drawing | None:
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
