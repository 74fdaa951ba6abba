"""Views of texts by a model: by their vectors, or by their distances where the model has a similarity."""

from functools import cached_property
from typing import Any

from typing_extensions import override

from traube.components import DistanceView, VectorView, View
from traube.components.new_points import Matrix
from traube.components.views import check_dimensions
from traube.models.similarity import Similarity
from traube.models.vectors import Dense


class ComparedView(DistanceView):
    """Texts that a similarity compares, when somebody first asks.

    Parameters
    ----------
    similarity : Similarity
        Compares the texts.
    items : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        A row is a text.
    query : ndarray of shape (n_dimensions,), optional
        The vector of the split's query.
    memory : int, optional
        Bytes that may be used. By default half of the memory that is free.
    """

    def __init__(
        self, similarity: Similarity, items: Matrix, query: Dense | None = None, memory: int | None = None
    ) -> None:
        self.similarity, self.items, self.query, self.memory = similarity, items, query, memory

    def __len__(self) -> int:
        return int(self.items.shape[0])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "distances"}  # quick to compute again

    @cached_property
    @override
    def distances(self) -> Dense:
        """The distances of all pairs, float32 [n, n]."""
        return self.similarity.distances(self.items, self.query, self.memory)

    @override
    def compare(self, new: Matrix) -> Dense:
        """Return the distances of new texts to these, float32 [k, n]."""
        check_dimensions(self.items, new)
        return self.similarity.distances_to(self.items, new, self.query)


def show(
    vectors: Matrix, similarity: Similarity | None, query: Matrix | None = None, memory: int | None = None
) -> View:
    """Return the view of texts by their vectors, or by their distances where a similarity compares them.

    Parameters
    ----------
    vectors : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        A row is a text.
    similarity : Similarity or None
        The model's similarity, if it has one.
    query : ndarray or csr_matrix of shape (1, n_dimensions), optional
        The vector of the split's query.
    memory : int, optional
        Bytes that the distances may take.

    Returns
    -------
    View
        The view.
    """
    if similarity is None:
        return VectorView(vectors)
    return ComparedView(similarity, vectors, None if query is None else query[0], memory)
