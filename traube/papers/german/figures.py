"""The German benchmark's figures."""

from traube.papers.context import Context
from traube.papers.german.tables import PROTOCOL, adapted
from traube.papers.spec import Drawing

MAPPED, HIGHLIGHTED = "tenkgnad_p2p", "Wissenschaft"


def maps(context: Context) -> Drawing | None:
    """Figure 1: the vectors of a task's largest split by UMAP, a panel a model; None without a map."""
    from traube.report.maps import kept_maps, page

    kept = kept_maps(context.store, context.protocols, MAPPED, PROTOCOL)
    if not kept:
        return None
    return Drawing(page(kept, HIGHLIGHTED), {"models": ", ".join(m.model for m in kept)})


def learning_curves(context: Context) -> Drawing | None:
    """Figures 2 and 4: V-measure against epochs of adaptive pre-training; None without a training."""
    from traube.papers.plots import curves

    trainings = adapted(context)
    if trainings.empty:
        return None
    return Drawing(str(curves(trainings)), {"trainings": int(trainings["checkpoint"].nunique())})
