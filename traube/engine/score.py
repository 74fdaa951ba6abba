"""Clusters to scores: every metric of every split, in the worker processes.

The metrics themselves are in `traube.metrics`.
"""

from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np
import pandas as pd

from traube.benchmark.plan import Cell
from traube.benchmark.record import Recorder
from traube.engine import workers
from traube.engine.progress import SILENT, Progress
from traube.models import Vectors
from traube.tasks.task import Task, groups_of

# A crash loses the scores of at most this many cells.
CELLS_AT_ONCE = 8
COLUMNS = ["cell_id", "split", "level", "metric", "value", "replicates"]


def score(
    task: Task,
    assignments: pd.DataFrame,
    vectors: Vectors | None = None,
    split_set: str = "default",
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """Metrics of every split and level of the given cells.

    Parameters
    ----------
    assignments : DataFrame cell_id, split, level, item, cluster
    vectors : of the corpus; needed where the task has no labels

    Returns
    -------
    DataFrame cell_id, split, level, metric, value, replicates (float64 [GROUPS], the value without
    each group of texts; None of numbers that are no metric)

    Raises
    ------
    TraubeError
        If a worker process was killed (mostly: out of memory).
    """
    splits = {(s.split, s.level): s for s in task.test_splits(split_set)}
    group_of_text = groups_of(task.corpus["text_id"])
    keys, jobs = [], []
    items, clusters_of = (assignments[column].to_numpy(np.int64) for column in ("item", "cluster"))
    for (cell_id, name, level), rows in assignments.groupby(["cell_id", "split", "level"], sort=False).indices.items():
        split = splits[name, level]
        clusters = pd.Series(clusters_of[rows], index=items[rows]).reindex(split.items).to_numpy(np.int64)
        view = None if split.labels is not None or vectors is None else vectors.subset(split.rows)
        keys.append((cell_id, name, level))
        jobs.append((split.labels, clusters, group_of_text[split.rows], view))
    progress.total("scores", len(jobs))
    scores: list[tuple[Any, ...]] = []
    try:
        results = workers.pool().map(workers.score, *zip(*jobs, strict=True), chunksize=4)
        for key, (values, without) in zip(keys, results, strict=True):
            progress.done("scores", 1)
            scores.extend((*key, metric, value, without.get(metric)) for metric, value in values.items())
    except BrokenProcessPool as error:
        raise workers.broken(error) from None
    return pd.DataFrame(scores, columns=COLUMNS)


def score_stored(
    task: Task,
    cells: Sequence[Cell],
    recorder: Recorder,
    vectors: Vectors | None = None,
    progress: Progress = SILENT,
) -> None:
    """Score cells whose assignments are stored, and write their scores and records, a few cells at
    a time.

    Parameters
    ----------
    vectors : of the corpus; needed where the task has no labels

    Raises
    ------
    TraubeError
        If assignments cannot be read, or a worker process was killed.
    """
    store = recorder.store
    for start in range(0, len(cells), CELLS_AT_ONCE):
        group = cells[start : start + CELLS_AT_ONCE]
        stored = {cell.cell_id: store.assignments(cell.task, cell.cell_id) for cell in group}
        assignments = pd.concat([frame for frame, _ in stored.values()])
        scores = score(task, assignments, vectors, group[0].split_set, progress)
        for cell in group:
            _, seconds = stored[cell.cell_id]
            recorder.scored(cell, scores[scores["cell_id"] == cell.cell_id], seconds)
