"""Models of words, without weights.

All but `Hashed` are fitted on the texts they are given: their vectors hold for one corpus only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from traube._core.arrays import Ints
from traube._core.errors import TooFew
from traube._core.hashing import digest
from traube._core.versions import get_versions
from traube._core.words import get_words_version, split_words
from traube.models.base import BatchEncoder, OfCard, OwnEncoder
from traube.models.vectors import Dense

SEED = 42
LIBRARIES = ("scikit-learn", "scipy", "numpy")
BUCKETS = 2**18
OF_A_WORD = 8  # dimensions of a hashed word's vector that are not 0; drawn with replacement, so now and then fewer
TEXTS_A_BATCH = 4_096


class OfWords(OfCard, OwnEncoder):
    """The base of models of words, which have no weights."""

    device = "cpu"
    weight_bytes = 0
    precision = ""

    @property
    def numerics(self) -> dict[str, str]:
        """Return the versions of what splits texts into words, and of the libraries that make the numbers."""
        return {"words": get_words_version(), **get_versions(LIBRARIES)}


class Lexical(OfWords):
    """A model that is fitted on the texts it is given.

    The kind of its card says which one:

    - `bow`: term counts, float32 csr [n, features].
    - `tfidf`: TF-IDF weights with rows of length 1, float32 csr [n, features].
    - `tokens`: tokens split at white space, float32 csr [n, tokens] of 0 and 1.
    - `lsa`: latent semantic analysis: TF-IDF, truncated SVD (seed 42), rows of length 1; float32 [n, dimensions].
    - `lda`: latent Dirichlet allocation (seed 42): the share of each topic in a text; float32 [n, dimensions] or fewer.
      Rows sum to 1. There are no more topics than texts: with more topics, words would belong to none. Words that occur
      once in the corpus and English stop words are ignored; a text of only such words has all topics in equal shares.
    """

    corpus_bound = True

    @property
    def fingerprint(self) -> str:
        """Return a hash of the card's settings."""
        return digest(["lexical", self.card.kind, self.card.features, self.card.components])

    def encode(self, texts: Sequence[str]) -> Dense | csr_matrix:
        """Fit on the texts and return their vectors, float32 [n, d]."""
        return self._fit(texts)[1]

    def encode_new(self, corpus: Sequence[str], texts: Sequence[str]) -> Dense | csr_matrix:
        """Fit on a corpus and return the vectors of other texts, float32 [n, d]."""
        return _as_float32(self._fit(corpus)[0].transform(texts))

    def fit_words(self, corpus: Sequence[str]) -> "FittedWords":
        """Fit on a corpus, and return what gives the vectors of other texts without it, as `encode_new` does."""
        pipeline = self._fit(corpus)[0]
        words, *reducers = [step for _, step in pipeline.steps] if hasattr(pipeline, "steps") else [pipeline]
        weights = {"idf": words.idf_} if self.card.kind in ("tfidf", "lsa") else {}
        if reducers:
            weights["components"] = reducers[0].components_
        return FittedWords(self.card.kind, tuple(map(str, words.get_feature_names_out())), weights)

    def _fit(self, texts: Sequence[str]) -> tuple[Any, Dense | csr_matrix]:
        try:
            pipeline = self._make_pipeline(texts)
            return pipeline, _as_float32(pipeline.fit_transform(texts))
        except ValueError as error:
            raise TooFew(f"model '{self.name}': no vocabulary: the texts hold no words ({error})") from None

    def _make_pipeline(self, texts: Sequence[str]) -> Any:
        """Return the unfitted estimator that makes vectors."""
        from sklearn.pipeline import make_pipeline

        words = _make_vectorizer(self.card.kind, max_features=self.card.features)
        match self.card.kind:
            case "lsa":
                from sklearn.decomposition import TruncatedSVD
                from sklearn.preprocessing import Normalizer

                components = min(self.card.components, min(words.fit_transform(texts).shape) - 1)
                if components < 1:
                    raise TooFew(f"model '{self.name}': LSA needs at least two texts and two words")
                return make_pipeline(words, TruncatedSVD(components, random_state=SEED), Normalizer())
            case "lda":
                from sklearn.decomposition import LatentDirichletAllocation

                counts = words.fit_transform(texts).sum(axis=0)
                known = words.get_feature_names_out()[np.asarray(counts).ravel() > 1]
                if not len(known):
                    raise TooFew(f"model '{self.name}': LDA needs words that occur twice, and the texts hold none")
                topics = LatentDirichletAllocation(min(self.card.components, len(texts)), random_state=SEED)
                return make_pipeline(_make_vectorizer("lda", vocabulary=known), topics)
            case _:
                return words


def _make_vectorizer(kind: str, **settings: Any) -> Any:
    """Return the unfitted estimator that counts the words of a kind of model."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    shared: dict[str, Any] = {"dtype": np.float32, **settings}
    match kind:
        case "tfidf" | "lsa":
            return TfidfVectorizer(**shared, analyzer=split_words)
        case "tokens":
            return CountVectorizer(**shared, tokenizer=str.split, token_pattern=None, lowercase=False, binary=True)
        case "lda":
            return CountVectorizer(**shared, analyzer=_split_without_stop_words)
        case _:
            return CountVectorizer(**shared, analyzer=split_words)


def _split_without_stop_words(text: str) -> list[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return [word for word in split_words(text) if word not in ENGLISH_STOP_WORDS]


@dataclass(frozen=True)
class FittedWords:
    """A model of words after its fit: its words and their weights, and no text that it was fitted on.

    Attributes
    ----------
    kind : str
        The kind of the model's card.
    vocabulary : tuple of str
        The words, in the order of the columns.
    weights : mapping of str to ndarray
        `idf` of shape (n_words,), of tfidf and lsa; `components` of shape (n_components, n_words), of lsa and lda.

    Examples
    --------
    >>> from traube import load_model
    >>> load_model("bow").fit_words(["a ship and a crew", "a crew"]).encode(["crew, crew!"]).toarray().tolist()
    [[0.0, 2.0, 0.0]]
    """

    kind: str
    vocabulary: tuple[str, ...]
    weights: Mapping[str, Dense]

    def encode(self, texts: Sequence[str]) -> Dense | csr_matrix:
        """Return the vectors of texts, float32 [n, d], in the space of the corpus."""
        words = _make_vectorizer(self.kind, vocabulary=self.vocabulary)
        if "idf" in self.weights:
            words.idf_ = self.weights["idf"]
        counts = words.transform(texts)
        match self.kind:
            case "lsa":
                from sklearn.preprocessing import normalize

                return _as_float32(normalize(counts @ self.weights["components"].T))
            case "lda":
                return _as_float32(self._make_topics().transform(counts))
            case _:
                return _as_float32(counts)

    def _make_topics(self) -> Any:
        from scipy.special import psi
        from sklearn.decomposition import LatentDirichletAllocation

        components = self.weights["components"]
        topics = LatentDirichletAllocation(len(components), random_state=SEED)
        topics.components_, topics.n_features_in_ = components, components.shape[1]
        topics.doc_topic_prior_ = 1 / len(components)
        topics.exp_dirichlet_component_ = np.exp(psi(components) - psi(components.sum(axis=1, keepdims=True)))
        return topics


def _as_float32(vectors: Any) -> Dense | csr_matrix:
    return csr_matrix(vectors) if issparse(vectors) else np.asarray(vectors, dtype=np.float32)


class Hashed(OfWords, BatchEncoder):
    """Hashed word counts, rows of length 1, randomly projected (Achlioptas 2003; Li et al. 2006): float32 [n, dimensions].

    A text without words has the vector 0. The model is quick (20,000 short texts a second on one core), and takes the
    same memory for any number of texts. It serves for sets that are too large for other models, and as a baseline that
    other models have to beat.
    """

    @property
    def fingerprint(self) -> str:
        """Hash of the settings, since there are no weights."""
        return digest(["hashed", self.card.features or BUCKETS, self.card.components, OF_A_WORD, SEED])

    def load(self) -> int:
        """Draw the random projection; return its bytes."""
        _, projection = self._parts
        return int(projection.data.nbytes + projection.indices.nbytes + projection.indptr.nbytes)

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[Ints, Dense]]:
        """Yield vectors as they are computed, in order: positions [b] in `texts` and float32 [b, d]."""
        words, projection = self._parts
        for start in range(0, len(texts), TEXTS_A_BATCH):
            counts = words.transform(texts[start : start + TEXTS_A_BATCH])
            positions = np.arange(start, start + counts.shape[0], dtype=np.int64)
            yield positions, np.asarray((counts @ projection).toarray(), dtype=np.float32)

    @cached_property
    def _parts(self) -> tuple[Any, csr_matrix]:
        """The vectorizer that hashes words, and the projection of their counts, float32 csr [buckets, dimensions]."""
        from sklearn.feature_extraction.text import HashingVectorizer

        buckets, dimensions, rng = self.card.features or BUCKETS, self.card.components, np.random.default_rng(SEED)
        columns = rng.integers(dimensions, size=buckets * OF_A_WORD, dtype=np.int32)
        values = rng.choice(np.array([-1, 1], dtype=np.float32), buckets * OF_A_WORD) / np.float32(np.sqrt(OF_A_WORD))
        begins = np.arange(0, len(values) + 1, OF_A_WORD, dtype=np.int32)
        projection = csr_matrix((values, columns, begins), shape=(buckets, dimensions))
        return HashingVectorizer(n_features=buckets, dtype=np.float32, analyzer=split_words), projection
