"""Similarities that need no training. A model's card names the one that compares its vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.spatial.distance import pdist, squareform

from traube.foundation.files import digest
from traube.models.base import Dense, ModelCard
from traube.models.similarity import Similarity


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
    rows = _dense(X).astype(np.float64)
    roots = pdist(rows, "jensenshannon")  # SciPy gives the root of the divergence
    if np.isfinite(rows).all():
        roots = np.nan_to_num(roots)  # of nearly equal rows: a root of less than 0, by rounding
    return np.asarray(np.minimum(squareform(roots) ** 2 / np.log(2), 1), dtype=np.float32)


def _dense(X: Any) -> NDArray[Any]:
    return np.asarray(X.toarray() if issparse(X) else X)


_OF_CARD: dict[str, Callable[[], Untrained]] = {
    "jaccard": Jaccard,
    "jensen_shannon": JensenShannon,
    "divergence": Divergence,
}


def named(card: ModelCard) -> Untrained:
    """The similarity that a card names."""
    assert card.similarity is not None
    return _OF_CARD[card.similarity]()
