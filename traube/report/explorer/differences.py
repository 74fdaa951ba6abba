"""On which splits one model does better than another, and what these splits are like."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from traube.foundation.errors import TraubeError
from traube.comparison.jackknife import CONFIDENCE, Sample, Test, difference
from traube.comparison.candidates import Candidate
from traube.report.explorer.board import number
from traube.report.tables import corrected_p_values
from traube.store import Store
from traube.tasks.task import Task


def differences(store: Store, task: Task, split_set: str, firsts: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Each pair of models at each level, split by split, x100.

    Parameters
    ----------
    firsts : the best of each model, of one protocol

    Returns
    -------
    For each pair and level: the mean difference with its 95 % interval, p (Holm, over the pairs of the
    level), how many splits each side wins, and every split's size, classes, difference and interval
    (None where one split does not say how much scores vary)
    """
    shapes = {(s.split, s.level): (s.size, s.classes) for s in task.test_splits(split_set)}
    found = []
    scores = [_scores(store, candidate) for candidate in firsts]
    for level in dict.fromkeys(level for _, level in shapes):
        samples = {
            candidate.model: Sample.of(own, seeded)
            for candidate, (table, seeded) in zip(firsts, scores, strict=True)
            if len(own := table[table["level"] == level])
        }
        p = _p(samples)
        for a, b in combinations(samples, 2):
            found.append({"level": level, "a": a, "b": b, **_pair(samples[a], samples[b], p.get((a, b)))})
            found[-1]["splits"] = _splits(samples[a], samples[b], level, shapes)
    return found


def _scores(store: Store, candidate: Candidate) -> tuple[pd.DataFrame, bool]:
    cells = store.cells_by_id(candidate.task, candidate.cells)
    return store.scores(cells, [candidate.metric], replicates=True), bool(cells["seed"].notna().any())


def _p(samples: dict[str, Sample]) -> dict[tuple[str, str], float]:
    """Corrected p-values by pair; none where they are not scored on the same splits."""
    if len(samples) < 2 or len({sample.splits for sample in samples.values()}) > 1:
        return {}
    p = corrected_p_values(list(samples.values()))
    names = list(samples)
    return {(names[i], names[j]): float(p[i, j]) for i, j in zip(*np.triu_indices(len(names), 1), strict=True)}


def _pair(a: Sample, b: Sample, p: float | None) -> dict[str, Any]:
    try:
        test = difference(a, b)
    except TraubeError as error:
        return {"difference": None, "low": None, "high": None, "p": None, "better": "", "note": str(error)}
    decided = p if p is not None and np.isfinite(p) and not test.note else None
    better = "" if decided is None or decided >= 1 - CONFIDENCE else ("a" if test.difference > 0 else "b")
    return {**_numbers(test), "p": None if decided is None else number(decided, 4), "better": better, "note": test.note}


def _splits(a: Sample, b: Sample, level: str, shapes: dict[tuple[str, str], tuple[int, int | None]]) -> list[Any]:
    rows = []
    for split in a.splits:
        if split not in b.splits:
            continue
        size, classes = shapes.get((split, level), (0, None))
        one, other = a.on([split]), b.on([split])
        try:
            numbers = _numbers(difference(one, other))
        except TraubeError:  # nothing says how much the scores vary
            numbers = {"difference": number(100 * (one.mean - other.mean)), "low": None, "high": None}
        rows.append({"split": split, "size": size, "classes": classes, **numbers})
    return rows


def _numbers(test: Test) -> dict[str, float | None]:
    return {name: number(100 * getattr(test, name)) for name in ("difference", "low", "high")}
