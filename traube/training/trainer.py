"""The base class of trainers: a task and a base model in, a checkpoint folder out, complete or absent.

A trainer names the texts that it learns from, and makes the examples and the learner; the steps that all trainers
share are here.
"""

import json
import shutil
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typing_extensions import override

from traube._core.disk import read_json, replace_folder
from traube._core.errors import TooFew
from traube._core.files import locked, write_json
from traube._core.hashing import digest
from traube._core.progress import SILENT, Progress
from traube._core.recipes import RecipeMixin
from traube._core.versions import get_versions
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.executors import Executor, make_executor
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube.models.base import BatchEncoder
from traube.models.transformer import Transformer
from traube.tasks.source import Source
from traube.tasks.task import Task
from traube.training.loop import Entry, Examples, Loop, TrainingRecipe

METRIC = "v_measure/noise_as_cluster"
# On the way: mini-batch k-means with seed 42, nothing reduced.
WATCHED = Protocol(reducers=("none",), clusterers=("minibatch_kmeans",), seeds=(42,))

R = TypeVar("R", bound=TrainingRecipe)
LEARNED = ("train", "validation")  # subsets of a task whose labels are learned from
Ranges = Mapping[str, tuple[float, float] | list[int]]
Blocks = Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]


class NetworkAtStep(BatchEncoder):
    """A network at a step, as a model of the engine; `base` is the model from which the training started."""

    weight_bytes = 0  # the network is in memory

    def __init__(self, base: Transformer, step: int, encode_batches: Callable[[Sequence[str]], Blocks]) -> None:
        self.name, self.card, self.device, self.precision = base.name, base.card, base.device, base.precision
        self.fingerprint = f"step-{step}"
        self.numerics: Mapping[str, str] = base.numerics
        self._encode_batches = encode_batches

    def load(self) -> int:
        """Do nothing: the network is in memory."""
        return 0

    @override
    def encode_batches(self, texts: Sequence[str]) -> Blocks:
        return self._encode_batches(texts)


def mean_score(
    task: Task, model: NetworkAtStep, protocol: Protocol, metric: str, executor: Executor | None = None
) -> float:
    """Return the unweighted mean of a metric over the task's test splits."""
    scores, _ = evaluate_cells(task, model, cells(task, model, protocol), executor=executor)
    return float(scores.loc[scores["metric"] == metric, "value"].mean())


@dataclass(frozen=True)
class Checkpoint:
    """Result of a training.

    Attributes
    ----------
    last : Path
        Folder of the network after the last step, in sentence-transformers' layout.
    best : Path
        Folder of the network with the highest watched score. That score flatters if it is computed on the task's test
        splits (trainers without labels).
    curve : list of dict
        An entry for each evaluation, the first before any step: step, epoch, seconds (of training so far, without the
        evaluations), loss (mean since the entry before; None at first) and the watched score.
    watched : str
        Name of that score in the curve.

    Examples
    --------
    >>> from pathlib import Path
    >>> from traube.training import Checkpoint
    >>> curve = [{"step": 0, "v_measure": 0.25}, {"step": 10, "v_measure": 0.5}]
    >>> Checkpoint(Path("last"), Path("best"), curve, "v_measure").scores
    [0.25, 0.5]
    """

    last: Path
    best: Path
    curve: list[Entry]
    watched: str

    @property
    def scores(self) -> list[float]:
        """The watched score along the curve."""
        return [float(entry[self.watched] or 0) for entry in self.curve]


class Trainer(RecipeMixin[R]):
    """Base class of the trainers of an encoder on a task.

    The methods defined here serve trainers on texts; trainers that learn from other data override them.

    Examples
    --------
    >>> from traube.training import TRAINERS
    >>> TRAINERS["triplet"].learns_from
    'splits'
    """

    learns_from: ClassVar[Literal["texts", "splits"]]  # texts without labels; or labels of train and validation splits
    paper: ClassVar[Mapping[str, Any]] = {}  # values of the paper's recipe where the defaults are Traube's own
    # values of the recipe that a study searches: for each the least and the greatest, or all choices
    searched: ClassVar[Ranges] = {}
    watched: ClassVar[str] = "v_measure"  # name of the score in the learning curve
    in_name: ClassVar[tuple[str, ...]] = ("seed",)  # values of the recipe that stand in a checkpoint's name themselves

    @classmethod
    def explain_unsuited(cls, source: Source) -> str | None:
        """Return why the trainer cannot learn from a source's task; None if it can."""
        if cls.learns_from == "texts" or source.has_training_splits:
            return None
        return f"{source.name} has no labeled splits for training and for validation, which {cls.name} learns from"

    @property
    def variant(self) -> str:
        """Part of the checkpoints' names that tells variants of a recipe apart."""
        return ""

    @classmethod
    def find_changes(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a recipe that differ from the defaults and have no place of their own in checkpoints' names."""
        usual = cls.defaults.model_dump(mode="json")
        return {key: value for key, value in values.items() if key not in cls.in_name and value != usual.get(key)}

    def make_digest(self, extra: bool = False) -> str:
        """Return the digest of a recipe that is not the default, or of a training on more texts; else an empty string."""
        changed = self.find_changes(self.recipe.model_dump(mode="json"))
        return digest([changed, extra])[:6] if changed or extra else ""

    def name_checkpoints(self, task: str, base: str, extra: bool = False) -> str:
        """Return the name of its checkpoints, before `-last` and `-best`.

        With a recipe that is not the default, or with more texts than the task's, the name has a digest, so that no
        training takes the place of another.
        """
        mark = f".x{recipe}" if (recipe := self.make_digest(extra)) else ""
        return f"{self.name}__{task}__{base}{self.variant}{mark}.s{self.recipe.seed}"

    def load_checkpoint(self, task: str, base: str, out: Path, extra: bool = False) -> Checkpoint:
        """Return the checkpoint that a finished training left in the folder of checkpoints.

        Raises FileNotFoundError if the training is not finished.
        """
        last, best = (out / f"{self.name_checkpoints(task, base, extra)}-{kind}" for kind in ("last", "best"))
        about = json.loads((last / "checkpoint.json").read_text(encoding="utf-8"))
        return Checkpoint(last, best, about["curve"], about["watched"])

    def select_texts(self, task: Task, extra: Sequence[str]) -> list[str]:
        """Return the texts to train on: all the task's texts and the extra ones."""
        return list(dict.fromkeys([*task.texts, *extra]))

    def select_labeled_rows(self, task: Task, extra: Sequence[str], split_set: str = "default") -> pd.DataFrame:
        """Return the rows of the train and validation splits, for a trainer that learns from labels."""
        if extra:
            raise TooFew(f"{self.name} learns from labels; texts without labels are of no use to it")
        where = f"{task.name}: split set '{split_set}'"
        rows = task.splits[task.splits["part"].isin(LEARNED) & (task.splits["split_set"] == split_set)]
        for subset in LEARNED:
            if not (rows["part"] == subset).any():
                raise TooFew(f"{where}: there are no {subset} splits, which {self.name} needs")
        if rows["label"].isna().any():
            raise TooFew(f"{where}: there are splits without labels, from which {self.name} cannot learn")
        return rows

    def list_subsets(self, task: Task) -> list[str]:
        """Return the subsets of the task whose texts the training sees."""
        return sorted(task.splits["part"].unique())

    def make_network(self, base: Transformer) -> Any:
        """Return the base model's network in fp32, to be changed.

        The network saves its prompt where sentence-transformers looks for it.
        """
        network = Transformer(base.card.model_copy(update={"precision": "fp32"}), base.device).network
        if self.recipe.max_length:
            network.max_seq_length = self.recipe.max_length
        return network

    @abstractmethod
    def make_examples(self, network: Any, task: Task, texts: Sequence[str]) -> Examples:
        """Return the training examples."""

    @abstractmethod
    def make_learner(self, network: Any, examples: Any) -> Any:
        """Return a torch module that shares the network's encoder: batch (from `examples`) in, loss out."""

    def prepare(self, learner: Any, examples: Any, progress: Progress) -> None:
        """Prepare the learner before the first step; a resumed training does not repeat this."""

    def report(self, learner: Any) -> dict[str, float]:
        """Return further entries of the learning curve, of the steps since the last report."""
        return {}

    def measure(self, loop: Loop, step: int) -> float:
        """Return the watched score of the network: V-measure, the unweighted mean over the task's test splits."""
        snapshot = NetworkAtStep(loop.base, step, loop.base.with_network(loop.network).encode_batches)
        return mean_score(loop.task, snapshot, WATCHED, METRIC, loop.executor)

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
        task : Task
            The task to train on, and to score on the way: without labels, the texts of all subsets and its test
            splits; with labels, its train and its validation splits.
        out : Path
            Folder of checkpoints; `<name>-last` and `<name>-best` are written there, complete or not at all.
        extra : sequence of str, optional
            More texts to train on.
        watch : callable, optional
            Called with each entry of the curve.

        Raises
        ------
        TraubeError
            If the loss is not finite, or there is nothing to train on.
        """
        texts = self.select_texts(task, extra)
        if not texts:
            raise TooFew(f"{task.name}: there are no texts to train on")
        name = self.name_checkpoints(task.name, base.name, bool(extra))
        folders = {kind: out / f"{name}-{kind}" for kind in ("last", "best")}
        identity = self._identity(task, base, texts)
        with locked(out / f".{name}"):
            records = [read_json(folder / "checkpoint.json") for folder in folders.values()]
            if any(about.get(key) != value for about in records for key, value in identity.items()):
                work = out / f".{name}.{digest(identity)}"
                with make_executor() as executor:
                    curve = Loop(self, task, base, texts, work, executor, progress, watch).train()
                about = {
                    **identity,
                    "trainer": self.name,
                    "section": self.section,
                    "task": task.name,
                    "parts": self.list_subsets(task),
                    "base": base.name,
                    "precision": base.card.precision,  # precision of the evaluation, as of the base model
                    "watched": self.watched,
                    "curve": curve,
                    "created": datetime.now(UTC).isoformat(timespec="seconds"),
                }
                for kind, folder in folders.items():
                    write_json(work / kind / "checkpoint.json", {**about, "kind": kind})
                    replace_folder(folder, work / kind)
                shutil.rmtree(work, ignore_errors=True)
        return self.load_checkpoint(task.name, base.name, out, bool(extra))

    def _identity(self, task: Task, base: Transformer, texts: Sequence[str]) -> dict[str, Any]:
        """Return all inputs that determine the result."""
        return {
            **({"prompt": base.card.prompt} if base.card.prompt is not None else {}),
            "version": self.version,
            "config": self.recipe.model_dump(mode="json"),
            "base_fingerprint": base.fingerprint,
            "data_version": task.data_version,
            "texts": digest(list(texts)),
            "library_versions": get_versions(("torch", "transformers", "sentence-transformers")),
        }
