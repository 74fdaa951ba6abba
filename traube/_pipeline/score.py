"""Clusters to scores: every metric of every split (`traube.metrics`), in the worker processes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from traube._core.errors import TraubeError
from traube._core.progress import SILENT, Progress
from traube._pipeline import units
from traube._pipeline.cell import Cell
from traube._pipeline.executors import Executor, Failure, Job, failure
from traube._storage import Storage
from traube.models import Vectors
from traube.tasks.task import Task, get_groups

# A crash loses the scores of at most this many cells.
CELLS_AT_ONCE = 8
COLUMNS = ["cell_id", "split", "level", "metric", "value", "replicates"]


def score_assignments(
    task: Task,
    assignments: pd.DataFrame,
    executor: Executor,
    vectors: Vectors | None = None,
    split_set: str = "default",
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Compute the metrics of every split and level of the given cells.

    Parameters
    ----------
    task : Task
        The task.
    assignments : DataFrame
        Columns cell_id, split, level, item and cluster.
    executor : Executor
        Does the work.
    vectors : Vectors, optional
        Vectors of the corpus; needed where the task has no labels.
    split_set : str, default="default"
        The split set of the cells.
    progress : Progress, optional
        Reports the work as it is done.

    Returns
    -------
    DataFrame
        Columns cell_id, split, level, metric, value and replicates (float64 [GROUPS], the value without each group of texts;
        None of numbers that are no metric).
    """
    splits = {(s.split, s.level): s for s in task.test_splits(split_set)}
    group_of_text = get_groups(task.corpus["text_id"])
    jobs: dict[Job, tuple[Any, ...]] = {}
    items, clusters_of = (assignments[column].to_numpy(np.int64) for column in ("item", "cluster"))
    for (cell_id, name, level), rows in assignments.groupby(["cell_id", "split", "level"], sort=False).indices.items():
        split = splits[name, level]
        clusters = pd.Series(clusters_of[rows], index=items[rows]).reindex(split.items).to_numpy(np.int64)
        view = None if split.labels is not None or vectors is None else vectors.subset(split.rows)
        arguments = split.labels, clusters, group_of_text[split.rows], view
        jobs[Job(units.score_split, arguments, rows=len(clusters))] = cell_id, name, level
    progress.total("scores", len(jobs))
    outcomes: dict[Job, Any] = {}
    for job, outcome in executor.run(list(jobs)):
        outcomes[job] = outcome
        progress.done("scores", 1)
    for outcome in outcomes.values():
        if isinstance(outcome, Failure):
            raise outcome.error()
    scores = [
        (*key, metric, value, outcomes[job][1].get(metric))
        for job, key in jobs.items()
        for metric, value in outcomes[job][0].items()
    ]
    return pd.DataFrame(scores, columns=COLUMNS)


def score_cells(
    task: Task,
    cells: Sequence[Cell],
    storage: Storage,
    executor: Executor,
    vectors: Vectors | None = None,
    progress: Progress = SILENT,
) -> Iterator[tuple[Cell, pd.DataFrame | Failure]]:
    """Score cells whose assignments are stored, a few at a time.

    A cell that cannot be scored stops no other; assignments that cannot be read do, and workers that are not to be
    had.

    Yields
    ------
    cell : Cell
        The cell.
    scores : DataFrame or Failure
        Its scores, or why there are none.
    """
    for start in range(0, len(cells), CELLS_AT_ONCE):
        group = cells[start : start + CELLS_AT_ONCE]
        tables = [storage.read_assignments(cell.cell_id).assign(cell_id=cell.cell_id) for cell in group]
        executor.check_workers()  # an error here is not the fault of a cell
        scores: pd.DataFrame | Failure
        try:
            scores = score_assignments(task, pd.concat(tables), executor, vectors, group[0].split_set, progress)
        except TraubeError as error:
            scores = failure(error)
        if not isinstance(scores, Failure):
            yield from ((cell, scores[scores["cell_id"] == cell.cell_id]) for cell in group)
        elif len(group) == 1:
            yield group[0], scores
        else:  # one by one, to find those that cannot be scored
            for cell in group:
                yield from score_cells(task, [cell], storage, executor, vectors, progress)
