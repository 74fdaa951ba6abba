"""The base class of deep clusterers, which train on one task's texts, without labels, and group them.

The code that all share is here: recipes, the loop over epochs, resuming, the history. Each clusterer defines its
training as a `Fit`: the loss of a batch, and the final labels.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np
from pydantic import Field

from traube._core.disk import replacing
from traube._core.errors import Failed, Invalid, Missing, TooFew
from traube._core.hashing import digest
from traube._core.progress import SILENT, Progress
from traube._core.recipes import Recipe, RecipeMixin
from traube._core.versions import get_versions
from traube.components.deep.augmentation import Augment, swap_or_delete
from traube.components.deep.encoding import Base, Rows
from traube.components.deep.grouping import Labels, Points
from traube.components.spherical import renumber

if TYPE_CHECKING:
    from torch import Tensor

Entry: TypeAlias = dict[str, float]
Views: TypeAlias = Sequence[Sequence[str]]  # the texts, then their augmentations

FILE = "training.pt"  # the state that a stopped training resumes from
SHOWN = ("acc", "nmi", "loss")  # values that fit beside a progress bar
LIBRARIES = ("torch", "transformers", "sentence-transformers", "scikit-learn", "numpy")


class DeepRecipe(Recipe):
    """Recipe of a training.

    Each deep clusterer has its paper's values as defaults, in a class of its own.
    """

    batch: int = Field(ge=2, le=100_000, description="texts at once")


R = TypeVar("R", bound=DeepRecipe)


@dataclass
class BatchResult:
    """Result of a batch."""

    loss: "Tensor"  # the minimized loss
    parts: dict[str, "Tensor"] = field(default_factory=dict)  # summands of the loss, by name
    # cluster of each text as the batch sees it, int64 [n]; None where there is none yet
    predicted: "Tensor | None" = None
    points: "Tensor | None" = None  # representations of the texts, [n, d], for the history
    more: dict[str, "Tensor"] = field(default_factory=dict)  # numbers by name that the history keeps too


class Fit(ABC, Generic[R]):
    """One training as it is before the first epoch.

    Random numbers are drawn from torch, which is seeded.

    Parameters
    ----------
    views : sequence of sequence of str
        The texts, then as many augmentations as the training learns from.
    k : int
        Number of clusters.

    Attributes
    ----------
    n : int
        Number of texts.
    modules : torch.nn.Module
        All modules that learn.
    optimizer : torch.optim.Optimizer
        Optimizer of the modules.
    memory : dict
        Further state that a training resumes from: numbers, and tensors by name. If `settled` is true, there is
        nothing more to be learned, whatever the number of epochs.
    """

    modules: Any
    optimizer: Any
    memory: dict[str, Any]

    def __init__(self, recipe: R, views: Views, k: int, base: Base, seed: int) -> None:
        self.recipe, self.n, self.k, self.seed = recipe, len(views[0]), k, seed
        self.prepare(views, base)

    @abstractmethod
    def prepare(self, views: Views, base: Base) -> None:
        """Make the modules, their optimizer and the memory."""

    def resume(self) -> None:
        """Bring the optimizer in line with the memory, before the state of a stopped training is restored."""

    def begin_epoch(self, epoch: int) -> None:
        """Prepare an epoch before its first batch, for example by choosing targets."""

    @abstractmethod
    def step(self, epoch: int, rows: Rows) -> BatchResult:
        """Return the loss of a batch."""

    def settle(self, labels: "Tensor", settled: float) -> None:
        """Remember labels, and whether so small a share of them changed that the training ends."""
        before = self.memory.get("labels")
        if before is not None:
            self.memory["settled"] = float((labels != before).float().mean()) < settled
        self.memory["labels"] = labels

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Switch off dropout and gradients until the next batch."""
        import torch

        self.modules.eval()
        with torch.no_grad():
            yield

    def compare(self, gold: Labels, step: BatchResult) -> Entry:
        """Compare a batch with its gold labels, for the history: the mean cosine of two texts of a class."""
        import torch
        from torch.nn import functional

        if step.points is None:
            return {}
        unit = functional.normalize(step.points.detach().float(), dim=1)
        codes = torch.from_numpy(gold)
        others = (codes[:, None] == codes[None, :]) & ~torch.eye(len(gold), dtype=torch.bool)
        cosines = (unit @ unit.T)[others.to(unit.device)]
        return {"same_class_similarity": float(cosines.mean())} if len(cosines) else {}

    @abstractmethod
    def labels(self) -> Labels:
        """Return the clusters of the texts, int64 [n]."""

    @abstractmethod
    def representations(self) -> "Tensor":
        """Return the learned representations of the texts, [n, d], by which the clusters differ."""

    @abstractmethod
    def predict(self, texts: Sequence[str]) -> Labels:
        """Return the clusters that other texts join, int64 [n]."""


class TrainingState:
    """The state that a stopped training resumes from: one file, written atomically.

    Parameters
    ----------
    folder : Path
        Folder of the file.
    identity : mapping
        Inputs that determine the result; a file with another identity is not resumed from.
    seconds : float
        Seconds between two writes, except the last one.
    """

    def __init__(self, folder: Path, identity: str, device: str, seconds: float) -> None:
        self.path, self.identity, self.device, self.seconds = folder / FILE, identity, device, seconds
        self.written = time.monotonic()

    def restore(self, fit: Any) -> list[dict[str, float]]:
        """Restore a training, a `Fit`, to where it was stopped; return the history so far, empty if there is none.

        A file that is corrupt, or of another training, counts as absent.
        """
        import torch

        try:
            kept = torch.load(self.path, map_location=self.device, weights_only=True)
        except Exception:  # the file is absent, or corrupt: torch raises many kinds
            return []
        if not isinstance(kept, dict) or kept.get("identity") != self.identity:
            return []
        fit.modules.load_state_dict(kept["modules"])
        fit.memory = kept["memory"]
        fit.resume()
        fit.optimizer.load_state_dict(kept["optimizer"])
        return list(kept["history"])

    def save(self, fit: Any, history: list[dict[str, float]], last: bool) -> None:
        """Write the progress of a training, if the last write was long ago."""
        import torch

        if not last and time.monotonic() - self.written < self.seconds:
            return
        state = {"modules": fit.modules.state_dict(), "optimizer": fit.optimizer.state_dict(), "memory": fit.memory}
        with replacing(self.path) as temporary:
            torch.save({**state, "identity": self.identity, "history": history}, temporary)
        self.written = time.monotonic()


def make_even_batches(rows: Rows, batch: int) -> list[Rows]:
    """Return rows in their order, in as few batches as possible, whose sizes differ by one at most.

    No batch is left with a text or two, which would have nothing to differ from.
    """
    return np.array_split(rows, math.ceil(len(rows) / batch))


class DeepClusterer(RecipeMixin[R]):
    """Base class of clusterers that train on the texts of one clustering problem, without labels, and group them.

    Parameters
    ----------
    recipe : DeepRecipe, optional
        By default the paper's.
    augment : Augment, optional
        Makes another text of each text, from texts and a seed; by default random words are swapped or left out.

    Attributes
    ----------
    augmentations : int
        Number of augmentations of each text that the clusterer learns from.
    seconds_between_saves : float
        Most seconds of work that a kill loses, or an epoch if that takes longer.
    history : list of Entry
        Of the last fit, an entry for each epoch: its losses by name, `clusters` (that were predicted), `changed`
        (share of texts whose cluster is another than an epoch before) and, where labels were given, scores against
        them.
    """

    training: ClassVar[type[Fit[Any]]]  # all that is trained
    augmentations: ClassVar[int] = 0
    seconds_between_saves: float = 10.0

    def __init__(self, recipe: R | None = None, augment: Augment = swap_or_delete) -> None:
        super().__init__(recipe)
        self.augment = augment
        self.history: list[Entry] = []
        self._fit: Fit[R] | None = None

    @abstractmethod
    def epochs(self, n: int) -> int:
        """Return the number of passes over n texts."""

    def fit_predict(
        self,
        texts: Sequence[str],
        k: int,
        base: Base,
        seed: int,
        work: Path,
        progress: Progress = SILENT,
        labels: Sequence[str] | None = None,
    ) -> Labels:
        """Train, or resume a training that was stopped, and group the texts.

        Parameters
        ----------
        k : int
            Number of clusters.
        base : Base
            Encoder to start from; the encoder itself is not changed.
        seed : int
            Seed; the same texts, recipe, encoder and seed give the same clusters on one machine.
        work : Path
            Folder of the state that a stopped training resumes from; the caller removes it.
        labels : sequence of str, optional
            Gold labels, for the history alone: nothing is learned from them.

        Returns
        -------
        int64 [n]
            A single text, or k = 1, leaves nothing to decide: all zeros.

        Raises
        ------
        TraubeError
            If there are no texts, k is below 1 or above their number, or a loss is not finite.
        """
        texts = list(texts)
        if not texts:
            raise TooFew(f"{self.name}: there are no texts to group")
        if not 1 <= k <= len(texts):
            raise Invalid(f"{self.name}: cannot make {k} clusters of {len(texts)} texts: give at most {len(texts)}")
        if k == 1 or len(texts) == 1:
            self.history, self._fit = [], None
            return np.zeros(len(texts), dtype=np.int64)
        views = [texts, *self._augment(texts, seed)]
        with _seed(seed, -1, base.device):
            fit = self.training(self.recipe, views, k, base, seed)

        used = [digest([list(view) for view in views]), k, base.fingerprint, seed, base.device]
        recipe = self.recipe.model_dump(mode="json")
        identity = digest([self.name, self.version, recipe, used, get_versions(LIBRARIES)])
        kept = TrainingState(work, identity, base.device, self.seconds_between_saves)
        self.history = kept.restore(fit)
        gold = None if labels is None else renumber(labels)
        self._train(fit, kept, seed, base.device, progress, gold)
        self._fit = fit
        return fit.labels()

    def make_augmenter(self, task: str, texts: Sequence[str], model: Any) -> Augment:
        """Return the function that makes other texts of a task's texts, which the encoder `model` may help to find."""
        return self.augment

    def augment_beforehand(self, texts: Sequence[str], seed: int) -> Self:
        """Return the same clusterer with the augmentations of these texts and this seed computed.

        The copy can be sent to processes that lack the augmenting model.
        """
        other = copy(self)
        other.augment = partial(_get_made, self._augment(texts, seed), seed)
        return other

    def _augment(self, texts: Sequence[str], seed: int) -> list[list[str]]:
        """Return as many augmentations of each text as the clusterer learns from."""
        return [self.augment(texts, seed + i) for i in range(self.augmentations)]

    def predict(self, texts: Sequence[str]) -> Labels:
        """Return the clusters that other texts join, int64 [n]."""
        if not texts:
            raise TooFew(f"{self.name}: there are no texts to group")
        return self.fitted.predict(list(texts))

    def representations(self) -> Points | None:
        """Return the learned representations of the fitted texts, float32 [n, d], or None.

        None if nothing was trained: k was 1, or there was one text.
        """
        if self._fit is None:
            return None
        return np.asarray(self._fit.representations().cpu().numpy(), dtype=np.float32)

    @property
    def fitted(self) -> Any:
        """The training that `fit_predict` ended."""
        if self._fit is None:
            raise Missing(f"{self.name}: nothing was trained: call fit_predict first, with more than one cluster")
        return self._fit

    def _train(
        self, fit: Fit[R], kept: TrainingState, seed: int, device: str, progress: Progress, gold: Labels | None
    ) -> None:
        import torch

        steps, epochs = len(make_even_batches(np.arange(fit.n), self.recipe.batch)), self.epochs(fit.n)
        progress.total("steps", steps * epochs)
        progress.done("steps", steps * len(self.history))
        for epoch in range(len(self.history), epochs):
            if fit.memory.get("settled"):
                break
            predicted = np.full(fit.n, -1, dtype=np.int64)
            entries: list[Entry] = []
            sizes: list[int] = []
            with _seed(seed, epoch, device):
                fit.begin_epoch(epoch)
                for rows in make_even_batches(torch.randperm(fit.n).numpy(), self.recipe.batch):
                    step = self._descend(fit, epoch, rows)
                    numbers = {"loss": step.loss, **step.parts, **step.more}
                    entry = {name: float(value.detach()) for name, value in numbers.items()}
                    entries.append(entry | (fit.compare(gold[rows], step) if gold is not None else {}))
                    sizes.append(len(rows))
                    if step.predicted is not None:
                        predicted[rows] = step.predicted.detach().cpu().numpy()
                    progress.done("steps", 1)

            means = {"epoch": float(epoch + 1)}
            for name in dict.fromkeys(name for entry in entries for name in entry):
                having = [(entry[name], size) for entry, size in zip(entries, sizes, strict=True) if name in entry]
                values, weights = zip(*having, strict=True)
                means[name] = float(np.average(values, weights=weights))
            self.history.append(means | _compare_clusters(fit, predicted, gold))
            metrics = [f"{name} {self.history[-1][name]:.3g}" for name in SHOWN if name in self.history[-1]]
            progress.said(f"epoch {epoch + 1}: {', '.join(metrics)}")
            kept.save(fit, self.history, epoch + 1 == epochs)

    def _descend(self, fit: Fit[R], epoch: int, rows: Rows) -> BatchResult:
        fit.modules.train()
        fit.optimizer.zero_grad(set_to_none=True)
        step = fit.step(epoch, rows)
        if not math.isfinite(float(step.loss.detach())):
            raise Failed(
                f"{self.name}: epoch {epoch + 1}: the loss is {float(step.loss.detach())}; "
                "a learning rate or a temperature is out of range, or the base model is broken"
            )
        step.loss.backward()
        fit.optimizer.step()
        return step


def _get_made(made: Sequence[list[str]], first: int, texts: Sequence[str], seed: int) -> list[str]:
    """Return precomputed augmentations in the form of `Augment`, for the seeds from the first."""
    return made[seed - first]


@contextmanager
def _seed(seed: int, epoch: int, device: str) -> Iterator[None]:
    """Seed torch's random numbers for an epoch, equally in a resumed training, and restore the caller's afterwards."""
    import torch

    devices = [torch.cuda.current_device()] if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(np.random.SeedSequence([seed, epoch + 1]).generate_state(1)[0]))
        yield


def _compare_clusters(fit: Fit[Any], predicted: Labels, gold: Labels | None) -> Entry:
    """Compare an epoch's clusters with those of the epoch before and the gold labels.

    The result is empty if a text has no cluster yet.
    """
    if (predicted < 0).any():
        return {}
    before = fit.memory.get("predicted")
    fit.memory["predicted"] = predicted.tolist()
    entry = {
        "clusters": float(len(np.unique(predicted))),
        "changed": 1.0 if before is None else float(np.mean(np.asarray(before) != predicted)),
    }
    if gold is not None:
        from sklearn.metrics import normalized_mutual_info_score

        from traube.metrics.clustering import acc

        entry |= {"acc": acc(gold, predicted), "nmi": float(normalized_mutual_info_score(gold, predicted))}
    return entry


def is_collapsed(labels: Labels) -> bool:
    """Return whether all of several texts are in one cluster."""
    return len(labels) > 1 and len(np.unique(labels)) == 1
