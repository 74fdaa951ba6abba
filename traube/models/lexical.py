"""Lexical baselines. They are fitted on the texts they are given: their vectors hold for one corpus only."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from scipy.sparse import csr_matrix

from traube.errors import TraubeError
from traube.files import digest
from traube.models.base import Dense, ModelCard

SEED = 42


class _Lexical(ABC):
    corpus_bound = True

    def __init__(self, card: ModelCard) -> None:
        self.card = card
        self.name = card.name

    @property
    def fingerprint(self) -> str:
        return digest([self.card.model_dump(exclude={"description"}), "scikit-learn", version("scikit-learn")])

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Dense | csr_matrix:
        """Fit on the texts and give their vectors, float32 [n, d]."""

    def _counts(self, texts: Sequence[str], vectorizer: type) -> csr_matrix:
        try:
            return csr_matrix(vectorizer(max_features=self.card.features, dtype=np.float32).fit_transform(texts))
        except ValueError as error:
            raise TraubeError(f"model '{self.name}': no vocabulary: the texts hold no words ({error})") from None


class BagOfWords(_Lexical):
    """Term counts, float32 csr [n, features]."""

    def encode(self, texts: Sequence[str]) -> csr_matrix:
        from sklearn.feature_extraction.text import CountVectorizer

        return self._counts(texts, CountVectorizer)


class TfIdf(_Lexical):
    """TF-IDF weights with rows of length 1, float32 csr [n, features]."""

    def encode(self, texts: Sequence[str]) -> csr_matrix:
        from sklearn.feature_extraction.text import TfidfVectorizer

        return self._counts(texts, TfidfVectorizer)


class Lsa(_Lexical):
    """Latent semantic analysis: TF-IDF, truncated SVD (seed 42), rows of length 1; float32 [n, dimensions]."""

    def encode(self, texts: Sequence[str]) -> Dense:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.preprocessing import normalize

        weights = self._counts(texts, TfidfVectorizer)
        components = min(self.card.dimensions, min(weights.shape) - 1)
        if components < 1:
            raise TraubeError(f"model '{self.name}': LSA needs at least two texts and two words")
        reduced = TruncatedSVD(components, random_state=SEED).fit_transform(weights)
        return normalize(reduced).astype(np.float32)
