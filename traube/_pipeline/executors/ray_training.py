"""Trainings that processes of a Ray cluster do, each on a device of its own."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traube._core.disk import replacing
from traube._core.errors import Failed
from traube._core.progress import Progress
from traube._pipeline.executors.ray_errors import RETRIES, check, explain_error
from traube._pipeline.units import Trained, Training, picklable_errors
from traube.components.deep.clusterer import FILE
from traube.components.deep.encoding import InMemory
from traube.models import Transformer

LISTENS = 1.0  # seconds from news to news
BROUGHT = 60.0  # seconds between two states of a training that are sent to the driver
State = NDArray[np.uint8]  # the file that a training goes on from


class News(NamedTuple):
    """Progress that a training process reports."""

    steps: int
    done: int
    messages: Sequence[str]  # since the last time
    state: State | None  # None if it has not changed
    trained: Trained | None


class ToTrain(NamedTuple):
    """The parts of a model that a training process needs."""

    versions: dict[str, str]  # of the libraries
    encoder: Transformer
    fingerprint: str
    threads: int  # number of CPU threads: sums depend on it in their last digits


class _Work:
    """A training at work, in a thread, and the news of it that are still to be reported."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stopped = folder, Event()
        self._steps = self._done = 0
        self._messages: list[str] = []  # since the last time
        self._seen = 0  # modification time of the state that was reported last

    @picklable_errors
    def fit(self, model: ToTrain, network: Any, training: Training) -> Trained:
        """Train, with the encoder's network, whose files need not be here."""
        import torch

        check(model.versions)
        torch.set_num_threads(model.threads)
        encoder = model.encoder.with_network_of_elsewhere(network)
        base = InMemory(encoder.name, encoder.device, model.fingerprint, encoder.network)
        return training.run(base, self.folder, Progress(self._set_total, self._advance, self._messages.append))

    def _set_total(self, stage: str, amount: int) -> None:
        self._steps = amount

    def _advance(self, stage: str, amount: int) -> None:
        self._done += amount
        if self.stopped.is_set():
            raise Failed("stopped")

    def news(self, with_state: bool, trained: Trained | None = None) -> News:
        """Return what is new; with the file of the training, if it is another than the one that was reported last."""
        messages, self._messages[:] = list(self._messages), []
        state: State | None = None
        with suppress(FileNotFoundError):  # not written yet, or removed in the end
            if with_state and (written := (self.folder / FILE).stat().st_mtime_ns) != self._seen:
                state, self._seen = np.fromfile(self.folder / FILE, dtype=np.uint8), written
        return News(self._steps, self._done, messages, state, trained)


def train(
    model: ToTrain, network: Any, training: Training, state: State | None, between_states: float, between_news: float
) -> Iterator[News]:
    """Train, or go on from a state, and yield news of the training; in the end, its result."""
    with TemporaryDirectory(prefix="traube-") as folder, ThreadPoolExecutor(1) as thread:
        work, brought = _Work(Path(folder)), time.monotonic()
        if state is not None:
            state.tofile(work.folder / FILE)
        fitted = thread.submit(work.fit, model, network, training)
        try:
            while not wait([fitted], between_news).done:
                with_state = time.monotonic() - brought > between_states
                yield work.news(with_state)
                brought = time.monotonic() if with_state else brought
            yield work.news(True)
            yield work.news(False, fitted.result())
        finally:  # it was canceled, perhaps: the training ends at its next step, and its files with it
            work.stopped.set()


@dataclass
class _Begun:
    """A training that a process does."""

    name: Any  # the caller's name for the training
    training: Training
    work: Path  # folder of the state that it goes on from
    stream: Any = None  # of news
    lost: int = 0  # times that a process died of it


class Trainings:
    """Trainings that processes do: each calls `task`, which is `train` with the resources it is given of the cluster."""

    def __init__(self, ray: Any, task: Any, model: ToTrain, network: Any, progress: Progress) -> None:
        self._ray, self._task, self._model, self._network = ray, task, model, network
        self._progress = progress
        self._begun: list[_Begun] = []
        self._steps: dict[Any, tuple[int, int]] = {}  # total and completed steps of each training, ended or not
        self._reported = (0, 0)  # sums of these that were reported last

    def outcomes(
        self, trainings: Iterator[tuple[Any, Training, Path]], at_once: Callable[[], int]
    ) -> Iterator[tuple[Any, Trained | BaseException]]:
        """Yield the outcome of each training, under its name, as it ends; at once as many train as the cluster can do now."""
        try:
            while True:
                while len(self._begun) < max(1, at_once()) and (one := next(trainings, None)):
                    self._begun.append(_Begun(*one))
                    self._send(self._begun[-1])
                if not self._begun:
                    return
                [ready], _ = self._ray.wait([begun.stream for begun in self._begun], num_returns=1)
                begun = next(begun for begun in self._begun if begun.stream == ready)
                outcome = self._receive(begun)
                if outcome is not None:
                    self._begun.remove(begun)
                    yield begun.name, outcome
        finally:  # each ends at its next step, which removes its files, or in a second
            for begun in self._begun:
                self._ray.cancel(begun.stream)
            until = time.monotonic() + 1.0
            for begun in self._begun:
                with suppress(Exception):
                    while self._ray.wait([begun.stream], timeout=max(0.0, until - time.monotonic()))[0]:
                        self._ray.get(next(begun.stream))
                self._ray.cancel(begun.stream, force=True)

    def _send(self, begun: _Begun) -> None:
        begun.training.clusterer.seconds_between_saves = BROUGHT
        file = begun.work / FILE
        state = np.fromfile(file, dtype=np.uint8) if file.exists() else None
        begun.stream = self._task.remote(self._model, self._network, begun.training, state, BROUGHT, LISTENS)

    def _receive(self, begun: _Begun) -> Trained | BaseException | None:
        """Keep what is new, and report it; return the outcome of a training that has ended."""
        from ray.exceptions import LocalRayletDiedError, NodeDiedError, WorkerCrashedError

        try:
            news: News = self._ray.get(next(begun.stream))
        except Exception as error:
            has_died = isinstance(error, LocalRayletDiedError | NodeDiedError | WorkerCrashedError)
            if has_died and begun.lost < RETRIES:
                begun.lost += 1
                self._send(begun)
                return None
            return explain_error(error)
        if news.state is not None:
            with replacing(begun.work / FILE) as temporary:
                news.state.tofile(temporary)
        self._steps[begun.name] = news.steps, news.done
        steps, done = map(sum, zip(*self._steps.values(), strict=True))
        if steps != self._reported[0] or done < self._reported[1]:  # another has begun, or one begins again
            self._progress.total("steps", steps)
            self._reported = (steps, 0)
        self._progress.done("steps", done - self._reported[1])
        self._reported = (steps, done)
        for message in news.messages:
            self._progress.said(message)
        return news.trained
