"""The protocol of models, which turn texts into vectors."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
from scipy.sparse import csr_matrix

from traube._core.arrays import Ints
from traube._core.errors import TooFew
from traube._core.hashing import digest
from traube.models.card import ModelCard
from traube.models.similarity import Similarity
from traube.models.vectors import Dense


class Model(Protocol):
    """A model that turns texts into vectors.

    Attributes
    ----------
    name : str
        The catalogue's name.
    card : ModelCard
        The entry in the catalogue, or a card of one's own.
    fingerprint : str
        Content hash that says exactly which model.
    corpus_bound : bool
        Whether the vectors depend on all the texts given (tf-idf's do, a transformer's do not).
    trainable : bool
        Whether a trainer can start from it.
    device : {"cuda", "mps", "cpu"}
        Where it computes.
    numerics : dict of str
        What computes the vectors (code and libraries), with versions.
    weight_bytes : int
        Size of its weights' files; 0 where there are none.
    precision : {"fp32", "bf16", ""}
        The precision in which its encoder computes; empty where it has no network.
    encoder : Model
        The model that the vectors are of: itself, unless it has a similarity.
    similarity : Similarity or None
        What compares the vectors of a split, where that is not up to a method; None for nearly all models.

    Examples
    --------
    >>> from traube import load_model
    >>> model = load_model("tfidf")
    >>> model.name, model.corpus_bound, model.device
    ('tfidf', True, 'cpu')
    """

    name: str
    card: ModelCard
    corpus_bound: bool
    trainable: bool

    @property
    def encoder(self) -> "Model":
        """The model that the vectors are of."""

    @property
    def similarity(self) -> Similarity | None:
        """Similarity of the vectors of a split, where the model has one."""

    @property
    def device(self) -> str:
        """Device that computes the vectors."""

    @property
    def weight_bytes(self) -> int:
        """Size of the weights' files in bytes."""

    @property
    def precision(self) -> str:
        """Precision of the network's numbers."""

    @property
    def numerics(self) -> Mapping[str, str]:
        """Code and libraries that compute the vectors, with versions."""

    @property
    def fingerprint(self) -> str:
        """Content hash of weights and settings."""

    def fetch(self) -> None:
        """Download what is not on this machine; do nothing without weights, or where the weights are a local folder.

        Raises
        ------
        Unavailable
            If it cannot be had.
        """

    def encode(self, texts: Sequence[str]) -> Dense | csr_matrix:
        """Return vectors, float32 [n, d], in the order of the texts."""

    def encode_new(self, corpus: Sequence[str], texts: Sequence[str]) -> Dense | csr_matrix:
        """Return vectors of texts that are not of the corpus, float32 [n, d], in the corpus' space."""


class Encoder(Model, Protocol):
    """A model whose vector of a text depends on that text alone, so that vectors can be cached.

    Examples
    --------
    >>> from traube import load_model
    >>> load_model("minilm").corpus_bound
    False
    """

    def load(self) -> int:
        """Bring the weights into memory, so that the first text takes no longer than others; return their bytes."""

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[Ints, Dense]]:
        """Yield vectors as they are computed: positions [b] in `texts`, and float32 [b, d]."""


class OfCard:
    """A model that a card describes. It is pickled as the card: what is loaded can be loaded again.

    Parameters
    ----------
    card : ModelCard
        The card.
    device : {"cuda", "mps", "cpu"}, optional
        Device of the network. By default the best one there is.
    """

    def __init__(self, card: ModelCard, device: str | None = None) -> None:
        self.card = card
        self.name = card.name
        self._device = device

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.name}')"

    def __getstate__(self) -> dict[str, Any]:
        return {"card": self.card, "name": self.name, "_device": self._device}


class OwnEncoder:
    """A model whose vectors are its own: no similarity, nothing that learns, and nothing to download."""

    trainable = False
    similarity: Similarity | None = None

    @property
    def encoder(self) -> Self:
        """The model itself."""
        return self

    def fetch(self) -> None:
        """Do nothing: there are no weights, or they are in memory."""


class BatchEncoder(OwnEncoder, ABC):
    """An encoder: the vector of a text depends on that text alone."""

    name: str
    corpus_bound = False

    @abstractmethod
    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[Ints, Dense]]:
        """Yield positions [b] and vectors, float32 [b, d], batch by batch."""

    def encode(self, texts: Sequence[str]) -> Dense:
        """Return vectors, float32 [n, d], in the order of the texts."""
        vectors: Dense | None = None
        for positions, block in self.encode_batches(texts):
            if vectors is None:
                vectors = np.empty((len(texts), block.shape[1]), dtype=np.float32)
            vectors[positions] = block
        if vectors is None:
            raise TooFew(f"model '{self.name}': there are no texts to encode")
        return vectors

    def encode_new(self, corpus: Sequence[str], texts: Sequence[str]) -> Dense:
        """Return vectors, float32 [n, d]: those of `encode`, whatever the corpus."""
        return self.encode(texts)


def fingerprint_on(model: Model, corpus_version: str) -> str:
    """Return the fingerprint of a model on a corpus: for a corpus-bound model the fingerprint also hashes the corpus.

    Parameters
    ----------
    model : Model
        The model.
    corpus_version : str
        Content hash of the corpus.

    Returns
    -------
    str
        Content hash that says exactly which vectors the model makes.

    Examples
    --------
    >>> from traube.models import fingerprint_on, load_model
    >>> model = load_model("tfidf")
    >>> fingerprint_on(model, "one") == fingerprint_on(model, "another")
    False
    """
    return digest([model.fingerprint, corpus_version]) if model.corpus_bound else model.fingerprint
