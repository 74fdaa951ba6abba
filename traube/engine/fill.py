"""The missing cells of one task and model, clustered and scored in one go, for whoever needs no asset
for each stage. What is stored is not computed again.
"""

from collections import Counter

from traube.benchmark.plan import Request, missing_cells
from traube.benchmark.record import Recorder
from traube.engine.cluster import cluster
from traube.engine.progress import SILENT, Progress
from traube.engine.score import score_stored
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
    store, statuses = workbench.store, Counter[str]()
    missing = missing_cells(task, model, request, store)
    if not missing:
        return statuses
    read = workbench.task(task)
    vectors = workbench.vectors(read, model, progress)
    absent = [cell for cell in missing if not store.sound_assignments(task, cell.cell_id)]
    for result in cluster(read, vectors, absent, store, progress, model.similarity, model):
        if result.assignments is not None:
            recorder.clustered(result.cell, result.assignments, result.seconds, result.cost)
            continue
        statuses[result.status] += 1
        recorder.without_clusters(result.cell, result.status, result.reason)
    clustered = [cell for cell in missing if store.has_assignments(task, cell.cell_id)]
    score_stored(read, clustered, recorder, None if read.labelled else vectors, progress)
    statuses.update(store.cells_by_id(task, [cell.cell_id for cell in clustered])["status"])
    return statuses
