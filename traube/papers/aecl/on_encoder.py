"""Trainings of an encoder with heads on top of it: the code that AECL, SCCL and RSTC share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field
from typing_extensions import override

from traube._core import paths
from traube._core.hashing import digest
from traube._core.inputs import resolve_path
from traube.components.deep.augmentation import Augment, swap_or_delete
from traube.components.deep.clusterer import DeepClusterer, DeepRecipe, Fit, Rows, Views
from traube.components.deep.encoding import Base, Encoded, copy_network

if TYPE_CHECKING:
    from torch import Tensor

# Vectors that a frozen encoder has computed last, by what they depend on.
_encoded: dict[str, "Tensor"] = {}


class EncoderRecipe(DeepRecipe):
    """Recipe of a training of an encoder with heads on top of it."""

    learning_rate: float = Field(ge=0, le=1, description="of the encoder")
    head_learning_rate: float = Field(gt=0, le=1, description="of what is put on the encoder")
    max_length: int = Field(32, ge=4, le=1_000_000, description="tokens of a text that are read")
    dropout: bool = Field(True, description="whether the encoder's dropout is on")
    frozen: bool = Field(False, description="leave the encoder as it is: each text is encoded once, before training")
    bf16: bool = Field(False, description="the encoder computes in bfloat16 where that is safe")
    augmentation: Literal["eda", "order", "published"] | Annotated[str, Field(pattern=r"^contextual:.")] = Field(
        "eda",
        description="other texts of each text: EDA, words only swapped or left out, the task's own, or contextual:FOLDER, "
        "by the masked language model in a folder (one that is not absolute lies in checkpoints/)",
    )
    scaled: bool = Field(False, description="bring vectors to the mean length of standard normal ones")


E = TypeVar("E", bound=EncoderRecipe)


class EncoderFit(Fit[E]):
    """An encoder, views of the texts, and the heads on top of the encoder.

    Attributes
    ----------
    first : Tensor
        Vectors of the texts before the training, float32 [n, d], scaled.
    """

    def prepare(self, views: Views, base: Base) -> None:
        """Copy the encoder, and encode the texts by it."""
        recipe = self.recipe
        self.network = copy_network(base, recipe.max_length, recipe.dropout)
        self.views = [Encoded(self.network, view, recipe.bf16) for view in views]
        encoded = encode_frozen(base, self.views) if recipe.frozen else [self.views[0].vectors()]
        plain = encoded[0]
        # many encoders end with unit vectors, whose entries are too small for the heads' first weights
        scale = plain.shape[1] ** 0.5 / max(float(plain.norm(dim=1).mean()), 1e-12) if recipe.scaled else 1.0
        self.memory = {"scale": scale}
        self.first = plain * scale
        # vectors that stay as they are are computed once
        self._fixed = [self.first, *(vectors * scale for vectors in encoded[1:])] if recipe.frozen else None

    def learn(self, heads: Any) -> None:
        """Put heads on the encoder; the heads and, unless frozen, the encoder are learned (Adam)."""
        from torch import nn

        from traube.papers.aecl.networks import adam

        heads.to(self.first.device)
        learned = [{"params": list(heads.parameters()), "lr": self.recipe.head_learning_rate}]
        if self._fixed is None:
            learned.append({"params": list(self.network.parameters()), "lr": self.recipe.learning_rate})
        # frozen weights need no saving
        self.modules = nn.ModuleDict({"heads": heads} | ({"encoder": self.network} if self._fixed is None else {}))
        self.optimizer = adam(learned, self.recipe.head_learning_rate, self.first.device)

    def encoded(self, rows: Rows, views: Sequence[int] | None = None) -> "Tensor":
        """Return vectors of some texts, [views, n, d]; of all views, or of those given."""
        import torch

        views = range(len(self.views)) if views is None else views
        if self._fixed is not None:
            return torch.stack([self._fixed[view][rows] for view in views])
        return torch.stack([self.views[view](rows) for view in views]) * self.memory["scale"]

    def vectors(self) -> "Tensor":
        """Return vectors of all texts from the encoder's current weights, without dropout, [n, d]."""
        return self._fixed[0] if self._fixed is not None else self.views[0].vectors() * self.memory["scale"]

    def representations(self) -> "Tensor":
        """Return the encoder's vectors."""
        return self.vectors()

    def vectors_of(self, texts: Sequence[str]) -> "Tensor":
        """Return vectors of other texts, [n, d]."""
        return Encoded(self.network, texts, self.recipe.bf16).vectors() * self.memory["scale"]


class EncoderClusterer(DeepClusterer[E]):
    """Base class of clusterers that train an encoder on other texts of each text.

    Attributes
    ----------
    substituted : float, default=0.2
        Share of a text's words that contextual substitution replaces.
    """

    substituted: ClassVar[float] = 0.2

    @override
    def make_augmenter(self, task: str, texts: Sequence[str], model: Any) -> Augment:
        from traube.papers.aecl.augmentation import Contextual, Eda, Published, find_neighbors
        from traube.papers.aecl.readers import read_augmentations

        kind, _, folder = self.recipe.augmentation.partition(":")
        if kind == "contextual":
            return Contextual(resolve_path(paths.checkpoints(), folder), self.substituted)
        if kind == "eda":
            return Eda(find_neighbors(texts, model))
        return swap_or_delete if kind == "order" else Published(read_augmentations(task))


def encode_frozen(base: Base, views: Sequence[Encoded]) -> list["Tensor"]:
    """Return the encoder's own vectors of the texts and of their augmentations, float32 [n, d] each.

    The vectors of the last call are kept: other seeds and ablations of a task ask for the same ones.
    """
    keys = [digest([base.fingerprint, base.device, view.bf16, view.tokens]) for view in views]
    vectors = {key: _encoded[key] for key in keys if key in _encoded}
    for key, view in zip(keys, views, strict=True):
        if key not in vectors:
            vectors[key] = view.vectors()
    _encoded.clear()
    _encoded.update(vectors)
    return [vectors[key] for key in keys]
