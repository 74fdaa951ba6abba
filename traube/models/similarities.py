"""Similarities that need no training. A model's card names the one that compares its vectors."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from traube.core.hashing import digest
from traube.models.card import ModelCard
from traube.models.similarity import Query, Similarity
from traube.models.vectors import Dense

ROUNDING = 1e-6  # of the largest singular value: what is smaller is no direction


@dataclass(frozen=True)
class Untrained(Similarity):
    """A similarity without weights, whose fields are its settings."""

    @property
    def fingerprint(self) -> str:
        """Content hash of what it is and its settings."""
        return digest(["untrained", type(self).__name__, vars(self)])


@dataclass(frozen=True)
class Jaccard(Untrained):
    """The share of the words of two texts that are in both; 0 for texts without words.

    It compares rows of 0 and 1, sparse or dense.
    """

    def compare(self, X: Any, query: Dense | None) -> Dense:
        common = _dense(X @ X.T)
        sizes = np.asarray(X.sum(axis=1)).ravel()
        either = sizes[:, None] + sizes - common
        return np.divide(common, either, out=np.zeros_like(common), where=either > 0)


@dataclass(frozen=True)
class JensenShannon(Untrained):
    """One less the Jensen-Shannon divergence of two distributions, in [0, 1]: 1 for equal ones.

    It compares rows that are at least 0 and sum to 1.
    """

    def compare(self, X: Any, query: Dense | None) -> Dense:
        return 1 - _divergence(X)


@dataclass(frozen=True)
class Divergence(Untrained):
    """The Jensen-Shannon divergence, taken for a similarity: what differs most is most alike.

    This is how QS3M's code reads it, and why its topic model is worse than chance (AUC .464).
    """

    def compare(self, X: Any, query: Dense | None) -> Dense:
        return _divergence(X)


def _divergence(X: Any) -> Dense:
    """The Jensen-Shannon divergence between all rows in bits, float32 [n, n] in [0, 1]."""
    from scipy.spatial.distance import pdist, squareform

    rows = _dense(X).astype(np.float64)
    roots = pdist(rows, "jensenshannon")  # SciPy gives the root of the divergence
    if np.isfinite(rows).all():
        roots = np.nan_to_num(roots)  # of nearly equal rows: a root of less than 0, by rounding
    return np.asarray(np.minimum(squareform(roots) ** 2 / np.log(2), 1), dtype=np.float32)


@dataclass(frozen=True)
class QuerySpace(Untrained):
    """How near passages are in the part of the space that the query's nearest passages span.

    What they have in common with the query leads them there; what else they are about is left out.
    The nearest are a share of the passages: twenty are most of a page of TREC CAR, but few of 250
    abstracts.

    Attributes
    ----------
    share : of the passages that count as the nearest, by the cosine to the query, in (0, 1]; they
        are no fewer than the directions
    directions : at most so many dimensions of their span are kept: those of the largest singular
        values
    metric : how they are compared there: the negative Euclidean distance, or the cosine
    query : the text of the split's query, or the mean of the passages (`passages`)
    """

    share: float = 0.75
    directions: int = 5
    metric: Literal["euclidean", "cosine"] = "cosine"
    query: Query = "text"
    by_pairs = False

    def compare(self, X: Any, query: Dense | None) -> Dense:
        from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances

        assert query is not None
        vectors = _dense(X).astype(np.float64)
        places = vectors @ self._space(vectors, query).T
        alike = cosine_similarity(places) if self.metric == "cosine" else -euclidean_distances(places)
        return np.asarray(alike, dtype=np.float32)

    def _space(self, vectors: NDArray[np.float64], query: Dense) -> NDArray[np.float64]:
        """Orthogonal directions, float64 [directions or fewer, d]."""
        from sklearn.metrics.pairwise import cosine_similarity

        near = cosine_similarity(vectors, query[None])[:, 0]
        count = max(self.directions, math.ceil(self.share * len(vectors)))
        nearest = np.argsort(-near, kind="stable")[:count]
        _, strengths, directions = np.linalg.svd(vectors[nearest], full_matrices=False)
        return np.asarray(directions[: self.directions][strengths[: self.directions] > ROUNDING * strengths[0]])


def _dense(X: Any) -> NDArray[Any]:
    return np.asarray(X.toarray() if issparse(X) else X)


_OF_CARD: dict[str, Callable[[ModelCard], Untrained]] = {
    "jaccard": lambda card: Jaccard(),
    "jensen_shannon": lambda card: JensenShannon(),
    "divergence": lambda card: Divergence(),
    "query_space": lambda card: QuerySpace(card.share, card.directions),
}


def named(card: ModelCard) -> Untrained:
    """The similarity that a card names."""
    assert card.similarity is not None
    return _OF_CARD[card.similarity](card)
