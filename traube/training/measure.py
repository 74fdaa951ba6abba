"""The watched score of a network while it is trained: the engine's, of the network as it is at a step."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traube.models.base import BatchEncoder
from traube.models.transformer import Transformer
from traube.pipeline.evaluate import evaluate_cells
from traube.pipeline.executors import Executor
from traube.pipeline.params import Protocol
from traube.pipeline.plan import cells
from traube.tasks.task import Task

Blocks = Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]


class Snapshot(BatchEncoder):
    """A network as it is at a step, as the engine wants a model.

    Parameters
    ----------
    base : the model from which the training started
    """

    weight_bytes = 0  # the network is in memory

    def __init__(self, base: Transformer, step: int) -> None:
        self.name = base.name
        self.card = base.card
        self.device = base.device
        self.precision = base.precision
        self.fingerprint = f"step-{step}"
        self.numerics: Mapping[str, str] = base.numerics

    def load(self) -> int:
        """The bytes that had to be brought into memory: none, the network is there."""
        return 0


class NetworkAtStep(Snapshot):
    """A sentence-transformers network that is being trained."""

    def __init__(self, base: Transformer, network: Any, step: int) -> None:
        super().__init__(base, step)
        self._model = base.with_network(network)

    def encode_batches(self, texts: Sequence[str]) -> Blocks:
        return self._model.encode_batches(texts)


def mean_score(task: Task, model: Snapshot, protocol: Protocol, metric: str, executor: Executor | None = None) -> float:
    """The unweighted mean of a metric over the task's test splits."""
    with TemporaryDirectory(prefix="traube-") as folder:
        scores, _ = evaluate_cells(task, model, cells(task, model, protocol), Path(folder), executor)
    return float(scores.loc[scores["metric"] == metric, "value"].mean())
