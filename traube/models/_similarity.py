"""Similarities that compare the items of a split, where that is not just a distance of vectors.

A trained similarity lies in `similarity/` of a checkpoint: `config.json` describes it, `model.safetensors` holds its
weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import psutil
from pydantic import Field, model_validator
from scipy import sparse
from typing_extensions import override

from traube._core.arrays import Floats
from traube._core.config import Strict, parse
from traube._core.errors import Changed, DoesNotFit, Failed, Invalid, Malformed
from traube._core.hashing import digest, get_sha256
from traube._core.plugins import collect, import_plugins
from traube.models._card import Precision
from traube.models._model_files import ModelFile
from traube.models._vectors import Dense
from traube.models._weights import Stamp, get_stamp

# Raise when the same weights would compare otherwise: what follows from them is computed again.
SIMILARITY_VERSION = "1"
FOLDER = "similarity"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
LARGEST_CONFIG = 100_000  # bytes
GIB = 2**30
MATRICES = 6  # square ones of double precision that are held at once while items are compared
NEW_AT_ONCE = 256  # items that are compared with a page
ROUNDING = 1e-6  # of a similarity: items that differ by less are equally alike

Query: TypeAlias = Literal["none", "text", "passages"]


class Similarity(ABC):
    """A comparison of the items of a split, perhaps given a query.

    Examples
    --------
    >>> from traube import load_model
    >>> load_model("jaccard").similarity.query
    'none'
    """

    # what the comparison needs besides the items: nothing, the text of the split's query, or the mean of the items' vectors
    query: Query = "none"
    # whether the similarity of two items depends on them and the query alone, not on the others of the split
    by_pairs: ClassVar[bool] = True

    @abstractmethod
    def compare(self, X: Any, query: Dense | None) -> Dense:
        """Return how alike the items are, float32 [n, n], symmetric; larger is more alike.

        Parameters
        ----------
        X : array-like of shape (n_items, n_dimensions)
            A row is an item.
        query : ndarray of float32 of shape (n_dimensions,), or None
            The vector of the query, where `query` is not `none`.

        Returns
        -------
        ndarray of float32 of shape (n_items, n_items)
            The similarities.
        """

    def distances(self, X: Any, text: Dense | None = None, memory_bytes: int | None = None) -> Dense:
        """Return distances between the items of a split, float32 [n, n] in [0, 1], 0 on the diagonal.

        Similarities are scaled to [0, 1] on each page; items that are all equally alike are all 1 apart.

        Parameters
        ----------
        X : array-like of shape (n_items, n_dimensions)
            A row is an item.
        text : ndarray of float32 of shape (n_dimensions,), optional
            The vector of the split's query, which `text` asks for.
        memory_bytes : int, optional
            Memory that may be used. By default half of the memory that is free.

        Returns
        -------
        ndarray of float32 of shape (n_items, n_items)
            The distances.

        Raises
        ------
        TraubeError
            If a similarity is not finite.
        DoesNotFit
            If the pairs would not fit the memory.
        """
        _check_memory(X.shape[0], memory_bytes)
        alike = self._compare_finite(X, self.make_query(X, text))
        distances = _make_distances(alike, alike)
        np.fill_diagonal(distances, 0)
        return distances

    def distances_to(self, page: Any, new: Any, text: Dense | None = None) -> Dense:
        """Return distances of new items to those of a page, float32 [k, n], in the scale of the page's.

        They are below 0 where two are more alike than any of the page's, and above 1 where less.

        Parameters
        ----------
        page : array-like of shape (n_items, n_dimensions)
            A row is an item; a query that is made of the items is made of these.
        new : array-like of shape (n_new, n_dimensions)
            The new items.
        text : ndarray of float32 of shape (n_dimensions,), optional
            As in `distances`.

        Returns
        -------
        ndarray of float32 of shape (n_new, n_items)
            The distances.
        """
        n, query = page.shape[0], self.make_query(page, text)
        at_once = NEW_AT_ONCE if self.by_pairs else 1  # where a new item changes the others, each is compared alone
        _check_memory(n + min(new.shape[0], at_once), None)
        stack = sparse.vstack if sparse.issparse(page) else np.vstack
        page_scores = self._compare_finite(page, query)
        blocks = [new[start : start + at_once] for start in range(0, new.shape[0], at_once)]
        return np.concatenate(
            [
                _make_distances(self._compare_finite(stack([page, block]), query)[n:, :n], page_scores)
                for block in blocks
            ]
        )

    def _compare_finite(self, X: Any, query: Dense | None) -> Floats:
        alike = self.compare(X, query).astype(np.float64)
        if not np.isfinite(alike).all():
            raise Failed("a similarity is NaN or infinite: the weights are broken")
        return alike

    def make_query(self, X: Any, text: Dense | None) -> Dense | None:
        """Return the query's vector, float32 [d]: the text's, or made of the items."""
        if self.query == "none":
            return None
        if self.query == "passages":
            return np.asarray(X.mean(axis=0), dtype=np.float32).ravel()
        if text is None:
            raise Invalid("there is no query, and this similarity compares for one")
        return text


def bytes_of_distances(n: int) -> int:
    """Return the memory, in bytes, for comparing n items with each other."""
    return MATRICES * 8 * n**2


def _check_memory(n: int, memory_bytes: int | None) -> None:
    """Refuse to compare n items with each other where the result would not fit the memory."""
    budget = psutil.virtual_memory().available // 2 if memory_bytes is None else memory_bytes
    if (needed := bytes_of_distances(n)) > budget:
        raise DoesNotFit(
            f"the distances of {n:,} texts need {needed / GIB:.1f} GiB, "
            f"and {budget / GIB:.1f} GiB may be used: compare fewer"
        )


def _make_distances(alike: Floats, page: Floats) -> Dense:
    """Convert similarities [m, n] to distances: 0 for the most alike pair of a page [n, n], 1 for its least."""
    pairs = page[~np.eye(len(page), dtype=bool)]
    low, high = (pairs.min(), pairs.max()) if len(pairs) else (0.0, 0.0)
    if high - low <= ROUNDING * max(abs(low), abs(high)):
        return np.ones(alike.shape, dtype=np.float32)
    return np.asarray(1 - (alike - low) / (high - low), dtype=np.float32)


class SimilarityConfig(Strict):
    """Description of a trained similarity."""

    network: str
    query: Query
    dimensions: int = Field(ge=1, le=100_000, description="length of a vector")
    projection: Literal["coded", "printed"] = "coded"
    output: Literal["relu", "sigmoid"] = "relu"
    masked: bool = True
    symmetric: bool = Field(True, description="False: of both orders of a pair that of the items counts")
    # with which its encoder gives vectors, as in a model's card
    prompt: str | None = None
    max_length: int | None = Field(None, ge=4, le=1_000_000)
    pooling: Literal["mean", "cls", "max", "lasttoken", "weightedmean"] | None = None
    precision: Precision = "fp32"

    @model_validator(mode="after")
    def _is_of_a_network(self) -> Self:
        network = find_networks().get(self.network)
        if network is None:
            raise ValueError(f"network: expected one of {', '.join(find_networks())}, not {self.network[:40]!r}")
        if self.query == "none" and network.needs_query:
            raise ValueError(f"{self.network} compares for a query, and query is none")
        return self

    @property
    def offered(self) -> "Network":
        """The network that a plug-in offers by this name."""
        return find_networks()[self.network]


@dataclass(frozen=True)
class TrainedSimilarity(Similarity):
    """A trained similarity. Its weights are loaded where they are first needed: it is sent to worker processes."""

    folder: Path  # `similarity/` of a checkpoint
    stamps: tuple[Stamp, Stamp]  # of its two files
    config: SimilarityConfig

    @classmethod
    def at(cls, checkpoint: Path) -> Self:
        """Return the similarity of a checkpoint."""
        file = ModelFile(checkpoint, f"{FOLDER}/{CONFIG}")
        entry = file.parse(LARGEST_CONFIG)
        if not isinstance(entry, dict):
            raise Malformed(f"{file.path}: expected an object of settings")
        config = parse(SimilarityConfig, entry, file.path, {})
        ModelFile(checkpoint, f"{FOLDER}/{WEIGHTS}").locate()
        return cls(checkpoint / FOLDER, _stamps(checkpoint / FOLDER), config)

    @property
    @override
    def query(self) -> Query:  # type: ignore[override]
        return self.config.query

    @property
    def fingerprint(self) -> str:
        """Hash of the network's configuration and weights."""
        names = zip((CONFIG, WEIGHTS), self.stamps, strict=True)
        return digest([get_sha256(self.folder / name, state) for name, state in names])

    @override
    def compare(self, X: Any, query: Dense | None) -> Dense:
        dimensions, vectors = self.config.dimensions, self.config.offered.vectors
        if X.shape[1] != dimensions * vectors:
            raise Malformed(
                f"{self.folder / CONFIG}: dimensions: {dimensions}, and the vectors of its encoder are others "
                f"(a passage has {X.shape[1]} numbers{f' in {vectors} vectors' if vectors > 1 else ''})"
            )
        if query is not None:
            query = query[:dimensions]  # the whole text's vector stands first
        return page_similarities(_load_once(self), self.config.symmetric, X, query)


def _stamps(folder: Path) -> tuple[Stamp, Stamp]:
    return get_stamp(folder / CONFIG), get_stamp(folder / WEIGHTS)


def page_similarities(network: Any, symmetric: bool, X: Any, query: Dense | None) -> Dense:
    """Return what a network says of all pairs of a page, float32 [n, n], symmetric."""
    import torch

    device = next(network.parameters()).device

    def tensor(values: Dense) -> "torch.Tensor":
        # a copy: an array mapped from a file is read-only
        return torch.from_numpy(np.array(values, dtype=np.float32)).to(device)

    with torch.inference_mode():
        similarities = network.page(tensor(X), None if query is None else tensor(query)).cpu().numpy()
    if symmetric:
        return similarities / 2 + similarities.T / 2  # the sum of large ones could be infinite
    upper = np.triu(similarities)
    return upper + np.triu(similarities, 1).T


@lru_cache(maxsize=4)
def _load_once(similarity: TrainedSimilarity) -> Any:
    network = load_network(similarity)
    if _stamps(similarity.folder) != similarity.stamps:  # otherwise results would be stored under another fingerprint
        raise Changed(f"{similarity.folder}: its files changed while they were read; run again")
    return network


def load_network(similarity: TrainedSimilarity) -> Any:
    """Load the network of a trained similarity."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    with torch.device("meta"):  # without values: a description may ask for more than fits the memory
        network = make_network(similarity.config)
    file = ModelFile(similarity.folder.parent, f"{FOLDER}/{WEIGHTS}")
    try:
        weights = load_file(file.locate())
        # copies: tensors mapped from a file would change with the file, or end the process with it
        network.load_state_dict({name: values.clone() for name, values in weights.items()}, assign=True)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise Malformed(
            f"{file.path}: no weights of a {similarity.config.network} ({' '.join(str(error).split())[:200]})"
        ) from None
    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    if other := next((values.dtype for values in weights.values() if values.dtype not in kinds), None):
        raise Malformed(f"{file.path}: its weights are {other}, not real numbers of 16 to 64 bits")
    if not all(bool(values.isfinite().all()) for values in weights.values()):
        raise Malformed(f"{file.path}: NaN or infinity in its weights")
    return network.float().eval()


@dataclass(frozen=True)
class Network:
    """A network of trained similarities, which a plug-in offers."""

    make: Callable[[SimilarityConfig], Any]  # with random weights
    needs_query: bool = True
    vectors: int = 1  # of a text, in one row: first that of the whole text
    read: Callable[[Any], Any] = lambda encoder: encoder  # the checkpoint's encoder as one that gives these vectors


@cache
def find_networks() -> dict[str, Network]:
    """Return the networks by the name that a description gives."""
    offered = (module.NETWORKS.items() for _, module in import_plugins("similarities"))
    return collect("network", (network for networks in offered for network in networks))


def make_network(config: SimilarityConfig) -> Any:
    """Return the network of a description, with random weights."""
    return config.offered.make(config)
