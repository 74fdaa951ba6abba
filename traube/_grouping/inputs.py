"""Inputs of a grouping: distinct texts, the model and what it encodes, the query, and the algorithm."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traube._core import paths
from traube._core.errors import Failed, Invalid, TooFew, Unsupported
from traube._core.progress import SILENT, Progress
from traube._pipeline.default_model import AUTO, choose_model
from traube._pipeline.executors import make_executor
from traube._pipeline.workbench import Workbench
from traube.components import Component, Method, View, parse_method
from traube.components.new_points import Matrix
from traube.models import FunctionModel, Model, Similarity
from traube.tasks.languages import detect_languages

STABLE = "none/stable_kmeans"


def find_filled(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return positions of the texts that are not blank, int64 [m]; raise an error if all are blank."""
    rows = np.array([i for i, text in enumerate(texts) if text.strip()], dtype=np.int64)
    if not len(rows):
        raise TooFew("all texts are empty: there is nothing to group" if texts else "there are no texts to group")
    return rows


def find_distinct(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first position of each distinct text, int64 [m], and the index of each text's, int64 [n].

    The index is -1 for a blank text.
    """
    rows, number = find_filled(texts), dict[str, int]()
    which = np.full(len(texts), -1, dtype=np.int64)
    which[rows] = [number.setdefault(texts[i], len(number)) for i in rows]
    return rows[np.unique(which[rows], return_index=True)[1]], which


def find_unknown(view: View) -> NDArray[np.bool_]:
    """Return which texts the model knows no word of; raise an error if these are all."""
    unknown = view.find_unknown()
    if unknown.all():
        raise Failed("all vectors are 0: the model knows no word of the texts; take another one (`traube models`)")
    return unknown


def resolve_model(model: Any, texts: Sequence[str]) -> Any:
    """Return the model, or the name of the one for the texts' languages where it is "auto"."""
    return choose_model(detect_languages(texts)).name if isinstance(model, str) and model == AUTO else model


def encode_texts(model: Model, texts: list[str], progress: Progress = SILENT) -> Matrix:
    """Return the vectors of texts, [n, d], kept in the data directory; download the model if need be."""
    model.fetch()
    if isinstance(model, FunctionModel):  # nothing says whether a function has changed
        return model.encode(texts)
    with make_executor() as executor:
        return Workbench.at(paths.home(), executor).vectors_of_texts(texts, model, progress).load()


def encode_with_query(
    model: Model, texts: list[str], query: str | None, progress: Progress
) -> tuple[Matrix, Matrix | None]:
    """Return the vectors of texts, [n, d], and that of the query, [1, d], if there is one, as `encode_texts` does."""
    vectors = encode_texts(model, texts if query is None else [*texts, query], progress)
    return vectors[: len(texts)], None if query is None else vectors[-1:]


@contextmanager
def open_cache(cache: bool | str | Path) -> Iterator[None]:
    """Write all files to the data directory, to a folder, or to a temporary folder while the block lasts."""
    if not isinstance(cache, (bool, str, Path)):
        raise TypeError(f"cache is of type {type(cache).__name__}: pass True, False or a folder")
    with ExitStack() as stack:
        if cache is False:
            cache = stack.enter_context(TemporaryDirectory(prefix="traube-"))
        if cache is not True:
            stack.enter_context(paths.use_home(Path(cache).expanduser().absolute()))
        yield


def check_query(model: str, similarity: Similarity | None, query: str | None) -> None:
    """Refuse a query that is empty or that the model does not use, and a missing query that the model needs."""
    is_used = similarity is not None and similarity.query == "text"
    if is_used and query is None:
        raise Invalid(f"model '{model}' compares texts for a query: say what they were found for (query, or --query)")
    if query is None:
        return
    if not is_used:
        reasons = {"none": "compares texts whatever the query", "passages": "makes its query of the texts themselves"}
        reason = reasons[similarity.query] if similarity else "has no use for a query"
        raise Invalid(
            f"model '{model}' {reason}; leave the query out, or take a model that has one, as minilm_query_space"
        )
    if not query.strip():
        raise Invalid("the query is empty: say what the texts were found for")


def default_method(model: Model) -> str:
    """Return the default method: k-means with the most stable number of clusters.

    For a similarity, the default is average linkage.
    """
    return "none/agglomerative_average" if model.similarity else STABLE


def check_algorithm(algorithm: Any, model: Model | None = None) -> Method | Component:
    """Return the method of a name, or a scikit-learn clusterer as a component; refuse any other algorithm.

    Raises
    ------
    TypeError
        If it is neither.
    Unsupported
        If it cannot group vectors, or what the model gives in place of them.
    """
    similarity = model and model.similarity
    if isinstance(algorithm, str):
        default = STABLE if model is None else default_method(model)
        algorithm = parse_method(default if algorithm == "auto" else algorithm)
    if not isinstance(algorithm, Method):
        if similarity:
            raise Unsupported("a similarity gives distances, and scikit-learn's clusterers take vectors: pass a name")
        return _wrap_estimator(algorithm)
    reason = algorithm.unsupported_by_distance() if similarity else algorithm.unsupported()
    if reason:
        raise Unsupported(f"{algorithm.name}: {reason}")
    if algorithm.trains:
        raise Unsupported(
            f"{algorithm.name} trains an encoder, which takes minutes to hours: it groups tasks (`traube run`)"
        )
    return algorithm


def _wrap_estimator(estimator: Any) -> Component:
    """Return a scikit-learn clusterer as a component; its own number of clusters and seed stay unless others are given."""
    from sklearn.base import clone

    if isinstance(estimator, type) or not hasattr(estimator, "fit_predict"):
        raise TypeError(
            f'algorithm is of type {type(estimator).__name__}: pass a name, like "umap/hdbscan", or a scikit-learn '
            "clusterer, like KMeans(10)"
        )
    params = estimator.get_params(deep=False)
    return Component(
        type(estimator).__name__,
        lambda **given: clone(estimator).set_params(**given),
        n_clusters="optional" if "n_clusters" in params else "found",
        seeded=params.get("random_state", 0) is None,
    )
