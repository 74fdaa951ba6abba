"""The missing cells of one task and model, clustered and scored in one go, for whoever needs no asset
for each stage. What is stored is not computed again.
"""

from collections import Counter

from traube.benchmark.plan import Request, missing_cells
from traube.benchmark.record import Recorder
from traube.engine.progress import SILENT, Progress
from traube.engine.score import score_stored
from traube.engine.stages import cluster_missing, unscored_cells
from traube.engine.workbench import Workbench
from traube.models import Model


def fill(
    task: str, model: Model, request: Request, workbench: Workbench, recorder: Recorder, progress: Progress = SILENT
) -> Counter[str]:
    """Compute and store what a request lacks of a stored task and a model.

    Returns
    -------
    how many cells have become of which status

    Raises
    ------
    TraubeError
        If the task has not been read, or the model cannot encode it.
    """
    store = workbench.store
    if not missing_cells(task, model, request, store):
        return Counter()
    clustered = cluster_missing(task, model, request, workbench, recorder, progress=progress)
    statuses = Counter({status: number for status, number in clustered.statuses.items() if status != "done"})
    cells, read = unscored_cells(task, model, request, store), workbench.task(task)
    vectors = None if read.labelled else workbench.vectors(read, model, progress)
    score_stored(read, cells, recorder, workbench.executor, vectors, progress)
    statuses.update(store.cells_by_id(task, [cell.cell_id for cell in cells])["status"])
    return statuses
