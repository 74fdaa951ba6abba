"""The training loop: transformers' Trainer with evaluation, the best network, and the state that resuming needs."""

import json
import math
import pickle
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from traube._core.disk import read_json, replace_folder
from traube._core.errors import Failed, Incompatible, TraubeError, first_line
from traube._core.files import write_json
from traube._core.progress import Progress
from traube._core.recipes import Recipe
from traube._core.versions import get_versions
from traube._pipeline.executors import Executor
from traube.models.transformer import Transformer
from traube.tasks.task import Task

WEIGHTS = "model.safetensors"
STATE = "trainer_state.json"
_DAMAGED = (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError, AttributeError)

Entry = dict[str, float | None]


class TrainingRecipe(Recipe):
    """Values that every training has; those of a single trainer are defined beside that trainer.

    Examples
    --------
    >>> from traube.training import TrainingRecipe
    >>> TrainingRecipe(epochs=1, batch=16, learning_rate=3e-5).schedule
    'constant'
    """

    epochs: float = Field(ge=0, le=10_000, description="passes over the examples")
    batch: int = Field(ge=1, le=100_000, description="examples at once")
    accumulate: int = Field(1, ge=1, le=100_000, description="batches whose gradients make one step")
    learning_rate: float = Field(gt=0)
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant"
    warmup: float = Field(0.0, ge=0, lt=1, description="share of the steps in which the learning rate rises")
    weight_decay: float = Field(0.0, ge=0, le=10)
    max_length: int | None = Field(
        None, ge=8, le=1_000_000, description="tokens of a text; by default the model's own limit"
    )
    dropout: bool = Field(True, description="whether the encoder's dropout is on; off, a step is much cheaper on CPU")
    evaluate_every: int = Field(0, ge=0, le=10**9, description="steps between evaluations; 0 for once an epoch")
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = Field(42, ge=0, lt=2**32)


class ValidatedRecipe(TrainingRecipe):
    """Recipe of a training that is scored on validation splits, whose score may end the training.

    A score on test splits may not end a training.
    """

    patience: int = Field(0, ge=0, le=10_000, description="evaluations without a better score to end after; 0: never")


class Examples(ABC):
    """Training examples in order: number i is example `order(i // n)[i % n]` of epoch i // n.

    Everything random of an example depends on (seed, epoch, example) alone, and the order on (seed, epoch): a training
    that was killed resumes from its last saved step with the same examples that it would have seen.
    """

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.seed = seed
        self._order: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, dtype=np.int64))

    @abstractmethod
    def make(self, example: int, rng: np.random.Generator) -> Any:
        """Return an example with its noise."""

    def collate(self, made: list[Any]) -> Any:
        """Return a batch for the learner."""
        return made

    def __len__(self) -> int:
        return 2**31 - 1  # as many as are requested

    def __getitem__(self, i: int) -> Any:
        epoch, position = divmod(i, self.n)
        if self._order[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self._order = (epoch, np.argsort(rng.random(self.n), kind="stable"))
        example = int(self._order[1][position])
        return self.make(example, np.random.default_rng([self.seed, epoch, example]))


@dataclass
class Loop:
    """One training."""

    trainer: Any  # a `traube.training.trainer.Trainer`
    task: Task
    base: Transformer
    texts: Sequence[str]
    work: Path  # folder of the state that a stopped training resumes from; in the end `last` and `best` lie there
    executor: Executor
    progress: Progress
    watch: Callable[[Entry], None]  # called with each entry of the curve

    def __post_init__(self) -> None:
        self.recipe: TrainingRecipe = self.trainer.recipe
        self.network = self.trainer.make_network(self.base)  # the sentence-transformers network that is saved
        self.examples: Examples = self.trainer.make_examples(self.network, self.task, self.texts)
        self.learner = self.trainer.make_learner(self.network, self.examples)
        if not self.recipe.dropout:
            from torch import nn

            for module in self.learner.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
        self.steps_an_epoch = self.examples.n / (self.recipe.batch * self.recipe.accumulate)
        self.steps = max(1, round(self.recipe.epochs * self.steps_an_epoch)) if self.recipe.epochs else 0
        self.every = self.recipe.evaluate_every or max(1, round(self.steps_an_epoch))
        self.curve: list[Entry] = []
        self.losses: list[float] = []

    def train(self) -> list[Entry]:
        """Train to the end and return the curve."""
        self.work.mkdir(parents=True, exist_ok=True)
        saved = find_last_step(self.work)
        try:
            return self._train_from(saved)
        except _DAMAGED as error:  # what was saved may be damaged, or somebody else's
            if saved is None:
                raise
            raise Failed(f"{self.work}: cannot be resumed ({first_line(error)}); delete it to start again") from error

    def _train_from(self, saved: str | None) -> list[Entry]:
        path = self.work / "curve.json"
        if saved is not None and path.exists():
            step = int(Path(saved).name.rpartition("-")[2])
            self.curve = [entry for entry in json.loads(path.read_text()) if (entry["step"] or 0) <= step]
        self.seconds = float(self.curve[-1]["seconds"] or 0) if self.curve else 0.0
        self.progress.total("steps", self.steps)
        self.began = time.monotonic()
        if not self.curve:
            self.evaluate(0)
        if saved is None:
            self.trainer.prepare(self.learner, self.examples, self.progress)
        self.is_restored = saved is None  # then there is nothing to load
        if self.steps:
            _make_trainer(self).train(resume_from_checkpoint=saved)
        self.network.save(str(self.work / "last"))
        return self.curve

    def evaluate(self, step: int) -> None:
        """Score the network, append to the curve, and keep the network if its score is the best so far."""
        if step:
            self.seconds += time.monotonic() - self.began
        learner, watched = self.learner, self.trainer.watched
        training = learner.training
        learner.eval()
        self.network.eval()
        try:
            value = self.trainer.measure(self, step)
        except TraubeError as error:
            raise self.explain_divergence(step, str(error)) from None
        learner.train(training)
        entry: Entry = {
            "step": step,
            "epoch": step / self.steps_an_epoch,
            "seconds": self.seconds,
            "loss": float(np.mean(self.losses)) if self.losses else None,
            watched: value,
            **self.trainer.report(learner),
        }
        self.losses.clear()
        if all(value > (earlier[watched] or 0) for earlier in self.curve):
            new = self.work / "best.new"
            shutil.rmtree(new, ignore_errors=True)
            self.network.save(str(new))
            replace_folder(self.work / "best", new)
        self.curve.append(entry)
        write_json(self.work / "curve.json", self.curve)
        self.watch(entry)
        self.began = time.monotonic()

    @property
    def is_in_vain(self) -> bool:
        """True if the score has not risen for as many evaluations as patience lasts; with 0 it lasts forever."""
        patience = self.recipe.patience if isinstance(self.recipe, ValidatedRecipe) else 0
        scores = [entry[self.trainer.watched] or 0 for entry in self.curve]
        return 0 < patience < len(scores) - int(np.argmax(scores))

    def explain_divergence(self, step: int, what: str) -> TraubeError:
        """Return the error for numbers that are not finite."""
        return Failed(
            f"after step {step}: {what}; the learning rate {self.recipe.learning_rate:g} is too high, or the base model is broken"
        )


def find_last_step(folder: Path) -> str | None:
    """Return the newest complete step in a folder, or None.

    Incomplete steps are deleted; the Trainer writes its state last.
    """
    from transformers.trainer_utils import get_last_checkpoint

    while step := get_last_checkpoint(str(folder)):
        if read_json(Path(step) / STATE):
            return step
        shutil.rmtree(step)
    return None


def _make_trainer(loop: Loop) -> Any:
    """Return a Trainer of transformers that saves shared weights once and stops at a loss that is not finite."""
    from safetensors.torch import load_model, save_model
    from torch.nn import Module
    from transformers import PrinterCallback, Trainer, TrainerCallback

    class Evaluations(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if not loop.is_restored:  # the Trainer's own would take weights that do not fit
                raise _refuse_transformers("restores weights")

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            loop.progress.done("steps", 1)
            if state.global_step % loop.every == 0 or state.global_step == loop.steps:
                loop.evaluate(state.global_step)
            control.should_training_stop |= loop.is_in_vain

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            loop.began = time.monotonic()  # the curve's seconds are those of training

    class Steps(Trainer):
        def compute_loss(self, model: Module, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            loss = model(inputs)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise loop.explain_divergence(self.state.global_step, f"the loss is {value}")
            loop.losses.append(value)
            return loss

        def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
            folder = Path(output_dir or self.args.output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            save_model(self.model, str(folder / WEIGHTS))

        def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Module | None = None) -> None:
            load_model(model or self.model, str(Path(resume_from_checkpoint) / WEIGHTS))
            loop.is_restored = True

    trainer = Steps(
        model=loop.learner,
        args=_make_arguments(loop),
        train_dataset=loop.examples,
        data_collator=loop.examples.collate,
        callbacks=[Evaluations()],
    )
    trainer.remove_callback(PrinterCallback)
    if not hasattr(trainer, "model_accepts_loss_kwargs"):
        raise _refuse_transformers("averages losses")
    trainer.model_accepts_loss_kwargs = False  # the mean of a step's batches, not of its tokens
    return trainer


def _refuse_transformers(does: str) -> TraubeError:
    """Return the error for a Trainer that does something in another way than the one that this loop extends."""
    version = get_versions(["transformers"])["transformers"]
    return Incompatible(
        f"transformers {version} {does} in another way than Traube trains by: install an earlier version"
    )


def _make_arguments(loop: Loop) -> Any:
    """Return transformers' arguments for a loop that evaluates and saves at the same steps and reports to no service."""
    from transformers import TrainingArguments

    recipe = loop.recipe
    return TrainingArguments(
        output_dir=str(loop.work),
        max_steps=loop.steps,
        per_device_train_batch_size=recipe.batch,
        gradient_accumulation_steps=recipe.accumulate,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=math.ceil(recipe.warmup * loop.steps),
        weight_decay=recipe.weight_decay,
        save_strategy="steps",
        save_steps=loop.every,
        save_total_limit=2,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=recipe.seed,
        bf16=recipe.precision == "bf16",
        use_cpu=loop.base.device == "cpu",
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )
