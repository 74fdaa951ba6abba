"""Texts to clusters by deep clusterers, which train: in this process, one split at a time, or on the
GPUs of a cluster.

What a training that was stopped goes on from is kept in the data directory until its cell is.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from traube import components
from traube.components.deep import DeepClusterer
from traube.components.deep.augmentation import swapped_or_deleted
from traube.components.deep.encoding import Base
from traube.core import paths
from traube.core.files import locked
from traube.core.inputs import named
from traube.core.progress import Progress
from traube.models import Model, Vectors
from traube.models.augmentation import Augment, Contextual, Eda, Published, neighbours
from traube.pipeline.cell import Cell
from traube.pipeline.executors import Executor, Failure, failure
from traube.pipeline.units import Trained, Training
from traube.tasks import get_source
from traube.tasks.task import Split

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


@dataclass(frozen=True, eq=False)
class Asked:
    """A training that is asked for.

    Attributes
    ----------
    position : of the split in the task
    texts : gives the split's
    vectors : of the split
    work : folder of what it goes on from if it is stopped
    """

    cell: Cell
    position: int
    split: Split
    texts: Callable[[], Sequence[str]]
    vectors: Vectors
    work: Path

    def training(self, model: Model) -> Training:
        """What is to be done."""
        texts, labels, component = self.texts(), self.split.labels, components.get_clusterer(self.cell.method.clusterer)
        # `k: auto` is none of the recipe's values
        clusterer = component.build(
            **{n: v for n, v in self.cell.method.clusterer_params.items() if n in component.params}
        )
        if clusterer.augmentations:
            clusterer.augment = augmentation(clusterer, self.cell.task, texts, model)
        k = _number_of_clusters(self.cell, self.split, self.vectors)
        return Training(clusterer, texts, k, self.cell.seed or 0, None if labels is None else list(labels))


def run(
    asked: Sequence[Asked], model: Model, executor: Executor, progress: Progress
) -> Generator[tuple[Asked, Trained | Failure], None, None]:
    """Train, in this process one after the other, or on a cluster as many at once as it has GPUs; each
    with what became of it, as they end.
    """
    if not executor.trains(model, len(asked)):
        yield from ((one, _trained(one, model, progress)) for one in asked)
        return
    impossible: list[tuple[Asked, Failure]] = []
    with closing(executor.train(_sendable(asked, model, impossible), model, progress)) as outcomes:
        for one, outcome in outcomes:
            yield one, failure(outcome) if isinstance(outcome, BaseException) else outcome
    yield from impossible


def _trained(one: Asked, model: Model, progress: Progress) -> Trained | Failure:
    began = time.perf_counter()
    try:
        training = one.training(model)
        with locked(one.work):
            trained = training.run(cast(Base, model), one.work, progress)  # `unsupported` has refused others
    except Exception as error:  # whatever torch raises: the other cells go on
        return failure(error)
    return replace(trained, seconds=time.perf_counter() - began)


def _sendable(
    asked: Sequence[Asked], model: Model, impossible: list[tuple[Asked, Failure]]
) -> Iterator[tuple[Asked, Training, Path]]:
    """The trainings, as a cluster is given them: other texts are made here, where the task's files are."""
    for one in asked:
        try:
            training = one.training(model)
            clusterer = training.clusterer.with_texts_made(training.texts, training.seed)
            yield one, replace(training, clusterer=clusterer), one.work
        except Exception as error:
            impossible.append((one, failure(error)))


def _number_of_clusters(cell: Cell, split: Split, vectors: Vectors) -> int:
    """Of the split's classes, or of the card; what the vectors say where neither does, or where
    `k: auto` is asked for.
    """
    params, seed = cell.method.clusterer_params, cell.seed or 0
    if components.get_clusterer(cell.method.clusterer).chooses_k(params):
        return components.choose_stable_k(vectors.load(), seed)[0]
    return split.classes or cell.clusters or components.choose_k(vectors.load(), seed)[0]
