"""Texts to clusters by a deep clusterer: it trains in this process, where the GPU is, one split at a
time.

What a training that was stopped goes on from is kept in the store until its cell is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traube import methods
from traube.augment import Augment, Contextual, Eda, Published, neighbours
from traube.benchmark.plan import Cell
from traube.deep import DeepClusterer
from traube.deep.augmentation import swapped_or_deleted
from traube.engine import workers
from traube.engine.progress import Progress
from traube.engine.schedule import Failure
from traube.foundation import paths
from traube.foundation.errors import TraubeError
from traube.foundation.files import locked
from traube.foundation.inputs import named
from traube.models import Model, Vectors
from traube.tasks import get_source
from traube.tasks.task import Split

Labels = NDArray[np.int64]
Points = NDArray[np.float32]
PICTURED = 1_000  # texts of a split whose representations are kept

# What a recipe's `augmentation` names, from a task's name, the texts and the encoder; beside these, `contextual:FOLDER`.
AUGMENTATIONS: Mapping[str, Callable[[str, Sequence[str], Model], Augment]] = {
    "eda": lambda task, texts, model: Eda(neighbours(texts, model)),
    "order": lambda task, texts, model: swapped_or_deleted,
    "published": lambda task, texts, model: Published(get_source(task).augmented()),
}


def augmentation(clusterer: DeepClusterer[Any], task: str, texts: Sequence[str], model: Model) -> Augment:
    """What makes a clusterer's other texts, as its recipe says."""
    kind, _, folder = clusterer.recipe.augmentation.partition(":")
    if kind == "contextual":
        return Contextual(named(paths.checkpoints(), folder), clusterer.substituted)
    return AUGMENTATIONS[kind](task, texts, model)


def unsupported(cell: Cell, model: Model | None) -> str | None:
    """Why a model is nothing that a deep clusterer can train, in one line; None if it is."""
    if model is not None and model.trainable:
        return None
    return f"{cell.method.clusterer} trains an encoder, and {cell.model} is none: use a sentence-transformers model"


@dataclass(frozen=True)
class Trained:
    """What came of a training on a split.

    Attributes
    ----------
    labels : int64 [n]
    seconds : that it took
    history : an entry for each epoch
    became : what the texts that `pictured` names have become, float32; None if nothing was trained
    """

    labels: Labels
    seconds: float
    history: list[dict[str, float]]
    became: Points | None


def pictured(n: int) -> NDArray[np.int64]:
    """The texts, of n, whose representations are kept: the same for every cell, int64 [m], ascending."""
    return np.sort(np.random.default_rng(0).permutation(n)[:PICTURED])


def train(
    cell: Cell, split: Split, texts: Sequence[str], vectors: Vectors, model: Model, work: Path, progress: Progress
) -> Trained | Failure:
    """Train on a split.

    Parameters
    ----------
    texts, vectors : of the split
    work : folder of what a stopped training goes on from
    """
    part = methods.get_clusterer(cell.method.clusterer)
    began = time.perf_counter()
    try:
        # `k: auto` is none of the recipe's values
        clusterer = part.build(**{n: v for n, v in cell.method.clusterer_params.items() if n in part.params})
        if clusterer.augmentations:
            clusterer.augment = augmentation(clusterer, cell.task, texts, model)
        k = _number_of_clusters(cell, split, vectors)
        with locked(work):
            labels = clusterer.fit_predict(texts, k, model, cell.seed or 0, work, progress, split.labels)
    except TraubeError as error:
        return Failure("failed", str(error))
    except Exception as error:  # whatever torch raises: the other cells go on
        return Failure("failed", workers.reason(error))
    seconds, became = time.perf_counter() - began, clusterer.representations()
    return Trained(labels, seconds, clusterer.history, None if became is None else became[pictured(split.size)])


def _number_of_clusters(cell: Cell, split: Split, vectors: Vectors) -> int:
    """Of the split's classes, or of the card; what the vectors say where neither does, or where
    `k: auto` is asked for.
    """
    params, seed = cell.method.clusterer_params, cell.seed or 0
    if methods.get_clusterer(cell.method.clusterer).chooses_k(params):
        return methods.choose_stable_k(vectors.load(), seed)[0]
    return split.classes or cell.clusters or methods.choose_k(vectors.load(), seed)[0]
