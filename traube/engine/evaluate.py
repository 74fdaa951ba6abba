"""Texts to scores in one call, with nothing else running: embed, cluster, score.

Unique texts are encoded once; a split is a view of the vectors. The stages by themselves are in `embed`, `cluster` and
`score`; what is kept from run to run in the benchmark's store is written by the assets, not here.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from traube.benchmark.plan import Cell
from traube.engine.cluster import cluster
from traube.engine.progress import SILENT, Progress
from traube.engine.score import score
from traube.engine.workbench import Workbench
from traube.foundation.errors import TraubeError
from traube.models import Model
from traube.tasks.task import Task


def evaluate_cells(
    task: Task, model: Model, cells: Sequence[Cell], folder: Path | None = None, progress: Progress = SILENT
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Embed, cluster and score.

    Parameters
    ----------
    cells : from `traube.benchmark.plan.cells(task, model, ...)`
    folder : where vectors and reductions are kept between calls; by default nothing is kept

    Returns
    -------
    scores : DataFrame cell_id, split, level, metric, value, replicates (see `traube.engine.score`)
    assignments : DataFrame cell_id, split, level, item, cluster

    Raises
    ------
    TraubeError
        If the task is faulty (Task.validate), there are no cells, or a cell fails or is unsupported.
    """
    if not cells:
        raise TraubeError(f"task '{task.name}': there are no cells to evaluate")
    task.validate()
    with TemporaryDirectory(prefix="traube-") as temporary:
        workbench = Workbench.at(folder or Path(temporary))
        vectors = workbench.vectors(task, model, progress)
        frames = []
        for result in cluster(task, vectors, cells, workbench.store, progress):
            if result.assignments is None:
                raise TraubeError(f"{result.cell.title}: {result.status}: {result.reason}")
            frames.append(result.assignments.assign(cell_id=result.cell.cell_id))
        assignments = pd.concat(frames, ignore_index=True)
        return score(task, assignments, vectors, cells[0].split_set, progress), assignments
