"""Models that people pass as objects: a SentenceTransformer, a function from texts to vectors, or the vectors themselves."""

import hashlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from typing_extensions import override

from traube._core.errors import Failed, Malformed, TraubeError, first_line
from traube._core.hashing import digest
from traube.models.base import OwnEncoder
from traube.models.card import ModelCard
from traube.models.prompts import Purpose
from traube.models.transformer import Transformer, hash_weights
from traube.models.vectors import Dense, pack_matrix

Matrix: TypeAlias = Dense | sparse.csr_matrix


def make_name(text: str) -> str:
    """Return a model's name that is made of the name of a folder, a hub id or a function."""
    return re.sub(r"[^a-z0-9_.-]+", "_", text.rstrip("/").rpartition("/")[2].lower()).strip("_.-") or "model"


class LoadedTransformer(Transformer):
    """A SentenceTransformer that is in memory. Its weights and settings say which model it is.

    Parameters
    ----------
    network : SentenceTransformer
        Used as it is; nothing of it is changed.
    name : str, optional
        Name in tables. By default that of its folder.
    """

    trainable = False  # trainers start from a folder

    def __init__(self, network: Any, name: str | None = None, purpose: Purpose = "clustering") -> None:
        where = getattr(getattr(network[0], "config", None), "name_or_path", None) or "sentence-transformer"
        super().__init__(ModelCard(name=name or make_name(str(where))), network.device.type, purpose)
        self.__dict__["network"] = network

    @override
    def prompted_for(self, purpose: Purpose) -> "LoadedTransformer":
        other = LoadedTransformer(self.network, self.name, purpose)
        return self if other.prompt == self.prompt else other

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "network": self.network}

    def fetch(self) -> None:
        """Do nothing: the weights are in memory."""

    @property
    @override
    def weight_bytes(self) -> int:
        return self.load()

    @cached_property
    @override
    def precision(self) -> str:
        return "bf16" if str(next(self.network.parameters()).dtype) == "torch.bfloat16" else "fp32"

    @cached_property
    @override
    def fingerprint(self) -> str:
        settings = [str(self.network), self.prompt, self.network.max_seq_length]
        return digest([hash_weights(self.network), settings])


class FunctionModel(OwnEncoder):
    """A function that takes a list of texts and returns an array with a row for each.

    Whether a function has changed, and whether its vectors depend on other texts, is unknown. So vectors are not kept
    from one call to the next, and the function is given all texts at once.

    Parameters
    ----------
    function : callable
        Takes a list of str, returns an array or a sparse matrix of shape (n_texts, n_dimensions).
    name : str, optional
        Name in tables. By default the function's own.
    fingerprint : str, optional
        What says which function it is. By default it is like no other.

    Examples
    --------
    >>> from traube.models import FunctionModel
    >>> model = FunctionModel(lambda texts: [[len(text)] for text in texts], "length")
    >>> model.encode(["bread", "ship"]).tolist()
    [[5.0], [4.0]]
    """

    corpus_bound = True
    device = "cpu"
    weight_bytes = 0
    precision = ""

    def __init__(
        self, function: Callable[[list[str]], Any], name: str | None = None, fingerprint: str | None = None
    ) -> None:
        function_name = getattr(function, "__name__", type(function).__name__)
        self.name = name or ("function" if function_name == "<lambda>" else make_name(function_name))
        self.card = ModelCard(name=self.name)
        self.fingerprint = fingerprint or uuid.uuid4().hex[:16]
        self.numerics: Mapping[str, str] = {}
        self._function = function

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.name}')"

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors of texts, float32 (n_texts, n_dimensions)."""
        try:
            given = self._function(list(texts))
        except TraubeError:
            raise
        except Exception as error:
            raise Failed(f"model '{self.name}': fails on {len(texts)} texts ({first_line(error)})") from error
        try:
            to_matrix = sparse.csr_matrix if sparse.issparse(given) else np.asarray
            values: Matrix = to_matrix(given, dtype=np.float32)
        except (TypeError, ValueError):
            fault = f"it gave a {type(given).__name__}; return an array with a row for each text"
            raise Malformed(f"model '{self.name}': {fault}") from None
        if values.ndim != 2 or values.shape[0] != len(texts):
            fault = f"it gave {values.shape} for {len(texts)} texts; return a row of numbers for each"
            raise Malformed(f"model '{self.name}': {fault}")
        return values

    def encode_new(self, corpus: Sequence[str], texts: Sequence[str]) -> Matrix:
        """Return the vectors of other texts."""
        return self.encode(texts)


def wrap_embeddings(texts: Sequence[str], values: Matrix, name: str = "embeddings") -> FunctionModel:
    """Return the model that gives each of some texts its embedding; of equal texts, that of the first.

    Parameters
    ----------
    texts : sequence of str
        The texts.
    values : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        Their embeddings.
    name : str, default="embeddings"
        Name in tables.

    Returns
    -------
    FunctionModel
        The model.
    """
    row = {text: i for i, text in reversed(list(enumerate(texts)))}
    fingerprint = hashlib.blake2b(pack_matrix(values), digest_size=8)
    return FunctionModel(lambda wanted: values[[row[text] for text in wanted]], name, fingerprint.hexdigest())
