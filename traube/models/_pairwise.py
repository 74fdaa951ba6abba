"""Similarities as models: an encoder, and a comparison of its vectors.

A card of the catalogue names a similarity without training (`Compared`). A checkpoint holds both, and its encoder's
files are those of its base model, so that nothing is encoded again.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from traube._core.arrays import Ints
from traube._core.hashing import digest
from traube.models._base import BatchEncoder, Encoder, Model, OfCard
from traube.models._card import ModelCard
from traube.models._similarities import UntrainedSimilarity
from traube.models._similarity import SENTENCES, SIMILARITY_VERSION, TrainedSimilarity
from traube.models._transformer import Transformer
from traube.models._vectors import Dense

TEXTS_AT_ONCE = 256
_END_OF_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’»)\]]))\s+")  # perhaps with a quotation's end


class _DelegateMixin:
    """A model that computes with the device, numerics and precision of another one."""

    _other: Any

    @property
    def device(self) -> str:
        return str(self._other.device)

    @property
    def weight_bytes(self) -> int:
        return int(self._other.weight_bytes)

    @property
    def precision(self) -> str:
        return str(self._other.precision)

    @property
    def numerics(self) -> dict[str, str]:
        return dict(self._other.numerics)

    def fetch(self) -> None:
        self._other.fetch()


class _OfEncoder(_DelegateMixin):
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
        """The encoder with the settings of the checkpoint; with sentences, if the network attends to them."""
        config = self.similarity.config
        settings = config.model_dump(include={"prompt", "max_length", "pooling", "precision"})
        card = ModelCard(name=self.card.name, kind="transformer", model=self.card.model, **settings)
        base = Transformer(card, self._device)
        return Sentences(base) if config.reads_sentences else base

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


class Sentences(_DelegateMixin, BatchEncoder):
    """An encoder of whole texts and their first sentences.

    The vector of a text is the whole text's and those of its first sentences, one after the other: float32
    [n, (1 + SENTENCES) d], with zeros where a text has fewer.
    """

    def __init__(self, base: Transformer) -> None:
        self.base = self._other = base
        self.name = base.name
        self.card = base.card

    @property
    def fingerprint(self) -> str:
        """Return a hash of the way sentences are split and of the encoder's fingerprint."""
        return digest(["split_sentences", SENTENCES, _END_OF_SENTENCE.pattern, self.base.fingerprint])

    def load(self) -> int:
        """Bring the encoder's weights into memory; return their bytes."""
        return self.base.load()

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[Ints, Dense]]:
        """Yield vectors in the order of the texts, some at once: positions and float32 [b, (1 + SENTENCES) d]."""
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            pieces = [[text, *split_sentences(text)[:SENTENCES]] for text in texts[start : start + TEXTS_AT_ONCE]]
            different = list(dict.fromkeys(piece for of_text in pieces for piece in of_text))
            vectors, row = self.base.encode(different), {piece: i for i, piece in enumerate(different)}
            block = np.zeros((len(pieces), 1 + SENTENCES, vectors.shape[1]), dtype=np.float32)
            for i, of_text in enumerate(pieces):
                block[i, : len(of_text)] = vectors[[row[piece] for piece in of_text]]
            yield np.arange(start, start + len(pieces)), block.reshape(len(pieces), -1)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, at least one.

    A sentence ends with a full stop, exclamation or question mark, perhaps a closing quotation mark or bracket, and white
    space. (Abbreviations end some too early; attention weighs the halves.)
    """
    return [piece for part in _END_OF_SENTENCE.split(text) if (piece := part.strip())] or [text]
