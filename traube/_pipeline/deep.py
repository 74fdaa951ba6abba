"""Texts to clusters by deep clusterers, which train: here, one split at a time, or on the GPUs of a cluster."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from traube import components
from traube._core.files import locked
from traube._core.progress import Progress
from traube._pipeline.cell import Cell
from traube._pipeline.executors import Executor, Failure, failure
from traube._pipeline.units import Trained, Training
from traube.components import Method, VectorView
from traube.components.deep.encoding import Base
from traube.components.fitting import decide_n_clusters
from traube.models import Model, Vectors
from traube.tasks.task import Split


@dataclass(frozen=True, eq=False)
class TrainingRequest:
    """A requested training on a split."""

    cell: Cell[Method]
    position: int  # of the split in the task
    split: Split
    texts: Callable[[], Sequence[str]]
    vectors: Vectors
    work: Path  # folder of what it goes on from if it is stopped

    def training(self, model: Model) -> Training:
        """Return the training to be done.

        The vectors determine k if neither split nor card does, or if `k: auto` is requested.
        """
        texts, labels, seed = self.texts(), self.split.labels, self.cell.seed or 0
        params, component = self.cell.method.clusterer_params, components.get_clusterer(self.cell.method.clusterer)
        # `k: auto` is none of the recipe's values
        clusterer = component.build(**{name: value for name, value in params.items() if name in component.params})
        if clusterer.augmentations:
            clusterer.augment = clusterer.make_augmenter(self.cell.task, texts, model)
        known = self.cell.count_clusters(self.split)
        k, _ = decide_n_clusters(component, params, VectorView(self.vectors.load()), known, seed)
        assert k is not None, "a clusterer that trains is given the number of clusters"
        return Training(clusterer, texts, k, seed, None if labels is None else list(labels))


def run(
    requests: Sequence[TrainingRequest], model: Model, executor: Executor, progress: Progress
) -> Generator[tuple[TrainingRequest, Trained | Failure], None, None]:
    """Train, and yield each training with its outcome.

    Here one trains after the other; on a cluster, as many at once as it has GPUs.
    """
    if not executor.trains(model, len(requests)):
        yield from ((request, _train(request, model, progress)) for request in requests)
        return
    impossible: list[tuple[TrainingRequest, Failure]] = []

    def make_trainings() -> Iterator[tuple[TrainingRequest, Training, Path]]:
        for request in requests:
            try:
                training = request.training(model)
                # other texts are made here, where the task's files are
                clusterer = training.clusterer.augment_beforehand(training.texts, training.seed)
                yield request, replace(training, clusterer=clusterer), request.work
            except Exception as error:
                impossible.append((request, failure(error)))

    with closing(executor.train(make_trainings(), model, progress)) as outcomes:
        for request, outcome in outcomes:
            yield request, failure(outcome) if isinstance(outcome, BaseException) else outcome
    yield from impossible


def _train(request: TrainingRequest, model: Model, progress: Progress) -> Trained | Failure:
    began = time.perf_counter()
    try:
        training = request.training(model)
        with locked(request.work):
            # `traube._pipeline.cluster` has refused models that are no `Base`
            trained = training.run(cast(Base, model), request.work, progress)
    except Exception as error:  # whatever torch raises: the other cells go on
        return failure(error)
    return replace(trained, seconds=time.perf_counter() - began)
