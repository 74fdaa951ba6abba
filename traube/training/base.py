"""What trainers share: the stream of examples, evaluation on the way, resuming, and the folder that is left.

Everything random of an example depends on (seed, epoch, example) alone, and the order on (seed, epoch): a training that was
killed goes on from its last saved step with the very examples that it would have seen.
"""

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError

from traube.benchmark.params import Protocol
from traube.benchmark.plan import cells
from traube.engine.evaluate import evaluate_cells
from traube.engine.progress import SILENT, Progress
from traube.foundation.config import Strict
from traube.foundation.errors import TraubeError, unknown
from traube.foundation.files import digest, locked, read_json, write_json
from traube.foundation.versions import versions
from traube.models.transformer import Transformer
from traube.tasks.task import Task

METRIC = "v_measure/noise_as_cluster"
# As the German benchmark evaluates on the way (A.4): mini-batch k-means with seed 42, nothing reduced.
WATCHED = Protocol(reducers=("none",), clusterers=("minibatch_kmeans",), seeds=(42,))


class Recipe(Strict):
    """How to train. Each trainer has the paper's values as its defaults."""

    model_config = ConfigDict(allow_inf_nan=False)

    epochs: float = Field(ge=0, description="passes over the examples")
    batch: int = Field(ge=1, description="examples at once")
    accumulate: int = Field(1, ge=1, description="batches whose gradients make one step")
    learning_rate: float = Field(gt=0)
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.0, ge=0)
    max_length: int | None = Field(None, ge=8, description="tokens of a text; by default the model's own limit")
    dropout: bool = Field(True, description="whether the encoder's dropout is on; off, a step is much cheaper on CPU")
    evaluate_every: int = Field(0, ge=0, description="steps between evaluations; 0 for once an epoch")
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = Field(42, ge=0)


R = TypeVar("R", bound=Recipe)
Entry = dict[str, float | None]


@dataclass(frozen=True)
class Checkpoint:
    """What a training left.

    Attributes
    ----------
    last, best : folders in sentence-transformers' layout; `best` has the highest watched score. Where that is of the task's test
        splits (trainers without labels), it flatters
    curve : one entry for each evaluation, the first before any step: step, epoch, seconds (of training so far, without the
        evaluations), loss (mean since the entry before; None at first) and the watched score
    watched : the name of that score in the curve
    """

    last: Path
    best: Path
    curve: list[Entry]
    watched: str

    @property
    def scores(self) -> list[float]:
        """The watched score along the curve."""
        return [float(entry[self.watched] or 0) for entry in self.curve]


class Trainer(ABC, Generic[R]):
    """Trains an encoder on a task; here, what is so of all that need no labels.

    Parameters
    ----------
    recipe : by default the paper's

    Attributes
    ----------
    watched : name of the score in the learning curve
    in_name : values of the recipe that stand in a checkpoint's name by themselves
    """

    name: ClassVar[str]
    section: ClassVar[str]
    version: ClassVar[str] = "1"
    watched: ClassVar[str] = "v_measure"
    in_name: ClassVar[tuple[str, ...]] = ("seed",)
    defaults: R

    def __init__(self, recipe: R | None = None) -> None:
        self.recipe: R = recipe or self.defaults

    @classmethod
    def with_changes(cls, changes: Mapping[str, Any]) -> Self:
        """The trainer with the paper's recipe but for some values.

        Raises
        ------
        TraubeError
            If a name or a value cannot be; says which.
        """
        try:
            return cls(type(cls.defaults).model_validate({**cls.defaults.model_dump(), **changes}))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            if first["type"] == "extra_forbidden":
                raise unknown(f"value of {cls.name}'s recipe", name, type(cls.defaults).model_fields) from None
            raise TraubeError(f"recipe: {name}: {first['msg']}") from None

    @property
    def variant(self) -> str:
        """What tells the checkpoints of variants of a recipe apart; part of their names."""
        return ""

    def names(self, task: str, base: str, extra: bool = False) -> str:
        """What its checkpoints are called, before `-last` and `-best`.

        A recipe that is not the paper's has a digest in the name, so that no training takes the place of another.

        Parameters
        ----------
        extra : whether it is trained on more texts than the task's
        """
        usual = self.defaults.model_dump(mode="json")
        changed = {
            key: value
            for key, value in self.recipe.model_dump(mode="json").items()
            if key not in self.in_name and value != usual[key]
        }
        mark = f".x{digest([changed, extra])[:6]}" if changed or extra else ""
        return f"{self.name}__{task}__{base}{self.variant}{mark}.s{self.recipe.seed}"

    def left(self, task: str, base: str, out: Path, extra: bool = False) -> Checkpoint:
        """What a finished training left in the folder of checkpoints.

        Raises
        ------
        FileNotFoundError
            If it is not finished.
        """
        last, best = (out / f"{self.names(task, base, extra)}-{kind}" for kind in ("last", "best"))
        about = json.loads((last / "checkpoint.json").read_text(encoding="utf-8"))
        return Checkpoint(last, best, about["curve"], about["watched"])

    def texts(self, task: Task, extra: Sequence[str]) -> list[str]:
        """What is trained on: all the task's texts and more."""
        return list(dict.fromkeys([*task.texts, *extra]))

    def parts(self, task: Task) -> list[str]:
        """Of which parts of the task the training sees texts."""
        return sorted(task.splits["part"].unique())

    def network(self, base: Transformer) -> Any:
        """The base model in fp32, to be changed. It carries its prompt, and saves it where sentence-transformers looks."""
        network = Transformer(base.card.model_copy(update={"precision": "fp32"}), base.device)._network
        if self.recipe.max_length:
            network.max_seq_length = self.recipe.max_length
        return network

    @abstractmethod
    def examples(self, network: Any, task: Task, texts: Sequence[str]) -> "Examples":
        """The training examples."""

    @abstractmethod
    def learner(self, network: Any, examples: Any) -> Any:
        """A torch module that shares the network's encoder: batch (from `examples`) in, loss out."""

    def prepare(self, learner: Any, examples: Any, progress: Progress) -> None:
        """What is done before the first step, and not again when a training goes on."""

    def report(self, learner: Any) -> dict[str, float]:
        """What else goes into the learning curve, of the steps since the last time."""
        return {}

    def measure(self, task: Task, base: Transformer, network: Any, learner: Any, step: int) -> float:
        """The watched score of the network as it is: V-measure, the unweighted mean over the task's test splits."""
        return mean_score(task, Watched(base, network, step), WATCHED, METRIC)

    def fit(
        self,
        task: Task,
        base: Transformer,
        out: Path,
        extra: Sequence[str] = (),
        progress: Progress = SILENT,
        watch: Callable[[Entry], None] = lambda entry: None,
    ) -> Checkpoint:
        """Train, or go on with a training that was stopped.

        Parameters
        ----------
        task : what is trained on, and scored on the way: without labels, the texts of all parts and its test splits; with labels,
            its train and its validation splits
        base : the model to start from
        out : folder of checkpoints; `<name>-last` and `<name>-best` are written there, whole or not at all
        extra : more texts to train on
        watch : told of each entry of the curve

        Raises
        ------
        TraubeError
            If the loss is not finite, or there is nothing to train on.
        """
        texts = self.texts(task, extra)
        name = self.names(task.name, base.name, bool(extra))
        folders = {kind: out / f"{name}-{kind}" for kind in ("last", "best")}
        identity = self._identity(task, base, texts)
        with locked(out / f".{name}"):
            finished = [_finished(folder, identity) for folder in folders.values()]
            if all(finished) and finished[0]:
                return Checkpoint(folders["last"], folders["best"], finished[0]["curve"], self.watched)
            work = out / f".{name}.{digest(identity)}"
            curve = _Run(self, task, base, texts, work, progress, watch).train()
            about = {
                **identity,
                "trainer": self.name,
                "section": self.section,
                "task": task.name,
                "parts": self.parts(task),
                "base": base.name,
                "precision": base.card.precision,  # in which it is evaluated, as its base is
                "watched": self.watched,
                "curve": curve,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            for kind, folder in folders.items():
                _publish(work / kind, folder, {**about, "kind": kind})
            shutil.rmtree(work, ignore_errors=True)
        return Checkpoint(folders["last"], folders["best"], curve, self.watched)

    def _identity(self, task: Task, base: Transformer, texts: Sequence[str]) -> dict[str, Any]:
        """What the result follows from."""
        return {
            **({"prompt": base.card.prompt} if base.card.prompt is not None else {}),
            "version": self.version,
            "config": self.recipe.model_dump(mode="json"),
            "base_fingerprint": base.fingerprint,
            "data_version": task.data_version,
            "texts": digest(list(texts)),
            "library_versions": versions(("torch", "transformers", "sentence-transformers")),
        }


def _finished(folder: Path, identity: dict[str, Any]) -> dict[str, Any] | None:
    about = read_json(folder / "checkpoint.json")
    return about if all(about.get(key) == value for key, value in identity.items()) else None


def _publish(made: Path, folder: Path, about: dict[str, Any]) -> None:
    """Put a folder in its place in one step."""
    write_json(made / "checkpoint.json", about)
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    made.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


class Examples(ABC):
    """Training examples in order: number i is example `order(i // n)[i % n]` of epoch i // n."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.seed = seed
        self._order: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, dtype=np.int64))

    @abstractmethod
    def make(self, example: int, rng: np.random.Generator) -> Any:
        """An example with its noise."""

    @abstractmethod
    def collate(self, made: list[Any]) -> Any:
        """A batch for the learner."""

    def __len__(self) -> int:
        return 2**31 - 1  # as many as are asked for

    def __getitem__(self, i: int) -> Any:
        epoch, position = divmod(i, self.n)
        if self._order[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self._order = (epoch, np.argsort(rng.random(self.n), kind="stable"))
        example = int(self._order[1][position])
        return self.make(example, np.random.default_rng([self.seed, epoch, example]))


class Watched:
    """The network as it is at a step, as the engine wants a model."""

    corpus_bound = False

    def __init__(self, base: Transformer, network: Any, step: int) -> None:
        self.name = base.name
        self.fingerprint = f"step-{step}"
        self.numerics = base.numerics
        self._model = Transformer(base.card, base.device)
        self._model.__dict__["_network"] = network

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors, float32 [n, d]."""
        return self._model.encode(texts)

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Positions and vectors, batch by batch."""
        return self._model.encode_batches(texts)


def mean_score(task: Task, model: Any, protocol: Protocol, metric: str) -> float:
    """The unweighted mean of a metric over the task's test splits."""
    with TemporaryDirectory(prefix="traube-") as folder:
        scores, _ = evaluate_cells(task, model, cells(task, model, protocol), Path(folder))
    return float(scores.loc[scores["metric"] == metric, "value"].mean())


class _Run:
    """One training, by transformers' Trainer."""

    def __init__(
        self,
        trainer: Trainer[Any],
        task: Task,
        base: Transformer,
        texts: Sequence[str],
        work: Path,
        progress: Progress,
        watch: Callable[[Entry], None],
    ) -> None:
        if not texts:
            raise TraubeError(f"{task.name}: there are no texts to train on")
        self.trainer, self.task, self.base, self.work = trainer, task, base, work
        self.watch, self.progress = watch, progress
        self.recipe = cast(Recipe, trainer.recipe)
        self.network = trainer.network(base)
        self.examples = trainer.examples(self.network, task, texts)
        self.learner = trainer.learner(self.network, self.examples)
        if not self.recipe.dropout:
            _without_dropout(self.learner)
        self.steps_an_epoch = self.examples.n / (self.recipe.batch * self.recipe.accumulate)
        self.steps = max(1, round(self.recipe.epochs * self.steps_an_epoch)) if self.recipe.epochs else 0
        self.every = self.recipe.evaluate_every or max(1, round(self.steps_an_epoch))
        self.curve: list[Entry] = []
        self.losses: list[float] = []
        self.seconds = 0.0
        self.began = time.monotonic()

    def train(self) -> list[Entry]:
        """Train to the end; the curve."""
        from traube.training.loop import last_whole, loop

        self.work.mkdir(parents=True, exist_ok=True)
        saved = last_whole(self.work)
        self.curve = self._kept(saved)
        self.seconds = float(self.curve[-1]["seconds"] or 0) if self.curve else 0.0
        self.progress.total("steps", self.steps)
        self.began = time.monotonic()
        if not self.curve:
            self.evaluate(0)
        if saved is None:
            self.trainer.prepare(self.learner, self.examples, self.progress)
        if self.steps:
            loop(self).train(resume_from_checkpoint=saved)
        self.network.save(str(self.work / "last"))
        return self.curve

    def evaluate(self, step: int) -> None:
        """Score the network, keep the curve, and the network itself if it is the best so far."""
        if step:
            self.seconds += time.monotonic() - self.began
        training = self.learner.training
        self.learner.eval()
        self.network.eval()
        try:
            value = self.trainer.measure(self.task, self.base, self.network, self.learner, step)
        except TraubeError as error:
            raise self.diverged(step, str(error)) from None
        self.learner.train(training)
        entry: Entry = {
            "step": step,
            "epoch": step / self.steps_an_epoch,
            "seconds": self.seconds,
            "loss": float(np.mean(self.losses)) if self.losses else None,
            self.trainer.watched: value,
            **self.trainer.report(self.learner),
        }
        self.losses.clear()
        if all(value > (earlier[self.trainer.watched] or 0) for earlier in self.curve):
            self._keep_best()
        self.curve.append(entry)
        write_json(self.work / "curve.json", self.curve)
        self.watch(entry)
        self.began = time.monotonic()

    def diverged(self, step: int, found: str) -> TraubeError:
        """The error for numbers that are not finite."""
        return TraubeError(
            f"after step {step}: {found}; the learning rate {self.recipe.learning_rate:g} is too high, or the base model is broken"
        )

    def _keep_best(self) -> None:
        new, best = self.work / "best.new", self.work / "best"
        shutil.rmtree(new, ignore_errors=True)
        self.network.save(str(new))
        shutil.rmtree(best, ignore_errors=True)
        new.rename(best)

    def _kept(self, saved: str | None) -> list[Entry]:
        """The curve up to the step that was saved."""
        path = self.work / "curve.json"
        if saved is None or not path.exists():
            return []
        step = int(Path(saved).name.rpartition("-")[2])
        return [entry for entry in json.loads(path.read_text()) if (entry["step"] or 0) <= step]


def _without_dropout(learner: Any) -> None:
    from torch import nn

    for module in learner.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
