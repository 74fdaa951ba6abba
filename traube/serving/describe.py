"""What a cluster is about: its key words and its typical texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube.models.base import Dense


def keywords(texts: Sequence[str], clusters: NDArray[np.int64], count: int = 8) -> dict[int, list[str]]:
    """The words that set each cluster apart, by c-TF-IDF: tf(word, cluster) * ln(1 + A / f(word)).

    tf is the word's share of the cluster's words, f its count over all clusters and A the mean
    number of words a cluster. Noise (-1) is left out.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    ids = [int(c) for c in np.unique(clusters) if c >= 0]
    if not ids:
        return {}
    try:
        vectorizer = CountVectorizer(stop_words="english", token_pattern=r"(?u)\b[^\W\d]\w+\b")  # noqa: S106
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # no words at all
        return {c: [] for c in ids}
    member = sparse.csr_matrix(np.stack([clusters == c for c in ids]).astype(np.float64))
    by_cluster = (member @ counts).toarray()
    weight = np.log(1 + by_cluster.sum(axis=1).mean() / np.maximum(by_cluster.sum(axis=0), 1))
    score = by_cluster / np.maximum(by_cluster.sum(axis=1, keepdims=True), 1) * weight
    words = vectorizer.get_feature_names_out()
    return {
        c: [str(words[j]) for j in np.argsort(-row, kind="stable")[:count] if row[j] > 0]
        for c, row in zip(ids, score, strict=True)
    }


def distances(vectors: Dense | sparse.csr_matrix, clusters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Euclidean distance of each text to the mean of its cluster, float64 [n]; nan for noise."""
    distance = np.full(len(clusters), np.nan)
    for c in np.unique(clusters[clusters >= 0]):
        rows = np.flatnonzero(clusters == c)
        block: Any = vectors[rows]
        dense = block.toarray() if sparse.issparse(block) else np.asarray(block)
        distance[rows] = np.linalg.norm(dense - dense.mean(axis=0), axis=1)
    return distance


def mean_distances(pairs: Dense, clusters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean distance of each text to the others of its cluster, float64 [n]; 0 where it is alone, nan
    for noise.

    Parameters
    ----------
    pairs : float [n, n], the distances of all pairs, 0 on the diagonal
    """
    distance = np.full(len(clusters), np.nan)
    for c in np.unique(clusters[clusters >= 0]):
        rows = np.flatnonzero(clusters == c)
        distance[rows] = pairs[np.ix_(rows, rows)].sum(axis=1, dtype=np.float64) / max(1, len(rows) - 1)
    return distance


def typical(clusters: NDArray[np.int64], distance: NDArray[np.float64], count: int = 3) -> dict[int, list[int]]:
    """Positions of the texts of each cluster with the smallest distances."""
    nearest = {}
    for c in np.unique(clusters[clusters >= 0]):
        rows = np.flatnonzero(clusters == c)
        nearest[int(c)] = [int(i) for i in rows[np.argsort(distance[rows], kind="stable")[:count]]]
    return nearest
