"""Views of the same texts under several models: the points and the clusters of each model."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.errors import TraubeError
from traube._pipeline.cluster import locate_reduction
from traube._pipeline.lookup import Lookup
from traube._pipeline.params import Protocol
from traube._pipeline.workbench import Workbench
from traube._reports.placing import place_texts
from traube.comparison.candidates import Candidate
from traube.models.vectors import open_matrix
from traube.tasks.task import Split, Task

SHOWN = 3000  # texts of a map; more of them take a phone's browser seconds, and hide each other
CHARACTERS = 300  # of a text
NOISE = -1

Points = NDArray[np.float32]
Codes = NDArray[np.int64]


def confusion(gold: Codes, predicted: Codes) -> dict[str, Any]:
    """Count gold classes against clusters, ordered so that what belongs together lies on the diagonal.

    A cluster stands for one class at most and a class for one cluster: the assignment under which
    most texts agree (Kuhn, 1955). The largest agreement comes first.

    Returns
    -------
    dict
        The classes of the rows, the clusters of the columns (noise, if there is any, last), the counts, and by cluster the
        class that it stands for: none where there are more clusters than classes. All values are of types that JSON takes.
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    classes, clusters = np.unique(gold), np.unique(predicted)
    counts = contingency_matrix(gold, predicted)
    grouped = np.flatnonzero(clusters != NOISE)
    matched, of = linear_sum_assignment(counts[:, grouped], maximize=True)
    of = grouped[of]
    order = np.argsort(-counts[matched, of], kind="stable")
    matched, of = matched[order], of[order]
    row_order = np.r_[matched, _others(len(classes), matched, counts.sum(axis=1))]
    column_order = np.r_[of, _others(len(clusters), of, np.where(clusters == NOISE, -1, counts.sum(axis=0)))]
    return {
        "rows": classes[row_order].tolist(),
        "columns": clusters[column_order].tolist(),
        "counts": counts[np.ix_(row_order, column_order)].tolist(),
        "match": {str(clusters[j]): int(classes[i]) for i, j in zip(matched, of, strict=True)},
    }


def _others(n: int, taken: Codes, sizes: NDArray[np.int64]) -> Codes:
    left = np.setdiff1d(np.arange(n), taken)
    return left[np.argsort(-sizes[left], kind="stable")]


def thin_out(groups: Codes, most: int = SHOWN) -> Codes:
    """Return positions of at most `most` items, int64, ascending; every group keeps its share."""
    if len(groups) <= most:
        return np.arange(len(groups))
    order = np.argsort(groups, kind="stable")
    return np.sort(order[np.linspace(0, len(order) - 1, most).astype(np.int64)])


def views(
    bench: Workbench, task: Task, protocol: Protocol | None, firsts: Sequence[Candidate], lookup: Lookup
) -> list[dict[str, Any]]:
    """Return the largest test split of each level as some models see it.

    Each model is shown by its best method under the protocol.

    Returns
    -------
    list of dict
        For each level: its split, the shown texts, gold labels, and by model points and clusters; and the counts of gold
        against found clusters over all texts of the split.
    """
    largest: dict[str, Split] = {}
    for split in task.test_splits(protocol.split_set if protocol else "default") if firsts else ():
        if split.level not in largest or split.size > largest[split.level].size:
            largest[split.level] = split

    level_views = []
    for split in largest.values():
        gold, names = np.zeros(split.size, np.int64), []
        if split.labels is not None:
            gold, names = pd.factorize(split.labels, sort=True)
        positions = thin_out(gold)
        models = [_seen(bench, task, split, protocol, candidate, gold, positions, lookup) for candidate in firsts]
        level_views.append(
            {
                "level": split.level,
                "split": split.split,
                "size": split.size,
                "texts": [shorten(text) for text in task.corpus["text"].to_numpy(dtype=object)[split.rows[positions]]],
                "classes": [str(name) for name in names],
                "gold": gold[positions].tolist() if split.labels is not None else [],
                "models": [seen for seen in models if seen is not None],
            }
        )
    return level_views


def shorten(text: str) -> str:
    """Return a text's beginning in one line."""
    line = " ".join(text[: 4 * CHARACTERS].split())
    return line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]} …"


def _seen(
    bench: Workbench,
    task: Task,
    split: Split,
    protocol: Protocol | None,
    candidate: Candidate,
    gold: Codes,
    positions: Codes,
    lookup: Lookup,
) -> dict[str, Any] | None:
    """Return a split as one model sees it; None if no clustering of the split is kept."""
    clusters = None  # the clusters that the first seed found
    for cell_id in candidate.cells:
        with suppress(TraubeError):  # damaged: the next run makes it again
            assignments = bench.storage.read_assignments(cell_id)
            split_rows = assignments[(assignments["split"] == split.split) & (assignments["level"] == split.level)]
            clusters = split_rows.set_index("item")["cluster"].reindex(split.items).to_numpy(np.int64)
            break
    if clusters is None:
        return None
    points, how = None, "UMAP"
    try:
        if (kept := _placed_by_umap(bench, task, split, protocol, candidate)) is not None:
            points = kept[positions]
        else:
            model = lookup.usable(candidate.model, protocol.precision if protocol else None)
            vectors = bench.vectors(task, model).subset(split.rows[positions]).load()
            points = place_texts(vectors)
    except TraubeError as error:
        how = str(error)
    places = [[], []] if points is None else [[round(float(value), 3) for value in axis] for axis in points[:, :2].T]
    seen: dict[str, Any] = {
        "model": candidate.model,
        "method": candidate.method,
        "how": how,
        "x": places[0],
        "y": places[1],
        "found": clusters[positions].tolist(),
        "noise": int((clusters == NOISE).sum()),
    }
    return seen if split.labels is None else seen | confusion(gold, clusters)


def _placed_by_umap(
    bench: Workbench, task: Task, split: Split, protocol: Protocol | None, candidate: Candidate
) -> Points | None:
    """Return the points of the whole split by UMAP, float32 [n, 2]; None if they are not kept.

    The points are those that were computed when the task was evaluated.
    """
    if protocol is None or "umap" not in protocol.reducers:
        return None
    numerics = bench.storage.read_cells(ids=candidate.cells).iloc[0]["numerics"]["model"]
    ids = task.corpus["text_id"].to_numpy(dtype=object)[split.rows]
    method = protocol.for_task(task.name).method(f"umap/{protocol.clusterers[0]}")
    for seed in protocol.seeds:
        if path := locate_reduction(bench.storage, candidate.fingerprint, numerics, method, seed, ids):
            points = open_matrix(path)
            return np.asarray(points[:, :2], dtype=np.float32) if points.shape[1] >= 2 else None
    return None
