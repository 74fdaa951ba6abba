"""Recipe, encoder, splits and validation that trainers on gold clusterings share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import psutil
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from traube._core.errors import Invalid, TooFew, TooLarge
from traube._core.hashing import digest
from traube._pipeline.params import Protocol
from traube.components.deep.encoding import Encoded
from traube.models.transformer import TOKENS_A_BATCH, Transformer, get_prompt, hash_weights
from traube.tasks.task import Task
from traube.training.loop import Loop, ValidatedRecipe
from traube.training.trainer import LEARNED, Blocks, NetworkAtStep, Trainer, mean_score

# Average linkage on Euclidean distances, the true number of clusters.
VALIDATED = Protocol(reducers=("none",), clusterers=("agglomerative_average",), seeds=(42,))
ARI = "ari/noise_as_cluster"
HEAD = 256
MATRICES = 10  # square ones of a step: distances, both adjacencies, their gradients and the linkage's copies


class ClusteringRecipe(ValidatedRecipe):
    """Recipe of a training on gold clusterings."""

    head: Literal["tanh", "none"] = Field(
        "tanh", description="a new dense layer of 256 with tanh on the pooled tokens (reference code), or none (paper)"
    )
    layers: int | None = Field(
        None, ge=0, description="how many of the encoder's top layers learn; by default all; 0: the head alone"
    )
    passages: int | None = Field(None, ge=2, description="train on the splits of exactly this many texts only")


C = TypeVar("C", bound=ClusteringRecipe)


class ClusteringTrainer(Trainer[C]):
    """Trainer on the train splits of a task; `best` has the highest mean ARI on its validation splits."""

    learns_from = "splits"
    watched = "validation_ari"
    in_name = ("seed", "passages")

    @property
    @override
    def variant(self) -> str:
        return f".n{self.recipe.passages}" if self.recipe.passages else ""

    def select_texts(self, task: Task, extra: Sequence[str]) -> list[str]:
        """Return the texts of the train and validation splits."""
        seen = self.select_labeled_rows(task, extra)
        return task.corpus.loc[task.corpus["text_id"].isin(seen["text_id"]), "text"].tolist()

    @override
    def list_subsets(self, task: Task) -> list[str]:
        return list(LEARNED)

    def make_network(self, base: Transformer) -> Any:
        """Return the base model.

        With a head, a new layer follows tokens and pooling, in place of the modules after the pooling.
        """
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Dense, Pooling

        network = super().make_network(base)
        if self.recipe.head == "none":
            return network
        body = network[0]
        pooling = next((m for m in network if isinstance(m, Pooling)), None)
        pooling = pooling or Pooling(body.get_embedding_dimension(), pooling_mode="mean")
        torch.manual_seed(self.recipe.seed)
        dense = Dense(pooling.get_embedding_dimension(), HEAD, activation_function=torch.nn.Tanh())
        return SentenceTransformer(
            modules=[body, pooling, dense],
            device=str(network.device),
            prompts=network.prompts,
            default_prompt_name=network.default_prompt_name,
        )

    def measure(self, loop: Loop, step: int) -> float:
        """Return the mean ARI over the validation splits."""
        encoder = loop.learner.encoder
        row_of = {text: row for row, text in enumerate(encoder.texts)}

        def encode_batches(texts: Sequence[str]) -> Blocks:
            yield np.arange(len(texts)), encoder.vectors([row_of[text] for text in texts])

        snapshot = NetworkAtStep(loop.base, step, encode_batches)
        return mean_score(take_subset(loop.task, "validation"), snapshot, VALIDATED, ARI, loop.executor)

    def split_problems(self, task: Task, texts: Sequence[str]) -> list["Problem"]:
        """Return the train splits, as rows of `texts` and classes.

        A split whose matrices would not fit into the memory is refused.
        """
        rows = {text: row for row, text in enumerate(texts)}
        trained = take_subset(task, "train")
        rows_of_corpus = np.array([rows[t] for t in trained.texts], dtype=np.int64)
        problems = [
            Problem(split.split, rows_of_corpus[split.rows], np.unique(split.labels, return_inverse=True)[1])
            for split in trained.test_splits()
            if split.labels is not None and self.recipe.passages in (None, split.size)
        ]
        if not problems:
            raise TooFew(f"{task.name}: there is no train split of exactly {self.recipe.passages} texts")
        largest = max(problems, key=lambda p: len(p.rows))
        n = len(largest.rows)
        needed, free = MATRICES * 8 * n * n, psutil.virtual_memory().available
        if needed > free:
            raise TooLarge(
                f"{task.name}: train split '{largest.name}': {n:,} texts at once need {needed / 2**30:,.1f} GiB "
                f"for their pairs, and {free / 2**30:,.1f} are free"
            )
        return problems


@dataclass(frozen=True)
class Problem:
    """A split to learn from."""

    name: str
    rows: NDArray[np.int64]  # [n], its texts
    classes: NDArray[np.int64]  # [n], 0 to k - 1


def take_subset(task: Task, subset: str) -> Task:
    """Return the task with a subset in place of its test subset, and the texts of that subset only.

    The split set is `default`, whose test subset the other split sets may train on. Queries are left out: these
    trainers do not use them.
    """
    splits = task.splits[(task.splits["part"] == subset) & (task.splits["split_set"] == "default")]
    splits = splits.assign(query_id=None)
    corpus = task.corpus[task.corpus["text_id"].isin(splits["text_id"])].reset_index(drop=True)
    return replace(task, corpus=corpus, rows=splits.assign(part="test").reset_index(drop=True))


# What lies below a head that alone learns, for the weights, settings and texts of its key.
_KEPT: dict[tuple[str, int, str, str], Any] = {}


def make_text_encoder(network: Any, texts: Sequence[str], recipe: ClusteringRecipe) -> Any:
    """Return a torch module that encodes texts by their rows, each text of a batch once, with gradients."""
    import torch
    from torch import nn

    if recipe.layers == 0 and recipe.head == "none":
        raise Invalid("recipe: layers: 0 leaves nothing that learns where there is no head")
    _freeze(network, recipe.layers)
    if recipe.layers == 0:
        below = _encode_below(network, texts)

        def encode(rows: NDArray[np.int64]) -> torch.Tensor:
            return network[-1]({"sentence_embedding": below[rows]})["sentence_embedding"]
    else:
        encoded = Encoded(network, texts, tokens=TOKENS_A_BATCH)

        def encode(rows: NDArray[np.int64]) -> torch.Tensor:
            unique, back = np.unique(rows, return_inverse=True)
            return encoded.through(network, unique)[back]

    class TextEncoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network  # so that its weights are this module's
            self.texts = texts

        def forward(self, rows: NDArray[np.int64]) -> torch.Tensor:
            """Return vectors, float32 [n, d]."""
            return encode(rows)

        def vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
            """Return vectors without gradients, float32 [n, d], for any number of texts."""
            with torch.inference_mode():
                return self(np.array(rows, dtype=np.int64)).float().cpu().numpy()

    return TextEncoder()


def _encode_below(network: Any, texts: Sequence[str]) -> Any:
    """Return the outputs below the head, without gradients, cached for this process's next training, as in a study."""
    import torch

    below = list(network)[:-1]
    state = []  # the modules' kinds, settings and weights
    for module in below:
        settings = module.get_config_dict() if hasattr(module, "get_config_dict") else {}
        state += [type(module).__name__, settings, hash_weights(module)]
    key = (digest(state), network.max_seq_length, get_prompt(network), digest(list(texts)))
    if key not in _KEPT:
        network.eval()
        encoded = Encoded(network, texts, tokens=TOKENS_A_BATCH)
        with torch.no_grad():
            vectors = encoded.through(torch.nn.Sequential(*below), np.arange(len(texts)))
        _KEPT.clear()
        _KEPT[key] = vectors
    return _KEPT[key]


def _freeze(network: Any, layers: int | None) -> None:
    """Freeze the encoder except its top layers and the modules after it."""
    from torch import nn

    if layers is None:
        return
    body = network[0].auto_model
    stack = max((m for m in body.modules() if isinstance(m, nn.ModuleList)), key=len)
    if layers > len(stack):
        raise Invalid(f"recipe: layers: the encoder has {len(stack)} layers, not {layers}")
    body.requires_grad_(False)
    for layer in list(stack)[len(stack) - layers :]:
        layer.requires_grad_(True)
