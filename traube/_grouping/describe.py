"""Descriptions of clusters: key words, typical texts, and texts that do not fit."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube._grouping.terms import TermReader, Terms
from traube.components import View
from traube.components._spherical import Labels

WIDESPREAD = 0.5  # of its greatest share in a cluster: from there on another cluster has a term as well
TEXTS = 20_000  # that are read, of any number
FEW = 5  # texts of a cluster in which a term of one text counts
CANDIDATES = 4  # times as many terms as are wanted
RELEVANCE = 0.7  # against difference, in maximal marginal relevance
COHERENCE = 0.2  # against relevance: the weight of standing in the same texts as the terms that are chosen already
SAME = 0.8  # cosine of spelling from which two terms are forms of one, and likeness from which two texts say the same
NEAREST = 30  # texts of a cluster, of which typical ones are chosen
TOGETHER = 0.5  # share of a word's texts in which a pair has it, from which the pair stands for it


def find_keywords(texts: Sequence[str] | TermReader, clusters: Labels, count: int = 8) -> dict[int, list[str]]:
    """Return the words and pairs of words that set each cluster apart, the most telling first.

    A term's weight is c-TF-IDF with damped counts, log2(1 + count in a text), so that one long text names no cluster:
    the mean of the cluster's texts, times ln(1 + A / f), where f is the sum over all texts and A the mean sum of a
    cluster. Terms that more than half of the clusters have, each at least half as often as the cluster that has it
    most, belong to no cluster. Of the other terms those are taken, one after the other, that have a great weight and
    stand in the same texts as the terms before (normalized pointwise mutual information); none is spelled like another.
    Noise (-1) is left out. If there are more than 20,000 texts, as many are read, evenly spaced in each cluster, and of
    each text the first 10,000 characters.

    Parameters
    ----------
    texts : sequence of str, or TermReader
        The texts, or a reader of their terms.
    clusters : ndarray of shape (n_texts,)
        The cluster of each text; -1 is noise.
    count : int, default=8
        The most terms of a cluster.

    Returns
    -------
    dict of int to list of str
        At most `count` terms by cluster; none if a cluster has no term of its own.
    """
    ids, numbers, sizes = np.unique(clusters[clusters >= 0], return_inverse=True, return_counts=True)
    if not len(ids):
        return {}
    inside = np.flatnonzero(clusters >= 0)
    rows = _read(numbers, sizes)
    terms = (texts if isinstance(texts, TermReader) else TermReader(texts)).read(inside[rows])
    if not len(terms.stems):
        return {int(c): [] for c in ids}
    of = numbers[rows]
    member = sparse.csr_matrix((np.ones(len(of)), (of, np.arange(len(of)))), shape=(len(ids), len(of)))
    held = sparse.csc_matrix(terms.counts > 0, dtype=np.float64)
    having = sparse.csr_matrix(member @ held)  # texts of each cluster that have each term
    damped = sparse.csr_matrix(member @ (terms.counts.log1p() / np.log(2)))
    share = sparse.csr_matrix(damped.multiply(1 / np.bincount(of)[:, None]))
    weight = np.log(1 + damped.sum() / len(ids) / np.maximum(np.asarray(damped.sum(axis=0)).ravel(), 1))
    # a term counts where it is in two texts of a cluster, or is one word of a cluster that is small, or has no such term
    is_word = np.array([len(stems) == 1 for stems in terms.stems])
    of_cluster = np.repeat(np.arange(len(ids)), np.diff(having.indptr))
    has_repeated = np.bincount(of_cluster, having.data >= 2, minlength=len(ids)) > 0
    small = ((sizes < FEW) | ~has_repeated)[of_cluster]
    is_often = (having.data >= 2) | (small & is_word[having.indices])
    often = sparse.csr_matrix((is_often, having.indices, having.indptr), shape=having.shape)
    scores = sparse.csr_matrix(share.multiply(weight * _find_distinctive(terms, share)).multiply(often))
    ranked = [_rank_terms(terms, having[[i]], scores[[i]], CANDIDATES * count) for i in range(len(ids))]
    spelled = _spell(terms, {term for best in ranked for term in best})
    return {int(c): _choose_terms(terms, held, best, spelled, count) for c, best in zip(ids, ranked, strict=True)}


def _read(numbers: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which texts are read: all, or so many of each cluster that there are about 20,000."""
    if len(numbers) <= TEXTS:
        return np.arange(len(numbers))
    most = max(FEW, TEXTS // len(sizes))
    members = np.split(np.argsort(numbers, kind="stable"), np.cumsum(sizes)[:-1])
    chosen = [rows[np.linspace(0, len(rows) - 1, min(len(rows), most), dtype=int)] for rows in members]
    return np.asarray(np.sort(np.concatenate(chosen)))


def _find_distinctive(terms: Terms, share: sparse.csr_matrix) -> NDArray[np.bool_]:
    """Return which terms belong to few clusters, as does each word of a pair; bool [terms]."""
    clusters, count = share.shape
    if clusters == 1:
        return np.ones(count, dtype=bool)
    most = share.max(axis=0).toarray().ravel()
    wide = np.bincount(share.indices, share.data >= WIDESPREAD * most[share.indices], minlength=count)
    distinctive = wide <= clusters / 2
    common = {
        stems[0] for stems, is_own in zip(terms.stems, distinctive, strict=True) if len(stems) == 1 and not is_own
    }
    return distinctive & np.array([common.isdisjoint(stems) for stems in terms.stems])


def _rank_terms(terms: Terms, having: sparse.csr_matrix, scores: sparse.csr_matrix, most: int) -> dict[int, float]:
    """Return the terms of a cluster with the greatest scores, the best first, and their scores.

    `having` says how many of the cluster's texts have each term; it and `scores` are csr [1, terms].
    """
    score = dict(zip(scores.indices.tolist(), scores.data.tolist(), strict=True))
    texts = dict(zip(having.indices.tolist(), having.data.tolist(), strict=True))
    best = sorted((i for i in score if score[i] > 0), key=lambda i: (-score[i], i))[:most]

    # a word that stands mostly in a pair that is among the best, by the texts that have each, is no term of its own
    number = {terms.stems[i]: i for i in best}
    in_pairs = set()
    for pair, i in number.items():
        for stem in pair if len(pair) == 2 else ():
            word = number.get((stem,))
            if word is not None and texts[i] >= TOGETHER * texts[word]:
                in_pairs.add(word)
    best = sorted((i for i in best if i not in in_pairs), key=lambda i: (-score[i], terms.shown[i]))
    return {i: score[i] for i in best}


def _spell(terms: Terms, which: set[int]) -> sparse.csr_matrix:
    """Return the triples of letters of some terms as unit vectors, csr [terms, triples]; other terms have none."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    rows = sorted(which)
    if not rows:
        return sparse.csr_matrix((len(terms.stems), 1))
    triples = CountVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit_transform(map(str, terms.shown[rows]))
    place = sparse.csr_matrix((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(terms.stems), len(rows)))
    return sparse.csr_matrix(place @ normalize(triples.astype(np.float64)))


def _choose_terms(
    terms: Terms, held: sparse.csc_matrix, scores: dict[int, float], spelled: sparse.csr_matrix, count: int
) -> list[str]:
    """Return the best terms of a cluster, given with their scores, that stand in the same texts and are not spelled alike.

    `held` says which texts have each term, csc [texts, terms].
    """
    best = list(scores)
    if not best:
        return []
    relevance = np.array([*scores.values()]) / scores[best[0]]
    stems = [set(terms.stems[i]) for i in best]
    shares_a_word = np.array([[bool(one & other) for other in stems] for one in stems])
    alike = np.maximum((spelled[best] @ spelled[best].T).toarray(), shares_a_word)
    together = measure_npmi(held[:, best])
    chosen: list[int] = []
    left = np.ones(len(best), dtype=bool)
    while len(chosen) < count and left.any():
        gain = (1 - COHERENCE) * relevance + COHERENCE * (together[:, chosen].mean(axis=1) if chosen else 0)
        chosen.append(int(np.argmax(np.where(left, gain, -np.inf))))
        left &= alike[chosen[-1]] < SAME
        left[chosen[-1]] = False
    return [str(terms.shown[best[i]]) for i in chosen]


def measure_npmi(held: sparse.csc_matrix) -> NDArray[np.float64]:
    """Return the normalized pointwise mutual information of all pairs of terms, from -1 to 1 (Bouma 2009).

    Parameters
    ----------
    held : csc_matrix of shape (n_texts, n_terms)
        1 where a text has a term; each term is in some text.

    Returns
    -------
    ndarray of float64 of shape (n_terms, n_terms)
        -1 where no text has both terms, 0 where they are independent, 1 where they stand in the same texts only.
    """
    both = (held.T @ held).toarray() / held.shape[0]
    alone = both.diagonal()
    with np.errstate(divide="ignore", invalid="ignore"):
        npmi = np.log(both / np.outer(alone, alone)) / -np.log(both)
    return np.where(both == 0, -1.0, np.where(both == 1, 1.0, npmi))


def find_typical(clusters: Labels, distance: NDArray[np.float64], view: View, count: int = 3) -> dict[int, list[int]]:
    """Return positions of texts of each cluster that are near to its center and differ from each other.

    They are chosen by maximal marginal relevance among the 30 nearest; of texts that say the same, one is returned.

    Parameters
    ----------
    clusters : ndarray of int64 of shape (n_texts,)
        The cluster of each text; -1 for noise.
    distance : ndarray of float64 of shape (n_texts,)
        Distance to the center of the text's cluster.
    view : View
        What says how alike texts of one cluster are.
    count : int, default=3
        Texts of a cluster, at most.

    Returns
    -------
    dict of int to list of int
        Positions by cluster.
    """
    order = np.argsort(distance, kind="stable")
    typical = {}
    for c in np.unique(clusters[clusters >= 0]).tolist():
        members = order[clusters[order] == c]
        near = members[:NEAREST]
        span = distance[members[-1]] - distance[members[0]]
        relevance = 1 - (distance[near] - distance[near[0]]) / (span or 1)
        typical[c] = near[choose_different(relevance, view.likeness(near, distance[near]), count)].tolist()
    return typical


def choose_different(relevance: NDArray[np.float64], alike: NDArray[np.float64], count: int) -> list[int]:
    """Return positions by maximal marginal relevance, the most relevant first; no two are too similar.

    Parameters
    ----------
    relevance : ndarray of float64 of shape (n_items,)
        Relevance of each item, from 0 to 1.
    alike : ndarray of float64 of shape (n_items, n_items)
        Similarity of each pair, at most 1.
    count : int
        The number of positions, at most.

    Returns
    -------
    list of int
        The chosen positions.
    """
    chosen: list[int] = []
    nearest = np.zeros(len(relevance))  # to those that are chosen
    while len(chosen) < count and (nearest < SAME).any():
        gain = np.where(nearest < SAME, RELEVANCE * relevance - (1 - RELEVANCE) * nearest, -np.inf)
        chosen.append(int(np.argmax(gain)))
        nearest = np.maximum(nearest, alike[chosen[-1]])
        nearest[chosen[-1]] = 1
    return chosen
