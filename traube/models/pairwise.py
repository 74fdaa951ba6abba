"""Similarities as models: an encoder, and a comparison of its vectors.

A card of the catalogue names a similarity without training (`Compared`). A checkpoint holds both, and its encoder's
files are those of its base model, so that nothing is encoded again.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from traube._core.hashing import digest
from traube.models._similarities import UntrainedSimilarity
from traube.models.base import Encoder, Model, OfCard
from traube.models.card import ModelCard
from traube.models.similarity import SIMILARITY_VERSION, TrainedSimilarity
from traube.models.transformer import Transformer


class DelegateMixin:
    """A model that computes with the device, numerics and precision of another one."""

    _other: Any

    @property
    def device(self) -> str:
        """The device that encodes."""
        return str(self._other.device)

    @property
    def weight_bytes(self) -> int:
        """Number of bytes of the weights in memory."""
        return int(self._other.weight_bytes)

    @property
    def precision(self) -> str:
        """The precision of the computation."""
        return str(self._other.precision)

    @property
    def numerics(self) -> dict[str, str]:
        """The versions of what the numbers depend on."""
        return dict(self._other.numerics)

    def fetch(self) -> None:
        """Download the weights, if they are not here."""
        self._other.fetch()


class _OfEncoder(DelegateMixin):
    """A model whose vectors are its encoder's."""

    trainable = False
    encoder: Any

    @property
    def _other(self) -> Any:
        return self.encoder

    @property
    def numerics(self) -> dict[str, str]:
        return {**self.encoder.numerics, "similarity": SIMILARITY_VERSION}

    def encode(self, texts: Sequence[str]) -> Any:
        return self.encoder.encode(texts)

    def encode_new(self, corpus: Sequence[str], texts: Sequence[str]) -> Any:
        return self.encoder.encode_new(corpus, texts)


class Pairwise(OfCard, _OfEncoder):
    """A trained similarity: the model of a card of kind `pairwise`."""

    corpus_bound = False

    @cached_property
    def similarity(self) -> TrainedSimilarity:
        """The similarity that compares the vectors; see `TrainedSimilarity.at`."""
        return TrainedSimilarity.at(Path(self.card.model or ""))

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder with the settings of the checkpoint, as the network reads texts."""
        config = self.similarity.config
        settings = config.model_dump(include={"prompt", "max_length", "pooling", "precision"})
        card = ModelCard(name=self.card.name, kind="transformer", model=self.card.model, **settings)
        return config.offered.read(Transformer(card, self._device))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the encoder and of the similarity."""
        return digest(["pairwise", self.encoder.fingerprint, self.similarity.fingerprint])

    def fetch(self) -> None:
        """Do nothing: a checkpoint is a folder on this machine."""


class Compared(_OfEncoder):
    """A model whose vectors are its encoder's, cached with those, and are compared by a similarity without weights."""

    def __init__(self, card: ModelCard, encoder: Model, similarity: UntrainedSimilarity) -> None:
        self.card = card
        self.name = card.name
        self.corpus_bound = encoder.corpus_bound
        self.encoder = encoder
        self.similarity = similarity

    @property
    def fingerprint(self) -> str:
        """Hash of the encoder and of the similarity."""
        return digest(["compared", self.encoder.fingerprint, self.similarity.fingerprint])
