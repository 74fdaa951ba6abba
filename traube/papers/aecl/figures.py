"""AECL's figures: what its trainings were like, epoch by epoch, as the store keeps it."""

import pandas as pd

from traube.papers.aecl.tables import NAMES, TASKS, WITHOUT
from traube.papers.context import Context
from traube.papers.spec import Drawing

CURVES = {"same_class_similarity": "cosine between texts of one class", "ns": "similarity to other classes (NS)"}


def histories(context: Context) -> pd.DataFrame:
    """The trainings that are kept, epoch by epoch.

    Returns
    -------
    DataFrame method, task, base, seed, epoch, and what was recorded: same_class_similarity, ns, ps,
    clusters, acc, nmi and losses by name
    """
    rows = []
    for name, protocol in WITHOUT.items():
        cells = context.cells(TASKS, protocol)
        for cell in cells[cells["method"].isin(NAMES)].itertuples():
            method = name if cell.method == "none/aecl" else NAMES[cell.method]
            if name != "AECL" and method != name:
                continue  # the same training as under the protocol that leaves nothing out
            for history in context.store.histories(cell.task, cell.cell_id).values():
                told = {"method": method, "task": cell.task, "base": cell.model, "seed": cell.seed}
                rows += [{**told, **entry} for entry in history]
    return pd.DataFrame(rows)


def same_class_similarity(context: Context) -> Drawing | None:
    """Figure 5: how alike texts of one class become over the training; None without one."""
    return _curves(context, "same_class_similarity")


def negative_similarity(context: Context) -> Drawing | None:
    """Figure 6: how much of a text's similarity goes to texts of other classes (equation 18)."""
    return _curves(context, "ns")


def _curves(context: Context, column: str) -> Drawing | None:
    from traube.report.figures import lines

    table = histories(context)
    if column not in table or table[column].isna().all():
        return None
    rows = table.dropna(subset=[column])
    keys = ["task", "base", "method", "epoch"]
    means = rows.groupby(keys, sort=False)[column].agg(["mean", "std", "size"]).reset_index()
    means = means.assign(std=means["std"].fillna(0.0))
    curve = means["method"] + " (" + means["base"] + ")"
    return Drawing(lines(means.assign(curve=curve), "task", "curve", "epoch", CURVES[column]), {}, means)
