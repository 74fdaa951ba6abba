"""GSDMM, the Dirichlet multinomial mixture of Yin & Wang (KDD 2014) by collapsed Gibbs sampling."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags, check_random_state

from traube.components._estimators.compiled import compiled
from traube.components._spherical import Labels
from traube.papers.aecl.words import split_words

Counts = NDArray[np.int32]
# Where each text's words begin, as in a csr matrix, [n + 1]; numbers of its different words and how often each is in it.
Words: TypeAlias = tuple[NDArray[np.int64], Counts, Counts]


@dataclass(eq=False, repr=False)
class Gsdmm(ClusterMixin, BaseEstimator):
    """Dirichlet multinomial mixture: a text is drawn from one cluster's distribution over words.

    Both distributions, over clusters and over words, have Dirichlet priors.

    Every text in turn leaves its cluster and draws a cluster again, with

        p(z_d = k | rest)  ~  (m_k + alpha)  prod_w prod_{j=1..N_dw} (n_k^w + beta + j - 1)
                                           / prod_{i=1..N_d} (n_k + V beta + i - 1)

    (equation 4), where m_k texts and n_k words are in cluster k without d, n_k^w of them w, N_dw is how
    often w is in d, N_d the number of its words and V that of different words. Clusters that lose
    their last text mostly stay empty, so what is left is the number of clusters.

    Words are runs of letters and digits, lower-cased. A text without any word says nothing of where
    it belongs, and is noise.

    Parameters
    ----------
    most : int, default=500
        Number of clusters to begin with, at most the number of texts; there are never more.
    alpha : float, default=0.1
        How readily a text takes an empty cluster.
    beta : float, default=0.1
        How readily a text takes a cluster without its words; the larger, the fewer clusters there are.
    sweeps : int, default=30
        Number of sweeps over all texts.
    random_state : int, optional
        Seed.

    Attributes
    ----------
    labels_ : ndarray of shape (n_texts,)
        Cluster of each text, int64, from 0 in the order of the first text of each cluster; -1 where a text has no word.
    n_clusters_ : int
        Clusters that are not empty.
    """

    most: int = 500
    alpha: float = 0.1
    beta: float = 0.1
    sweeps: int = 30
    random_state: int | None = None

    def fit(self, X: Sequence[str], y: None = None) -> Self:
        """Fit on texts."""
        (begins, words, times), vocabulary = count_words(X)
        self.labels_: Labels = np.full(len(X), -1, dtype=np.int64)
        worded = np.flatnonzero(np.diff(begins))
        random = check_random_state(self.random_state)
        if len(worded):
            k = min(self.most, len(worded))
            drawn = random.randint(k, size=len(worded)).astype(np.int64)
            seed = int(random.randint(2**31 - 1))
            begins = np.append(begins[worded], begins[-1])  # texts without words have none between
            sample((begins, words, times), drawn, (k, vocabulary), self.alpha, self.beta, self.sweeps, seed)
            self.labels_[worded] = pd.factorize(drawn)[0]  # from 0, in the order in which they first occur
        self.n_clusters_ = int(self.labels_.max(initial=-1)) + 1
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def count_words(texts: Iterable[str]) -> tuple[Words, int]:
    """Return how often each word is in each text, and the number of different words of all texts."""
    number: dict[str, int] = {}
    counted = [Counter(number.setdefault(word, len(number)) for word in split_words(text)) for text in texts]
    begins = np.cumsum([0, *map(len, counted)], dtype=np.int64)
    size = int(begins[-1])
    words = np.fromiter(chain.from_iterable(counted), dtype=np.int32, count=size)
    times = np.fromiter(chain.from_iterable(counts.values() for counts in counted), dtype=np.int32, count=size)
    return (begins, words, times), len(number)


@compiled
def sample(X: Any, clusters: Any, shape: tuple[int, int], alpha: float, beta: float, sweeps: int, seed: int) -> None:
    """Draw the cluster of every text again, sweep by sweep, in place.

    Parameters
    ----------
    X : Words
        Counts from `count_words`; every text has a word.
    clusters : ndarray of shape (n_texts,)
        Clusters to begin with, int64.
    shape : tuple of int
        Number of clusters, and of different words.
    """
    np.random.seed(seed)  # noqa: NPY002 (numba's own generator)
    k, vocabulary = shape
    texts = np.zeros(k)  # m_k
    total = np.zeros(k)  # n_k
    counts = np.zeros((vocabulary, k))  # n_k^w, a word's clusters side by side
    for d in range(len(clusters)):
        _move(X, d, clusters[d], 1, texts, total, counts)
    weight, log_weight = np.empty(k), np.empty(k)
    for _ in range(sweeps):
        for d in range(len(clusters)):
            _move(X, d, clusters[d], -1, texts, total, counts)
            _weigh(X, d, alpha, beta, texts, total, counts, weight, log_weight)
            # a cluster, drawn by the logarithms of its weights
            most, total_weight = log_weight.max(), 0.0
            for c in range(k):
                total_weight += np.exp(log_weight[c] - most)
                weight[c] = total_weight
            drawn = np.searchsorted(weight, np.random.random() * total_weight, side="right")  # noqa: NPY002
            clusters[d] = min(int(drawn), k - 1)
            _move(X, d, clusters[d], 1, texts, total, counts)


@compiled
def _move(X: Any, d: int, c: int, sign: int, texts: Any, total: Any, counts: Any) -> None:
    """Put text d into a cluster (sign 1), or take it out (-1)."""
    begins, words, times = X
    texts[c] += sign
    for e in range(begins[d], begins[d + 1]):
        counts[words[e], c] += sign * times[e]
        total[c] += sign * times[e]


@compiled
def _weigh(
    X: Any, d: int, alpha: float, beta: float, texts: Any, total: Any, counts: Any, weight: Any, log_weight: Any
) -> None:
    """Write the logarithms of equation 4 for text d, up to a constant, into `log_weight` [k]."""
    begins, words, times = X
    k, prior = len(texts), len(counts) * beta
    for c in range(k):
        weight[c] = texts[c] + alpha
        log_weight[c] = 0.0
    i = 0
    for e in range(begins[d], begins[d + 1]):
        row = counts[words[e]]
        for j in range(times[e]):
            for c in range(k):
                weight[c] *= (row[c] + beta + j) / (total[c] + prior + i)
            i += 1
            if i % 16 == 0:  # a logarithm is dear, and products of more factors may be too small
                for c in range(k):
                    log_weight[c] += np.log(weight[c])
                    weight[c] = 1.0
    for c in range(k):
        log_weight[c] += np.log(weight[c])
