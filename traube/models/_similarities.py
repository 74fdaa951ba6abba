"""Similarities that need no training. A model's card names the one that compares its vectors."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from typing_extensions import override

from traube._core.hashing import digest
from traube.models._card import ModelCard
from traube.models._similarity import Query, Similarity
from traube.models._vectors import Dense

ROUNDING = 1e-6  # share of the largest singular value; smaller values are no directions


@dataclass(frozen=True)
class UntrainedSimilarity(Similarity):
    """A similarity without weights, whose fields are its settings."""

    @property
    def fingerprint(self) -> str:
        """Content hash of the similarity and its settings."""
        return digest(["untrained", type(self).__name__, vars(self)])


@dataclass(frozen=True)
class Jaccard(UntrainedSimilarity):
    """The share of the words of two texts, rows of 0 and 1, that are in both; 0 for texts without words."""

    @override
    def compare(self, X: Any, query: Dense | None) -> Dense:
        common = _dense(X @ X.T)
        sizes = np.asarray(X.sum(axis=1)).ravel()
        either = sizes[:, None] + sizes - common
        return np.divide(common, either, out=np.zeros_like(common), where=either > 0)


@dataclass(frozen=True)
class JensenShannon(UntrainedSimilarity):
    """One less the Jensen-Shannon divergence of two distributions (rows of at least 0, sum 1): 1 for equal ones."""

    @override
    def compare(self, X: Any, query: Dense | None) -> Dense:
        return 1 - _divergence(X)


@dataclass(frozen=True)
class Divergence(UntrainedSimilarity):
    """The Jensen-Shannon divergence, taken for a similarity: what differs most is most alike.

    A topic model is worse than chance by it (AUC .464), which is how it was once measured.
    """

    @override
    def compare(self, X: Any, query: Dense | None) -> Dense:
        return _divergence(X)


def _divergence(X: Any) -> Dense:
    """Return the Jensen-Shannon divergence between all rows in bits, float32 [n, n] in [0, 1]."""
    from scipy.spatial.distance import pdist, squareform

    rows = _dense(X).astype(np.float64)
    roots = pdist(rows, "jensenshannon")  # SciPy gives the root of the divergence
    if np.isfinite(rows).all():
        roots = np.nan_to_num(roots)  # nearly equal rows give the root of a negative number, by rounding
    return np.asarray(np.minimum(squareform(roots) ** 2 / np.log(2), 1), dtype=np.float32)


@dataclass(frozen=True)
class QuerySpace(UntrainedSimilarity):
    """Nearness of passages in the part of the space that the query's nearest passages span.

    This space holds what the passages have in common with the query, and leaves out what else they are about. The
    nearest passages are a share of all passages: twenty are most of a page of TREC CAR, but few of 250 abstracts.
    """

    share: float = 0.75  # of the passages, in (0, 1]: the nearest by the cosine; no fewer than the directions
    directions: int = 5  # dimensions of their span that are kept at most: those of the largest singular values
    metric: Literal["euclidean", "cosine"] = "cosine"  # euclidean: the negative distance
    query: Query = "text"  # or the mean of the passages (`passages`)
    by_pairs = False

    @override
    def compare(self, X: Any, query: Dense | None) -> Dense:
        from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances

        assert query is not None
        vectors = _dense(X).astype(np.float64)
        near = cosine_similarity(vectors, query[None])[:, 0]
        count = max(self.directions, math.ceil(self.share * len(vectors)))
        nearest = np.argsort(-near, kind="stable")[:count]
        _, strengths, directions = np.linalg.svd(vectors[nearest], full_matrices=False)
        space = directions[: self.directions][strengths[: self.directions] > ROUNDING * strengths[0]]

        places = vectors @ space.T
        alike = cosine_similarity(places) if self.metric == "cosine" else -euclidean_distances(places)
        return np.asarray(alike, dtype=np.float32)


def _dense(X: Any) -> NDArray[Any]:
    return np.asarray(X.toarray() if issparse(X) else X)


def get_similarity(card: ModelCard) -> UntrainedSimilarity:
    """Return the similarity that a card names."""
    known: dict[str | None, UntrainedSimilarity] = {
        "jaccard": Jaccard(),
        "jensen_shannon": JensenShannon(),
        "divergence": Divergence(),
        "query_space": QuerySpace(card.share, card.directions),
    }
    return known[card.similarity]
