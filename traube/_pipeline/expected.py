"""Expected cost of missing cells, reported before they are computed: their time, and the tasks where k-means is slow."""

import timeit
from collections.abc import Iterable, Mapping, Sequence

from traube._pipeline.cell import Cell
from traube._pipeline.embed import open_cache
from traube._pipeline.kinds import kind_of
from traube._storage import Storage
from traube._storage.costs import get_cost
from traube.components import get_clusterer, get_reducer
from traube.models import load_model, model_cards, split_cut
from traube.models.endpoint import Endpoint
from traube.tasks.stored import get_manifest, read_ingested, read_task
from traube.tasks.task import CLUSTERING_STAGES, Split, Stage

WORTH_SAYING = 60.0  # seconds of a core
SPARSE = ("bow", "tfidf", "tokens")

# Measured for 20 cells of two tasks and four models on two cores (Xeon at 2.8 GHz), where SUM took SUM_SECONDS.
SUM, SUM_SECONDS = "sum(range(100_000))", 0.0024
ENCODING = 2.8e-12  # seconds of a core for each token and byte of weights
ON_GPU = 0.01  # ratio of the time on a GPU to that
TOKENS, CHARACTERS = 256, 4  # tokens of a text that a model reads, at most; characters of a token
SCORING = 0.02  # seconds of a core for each split and cell
AROUND = 2.5  # seconds, of one core alone, that each task and model takes besides


def estimate_run_seconds(storage: Storage, missing: Mapping[str, Mapping[str, Sequence[Cell]]], cores: int) -> float:
    """Return about how long missing cells take here, right within a factor of two or so. Trainings are not counted."""
    seconds, pairs = 0.0, 0
    splits: dict[str, list[Split]] = {}
    for model, by_task in missing.items():
        for task, cells in by_task.items():
            if get_manifest(storage, task) is None or cells[0].stage not in CLUSTERING_STAGES:
                continue
            if task not in splits:
                splits[task] = list(read_task(storage, task).test_splits(cells[0].split_set))
            pairs += 1
            seconds += _estimate_encoding(storage, model, cells[0]) + _estimate_clustering(splits[task], cells)
    fastest = min(timeit.repeat(SUM, number=1, repeat=5))
    return (seconds / cores + AROUND * pairs) * fastest / SUM_SECONDS


def _estimate_encoding(storage: Storage, name: str, cell: Cell) -> float:
    """Return the seconds of a core for the texts of a cell's task, if they are not encoded yet."""
    model = load_model(name)
    if not model.encoder.weight_bytes or get_cost(storage, cell.task, cell.fingerprint):
        return 0.0
    lengths = read_ingested(storage, cell.task, "corpus")["text"].str.len()
    tokens = (lengths / CHARACTERS).clip(upper=model.card.max_length or TOKENS).sum()
    return float(tokens) * model.encoder.weight_bytes * ENCODING * (1 if model.device == "cpu" else ON_GPU)


def _estimate_clustering(splits: Sequence[Split], cells: Iterable[Cell]) -> float:
    """Return the seconds of a core for all splits; cells share reductions."""
    texts = sum(split.size for split in splits)
    plain = [cell for cell in cells if cell.stage is Stage.CLUSTERINGS]
    reductions = {(cell.method.reducer, str(cell.method.params()["reducer_params"]), cell.seed) for cell in plain}
    seconds = sum(texts * get_reducer(name).pace for name, _, _ in reductions)
    for cell in plain:
        clusterer = get_clusterer(cell.method.clusterer)
        seconds += texts * clusterer.pace + SCORING * len(splits)
        seconds += sum(clusterer.estimate_seconds(split.size, split.classes, False) for split in splits)
    return seconds


def describe_sending(storage: Storage, missing: Mapping[str, Mapping[str, Sequence[Cell]]]) -> list[str]:
    """Return a line for each model behind an endpoint: what its missing cells would send, and the cost."""
    lines = []
    for name, by_task in missing.items():
        model = load_model(name)
        if not isinstance(model, Endpoint):
            continue
        texts: dict[str, None] = {}
        for task in by_task:
            read = read_task(storage, task)
            texts |= dict.fromkeys(kind_of(read.card).list_texts(read))
        rows = open_cache(storage, model).find_rows(list(texts))
        absent = [text for text, row in zip(texts, rows, strict=True) if row < 0]
        lines += [model.describe_sending(absent)] if absent else []
    return lines


def describe_slow_cells(storage: Storage, cells: Iterable[Cell]) -> list[str]:
    """Return a line for each task whose missing cells take more than a minute because of its many classes."""
    kinds = {name: card.kind for name, card in model_cards().items()}
    sizes: dict[str, list[tuple[int, int]]] = {}  # texts and classes of each split and level that is scored
    seconds: dict[str, float] = {}
    for cell in cells:
        if cell.stage not in CLUSTERING_STAGES:
            continue
        clusterer = get_clusterer(cell.method.clusterer)
        if not any(clusterer.seconds):
            continue
        if cell.task not in sizes:
            is_stored = get_manifest(storage, cell.task) is not None
            splits = read_task(storage, cell.task).test_splits() if is_stored else ()
            sizes[cell.task] = [(split.size, cell.count_clusters(split) or 0) for split in splits]
        is_sparse = kinds.get(split_cut(cell.model)[0]) in SPARSE and cell.method.reducer == "none"
        spent = sum(clusterer.estimate_seconds(n, k, is_sparse) for n, k in sizes[cell.task])
        seconds[cell.task] = seconds.get(cell.task, 0.0) + spent
    return [
        f"{task}: {max(n for n, _ in sizes[task]):,} texts in {max(k for _, k in sizes[task]):,} classes: "
        f"k-means of its missing cells takes about {total / 60:,.0f} minutes of one core"
        for task, total in seconds.items()
        if total > WORTH_SAYING
    ]
