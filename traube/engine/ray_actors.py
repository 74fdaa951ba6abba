"""Processes of a Ray cluster that hold a model: they encode shares of the texts, or train.

Each end has a class: `Shares` and `Trainings` are of the process that asks, `Holder` and `Trainer` of
those that do. Where these may run, and what is set aside for them, is said by
`traube.engine.ray_cluster`.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traube.deep.encoding import InMemory
from traube.deep.work import FILE
from traube.engine.progress import Progress
from traube.engine.ray_errors import check, in_words
from traube.engine.units import Trained, Training, sent_whole
from traube.foundation.errors import TraubeError
from traube.foundation.files import atomic
from traube.models import Transformer
from traube.models.vectors import Dense

RETRIES = 3  # of what is lost because a node or a process died
LISTENS = 1.0  # seconds between two looks at a training
BROUGHT = 60.0  # seconds between two states of a training that are brought here


# encoding


class Shares:
    """Texts that are encoded by processes which hold a model.

    Parameters
    ----------
    kind : `Holder`, with what it is to be given of the cluster
    model : what its `load` takes
    shares : positions, and the texts there
    """

    def __init__(
        self, ray: Any, kind: Any, model: tuple[Any, ...], shares: Sequence[tuple[NDArray[np.int64], list[str]]]
    ) -> None:
        self._ray, self._kind, self._model, self._shares = ray, kind, model, shares
        self._waiting = deque(range(len(shares)))
        self._lost: Counter[int | None] = Counter()  # times that a share, or the model, was
        self._holders: dict[Any, tuple[Any, int | None]] = {}  # by what is awaited of them: the holder, and its share

    def done(self, holders: int) -> Iterator[tuple[NDArray[np.int64], list[tuple[NDArray[np.int64], Dense]]]]:
        """Each share's positions and batches, as they are ready."""
        for _ in range(holders):
            self._start()
        unfinished = len(self._shares)
        while unfinished:
            [ready], _ = self._ray.wait(list(self._holders), num_returns=1)
            holder, share = self._holders.pop(ready)
            try:
                batches = self._ray.get(ready)
            except Exception as error:
                self._again(share, error)
                continue
            self._give(holder)
            if share is not None:
                unfinished -= 1
                yield self._shares[share][0], batches

    def _start(self) -> None:
        """A process has no share until it has begun: one that finds no room would keep it for good."""
        holder = self._kind.remote()
        self._holders[holder.load.remote(*self._model)] = holder, None

    def _give(self, holder: Any) -> None:
        if self._waiting:
            share = self._waiting.popleft()
            self._holders[holder.encode.remote(self._shares[share][1])] = holder, share
        else:
            self._ray.kill(holder)  # others may need its room

    def _again(self, share: int | None, error: Exception) -> None:
        """Have another process do what one died of: a few times, since it may be the share's fault."""
        if not _died(error) or self._lost[share] == RETRIES:
            raise in_words(error) from None
        self._lost[share] += 1
        if share is not None:
            self._waiting.append(share)
        self._start()

    def end(self) -> None:
        for holder, _ in self._holders.values():
            self._ray.kill(holder)


class Holder:
    """Holds a model where it computes."""

    encoder: Transformer

    def load(self, versions: dict[str, str], encoder: Transformer, network: Any) -> None:
        check(versions)
        self.encoder = encoder.with_network_of_elsewhere(network)

    def encode(self, texts: list[str]) -> list[tuple[NDArray[np.int64], Dense]]:
        return list(self.encoder.encode_batches(texts))


# training


class News(NamedTuple):
    """What a process that trains tells of it.

    Attributes
    ----------
    steps, done : how many there are, and are done
    said : how it has gone since the last time
    state : the file that the training goes on from, uint8; None where it is as it was
    """

    steps: int
    done: int
    said: list[str]
    state: NDArray[np.uint8] | None


class Trainer:
    """Trains where it computes, and is asked for news meanwhile."""

    def __init__(self) -> None:
        self._ended, self._stopped = threading.Event(), threading.Event()
        self._steps = self._done = 0
        self._said: list[str] = []  # since the last time
        self._folder: Path | None = None
        self._seen = 0  # when the state was written that was told last
        self._last: NDArray[np.uint8] | None = None

    @sent_whole
    def fit(
        self,
        versions: dict[str, str],
        encoder: Transformer,
        fingerprint: str,
        network: Any,
        training: Training,
        state: NDArray[np.uint8] | None,
        threads: int,
    ) -> Trained:
        """Train, or go on from a state.

        Parameters
        ----------
        network : the encoder's, whose files need not be here
        threads : that a CPU computes with. Sums depend on them in their last digits
        """
        import torch

        check(versions)
        torch.set_num_threads(threads)
        model = encoder.with_network_of_elsewhere(network)
        base = InMemory(model.name, model.device, fingerprint, model.network)
        with TemporaryDirectory(prefix="traube-") as folder:
            self._folder = Path(folder)
            if state is not None:
                state.tofile(self._folder / FILE)
            try:
                return training.run(base, self._folder, Progress(self._total, self._advance, self._tell))
            finally:
                self._last = self._state()
                self._folder = None
                self._ended.set()

    def _total(self, stage: str, amount: int) -> None:
        self._steps = amount

    def _advance(self, stage: str, amount: int) -> None:
        self._done += amount
        if self._stopped.is_set():
            raise TraubeError("stopped")

    def _tell(self, words: str) -> None:
        self._said.append(words)

    def news(self, seconds: float, with_state: bool) -> News:
        """What is new after so many seconds, or when the training has ended."""
        self._ended.wait(seconds)
        said, self._said = self._said, []
        state = self._last if self._ended.is_set() else self._state() if with_state else None
        return News(self._steps, self._done, said, state)

    def _state(self) -> NDArray[np.uint8] | None:
        """The file of the training, if it is another than the one that was told last."""
        folder = self._folder
        try:
            if folder is None or (written := (folder / FILE).stat().st_mtime_ns) == self._seen:
                return None
            state = np.fromfile(folder / FILE, dtype=np.uint8)
        except FileNotFoundError:  # not written yet, or removed in the end
            return None
        self._seen = written
        return state

    def stop(self) -> None:
        """Have the training end at its next step, which removes its files."""
        self._stopped.set()


@dataclass
class _Begun:
    """A training that a process does.

    Attributes
    ----------
    name : whoever asked knows it by this
    work : folder of what it goes on from
    fitted, heard : what is awaited of the process: the outcome, and the next news
    brought : when a state came last
    lost : how often a process died of it
    """

    name: Any
    training: Training
    work: Path
    process: Any = None
    fitted: Any = None
    heard: Any = None
    steps: int = 0
    done: int = 0
    brought: float = 0.0
    lost: int = 0


class Trainings:
    """Trainings that processes do, each on a device of its own.

    Parameters
    ----------
    kind : `Trainer`, with what it is to be given of the cluster
    model : what `fit` takes before the training
    threads : what it takes in the end
    """

    def __init__(self, ray: Any, kind: Any, model: tuple[Any, ...], threads: int, progress: Progress) -> None:
        self._ray, self._kind, self._model, self._threads = ray, kind, model, threads
        self._progress = progress
        self._begun: list[_Begun] = []
        self._over = (0, 0)  # steps of trainings that have ended: in all, and done
        self._told = (0, 0)  # of all

    def outcomes(
        self, asked: Iterator[tuple[Any, Training, Path]], at_once: Callable[[], int]
    ) -> Iterator[tuple[Any, Trained | BaseException]]:
        """What became of each training, under its name, as they end.

        Parameters
        ----------
        asked : name, training, and the folder here of what it goes on from
        at_once : how many the cluster can do, as it is now
        """
        while True:
            while len(self._begun) < max(1, at_once()) and (one := next(asked, None)):
                self._begun.append(self._sent(_Begun(*one)))
            if not self._begun:
                return
            awaited = {ref: begun for begun in self._begun for ref in (begun.fitted, begun.heard) if ref}
            [ready], _ = self._ray.wait(list(awaited), num_returns=1)
            begun = awaited[ready]
            if ready == begun.heard:
                self._hear(begun)
                continue
            outcome = self._outcome(begun)
            if outcome is not None:
                yield begun.name, outcome

    def _sent(self, begun: _Begun) -> _Begun:
        begun.training.clusterer.seconds_between_saves = BROUGHT
        file = begun.work / FILE
        state = np.fromfile(file, dtype=np.uint8) if file.exists() else None
        begun.process = self._kind.remote()
        begun.fitted = begun.process.fit.remote(*self._model, begun.training, state, self._threads)
        begun.brought = time.monotonic()
        self._ask(begun)
        return begun

    def _ask(self, begun: _Begun) -> None:
        begun.heard = begun.process.news.remote(LISTENS, time.monotonic() - begun.brought > BROUGHT)

    def _hear(self, begun: _Begun) -> None:
        """Keep what is new, and tell it. That a process died is told by `fitted` too."""
        try:
            news: News = self._ray.get(begun.heard)
        except Exception:
            begun.heard = None
            return
        if news.state is not None:
            with atomic(begun.work / FILE) as temporary:
                news.state.tofile(temporary)
            begun.brought = time.monotonic()
        begun.steps, begun.done = news.steps, news.done
        self._tell()
        for words in news.said:
            self._progress.said(words)
        self._ask(begun)

    def _tell(self) -> None:
        steps, done = self._over
        steps, done = steps + sum(b.steps for b in self._begun), done + sum(b.done for b in self._begun)
        if steps != self._told[0] or done < self._told[1]:  # another has begun, or one begins again
            self._progress.total("steps", steps)
            self._told = (steps, 0)
        self._progress.done("steps", done - self._told[1])
        self._told = (steps, done)

    def _outcome(self, begun: _Begun) -> Trained | BaseException | None:
        """What became of a training that has ended; None if it was begun again."""
        try:
            outcome: Trained | BaseException = self._ray.get(begun.fitted)
        except Exception as error:
            if _died(error) and begun.lost < RETRIES:
                begun.lost += 1
                self._sent(begun)
                return None
            outcome = in_words(error)
        for _ in range(2):  # what is on its way, and what came after
            if begun.heard:
                self._hear(begun)
        self._ray.kill(begun.process)
        self._begun.remove(begun)
        self._over = (self._over[0] + begun.steps, self._over[1] + begun.done)
        return outcome

    def end(self) -> None:
        """End those that are under way."""
        for begun in self._begun:
            begun.process.stop.remote()
        if self._begun:
            self._ray.wait([begun.fitted for begun in self._begun], num_returns=len(self._begun), timeout=1.0)
        for begun in self._begun:
            self._ray.kill(begun.process)


def _died(error: BaseException) -> bool:
    from ray.exceptions import RayActorError

    return isinstance(error, RayActorError)
