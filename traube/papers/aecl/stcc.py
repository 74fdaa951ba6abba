"""STCC: self-taught convolutional neural networks for short-text clustering (Xu et al. 2017).

Words in common give a graph of the texts, whose spectrum gives each text a binary code; a convolutional network on
word vectors learns these codes, and k-means groups its deep features. As in the authors' code (STC2_LE), but for its weight
decay, and for k-means, which takes the best of ten starts here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from traube.components.deep.clusterer import BatchResult, DeepClusterer, DeepRecipe, Fit, Labels, Rows, Views
from traube.components.deep.encoding import Base
from traube.components.deep.grouping import k_means
from traube.components.new_points import find_nearest
from traube.papers.aecl.words import Source, Words, split_words

if TYPE_CHECKING:
    from torch import Tensor

LENGTH = 32  # words of a text that are read


class StccRecipe(DeepRecipe):
    """Hyperparameters of STC^2."""

    epochs: int = Field(10, ge=1, le=10_000, description="passes over the texts")
    learning_rate: float = Field(0.01, gt=0, le=1, description="of Adagrad, whose history each epoch begins again")
    codes: int = Field(20, ge=1, le=1_000, description="bits of a text's code")
    neighbours: int = Field(15, ge=1, le=1_000, description="of a text in the graph")
    words: Source = Field("corpus", description="whose word vectors; corpus: made of the texts; glove: GloVe's")


class StccFit(Fit[StccRecipe]):
    """A training by STCC."""

    def prepare(self, views: Views, base: Base) -> None:
        """Build the networks."""
        import torch

        from traube.papers.aecl import networks

        recipe, texts = self.recipe, views[0]
        self.device = torch.device(base.device)
        self.words = Words.of(texts, recipe.words, base.network, self.seed, draws_unknown=True)
        codes = compute_spectral_codes(texts, recipe.codes, recipe.neighbours, self.seed)
        self.codes = torch.from_numpy(codes.astype(np.float32)).to(self.device)
        self.numbers = self._number_words(texts)
        vectors = torch.from_numpy(np.vstack([np.zeros_like(self.words.vectors[:1]), self.words.vectors]))
        self.modules = networks.TextCnn(vectors, codes.shape[1]).to(self.device)
        self.memory = {}
        self.begin_epoch(0)

    @override
    def begin_epoch(self, epoch: int) -> None:
        """Take an optimizer without a history."""
        from torch.optim import Adagrad

        self.optimizer = Adagrad(self.modules.parameters(), lr=self.recipe.learning_rate)

    def _number_words(self, texts: Sequence[str]) -> "Tensor":
        """Return the words of texts by number from 1, int64 [n, LENGTH]; 0 is no word."""
        import torch

        numbers = np.zeros((len(texts), LENGTH), dtype=np.int64)
        for row, text in zip(numbers, texts, strict=True):
            known = self.words.of_text(text)[:LENGTH]
            row[: len(known)] = np.array(known, dtype=np.int64) + 1
        return torch.from_numpy(numbers).to(self.device)

    def step(self, epoch: int, rows: Rows) -> BatchResult:
        """Return the cross entropy with the codes' bits."""
        from torch.nn import functional

        logits = self.modules(self.numbers[rows])
        loss = functional.binary_cross_entropy_with_logits(logits, self.codes[rows])
        return BatchResult(loss, points=logits)

    def _compute_features(self, numbers: "Tensor") -> "Tensor":
        with self.at_rest():
            return self.modules.features(numbers)

    def representations(self) -> "Tensor":
        """Return the deep features."""
        return self._compute_features(self.numbers)

    @override
    def labels(self) -> Labels:
        return k_means(self.representations(), self.k, self.seed)[0]

    def predict(self, texts: Sequence[str]) -> Labels:
        """Return the cluster of the nearest center."""
        _, centers = k_means(self.representations(), self.k, self.seed)
        return find_nearest(self._compute_features(self._number_words(texts)).cpu().numpy(), centers)


def compute_spectral_codes(texts: Sequence[str], bits: int, n_neighbors: int, seed: int) -> NDArray[np.bool_]:
    """Return binary codes, bool [n, bits].

    For each eigenvector of the neighbor graph's Laplacian (tf-idf, heat kernel), a bit says which texts lie above its
    median. There are no more bits than texts less two.
    """
    from scipy import sparse
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.neighbors import kneighbors_graph
    from sklearn.preprocessing import normalize

    n, counts = len(texts), [split_words(text) or ["."] for text in texts]
    bits = min(bits, n - 2)
    if bits < 1:
        return np.zeros((n, 1), dtype=bool)
    vectors = CountVectorizer(analyzer=lambda words: words, dtype=np.float64).fit_transform(counts)
    inverse = np.log(n / np.bincount(vectors.indices, minlength=vectors.shape[1]))
    vectors.data = (1 + np.log(vectors.data)) * inverse[vectors.indices]
    graph = kneighbors_graph(normalize(vectors), min(n_neighbors, n - 1), mode="distance", metric="euclidean")
    graph.data = np.exp(-np.square(graph.data) / 2)
    points = embed_spectrally(sparse.csr_matrix(graph.maximum(graph.T)), bits, np.random.default_rng(seed))
    return np.asarray(points > np.median(points, axis=0), dtype=bool)


def embed_spectrally(graph: Any, dimensions: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return the eigenvectors of a graph's Laplacian with the least eigenvalues, [n, dimensions], but for the constant one.

    They are sought as the greatest of what the Laplacian leaves to the identity, which takes no factorization of a matrix
    that neighbors in many dimensions fill. Those that tell components apart all have the eigenvalue 0, of whose copies
    Lanczos's method misses some: they are known, and any rotation of them is as good.

    Parameters
    ----------
    graph : sparse matrix
        Symmetric weights, [n, n].
    dimensions : int
        At most n - 2.
    random : Generator
        Draws the rotation and the start of the search.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components, laplacian
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = graph.shape[0]
    normed, roots = laplacian(graph, normed=True, return_diag=True)
    count, component = connected_components(graph, directed=False)
    sizes = np.sqrt(np.bincount(component, weights=roots**2))
    known = sparse.csr_matrix((roots / sizes[component], (np.arange(n), component)), shape=(n, count))
    constant = sizes / np.linalg.norm(sizes)
    others = random.standard_normal((count, min(count - 1, dimensions)))
    points = known @ np.linalg.qr(np.column_stack([constant, others]))[0][:, 1:]
    if missing := dimensions - points.shape[1]:
        rest = sparse.identity(n) - normed
        unknown = LinearOperator((n, n), matvec=lambda x: rest @ x - 2 * (known @ (known.T @ x)), dtype=np.float64)
        _, vectors = eigsh(unknown, k=missing, which="LA", v0=random.uniform(-1, 1, n), tol=1e-6)
        points = np.column_stack([points, vectors[:, ::-1]])
    return np.asarray(points / roots[:, None])


class Stcc(DeepClusterer[StccRecipe]):
    """A convolutional network that is taught spectral codes."""

    name = "stcc"
    version = "4"
    section = "Xu et al. 2017, section 3"
    training = StccFit
    defaults = StccRecipe(batch=200)

    @override
    def epochs(self, n: int) -> int:
        return self.recipe.epochs
