"""A task's largest test split, clustered as it was scored, that takes new texts: encode, reduce, assign.

`Component.place` and `.assign` put a new text; by a similarity it joins the cluster that is nearest on average.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from scipy import sparse

from traube import components
from traube._core import paths
from traube._core.array_files import read_array, read_csr
from traube._core.config import Strict
from traube._core.disk import replacing
from traube._core.errors import Changed, Corrupt, Failed, Missing, TraubeError, first_line
from traube._core.files import write_json
from traube._core.inputs import is_file, parse_json, read_bytes
from traube._core.short_repr import ShortRepr
from traube._grouping.describe import find_keywords
from traube._grouping.joining import Joined, join_clusters
from traube._pipeline.cluster import locate_reduction_of
from traube._storage import Storage
from traube.comparison.candidates import Candidate
from traube.components import Method, VectorView, get_clusterer, get_reducer
from traube.components.new_points import Matrix
from traube.components.views import check_dimensions
from traube.models import Model, ModelCard, Vectors, model_of
from traube.models.lexical import FittedWords, Lexical
from traube.models.pins import locate_pinned
from traube.models.vectors import open_matrix
from traube.models.views import show
from traube.models.weights import is_folder
from traube.tasks.task import Task
from traube.tasks.texts import read_texts

ENTRY = "served.json"
WEIGHTS = "./weights"  # what stands in a card for the path of weights that come along, or are pinned
MOST_SEED = 2**32 - 1


@dataclass(repr=False)
class Served(ShortRepr):
    """A fitted clustering."""

    card: ModelCard
    fingerprint: str  # of the model
    method: Method
    seed: int  # of the clustering
    fitted: FittedWords | None  # of a corpus-bound model; None of any other
    vectors: Matrix  # of the clustering's texts, in order, float32 [n, d]
    points: Matrix  # reduced, float32 [n, m]; the vectors themselves where nothing is reduced
    clusters: NDArray[np.int64]  # [n]; -1 is noise
    words: dict[int, list[str]]  # key words by cluster
    query: Matrix | None = None  # the vector of the split's query, [1, d]; None where there is none

    @cached_property
    def model(self) -> Model:
        """The model of the card; `predict` refuses one whose weights have changed since."""
        return model_of(self.card)

    def predict(self, texts: Any, text_column: str | int | None = None) -> pd.DataFrame:
        """Assign new texts to the clusters; blank, missing and unknown ones belong to none.

        Unknown is a text of which the model knows no word; `join_clusters` says which texts fit.

        Parameters
        ----------
        texts : sequence of str, ndarray, Series, Arrow column, or DataFrame
            The texts, as `traube.cluster_texts` takes them.
        text_column : str or int, optional
            The table's column of texts. By default its only one.

        Returns
        -------
        DataFrame of n_texts rows, with the index of what was passed
            `cluster` (int; -1 is noise), `distance` (to the cluster's center, in the reduced space; by a similarity, the mean
            to the cluster's texts, where the split's pairs lie between 0 and 1; nan for noise), `words` (the cluster's key
            words, in one string), `fits` (bool).
        """
        given = read_texts(texts, "predict", text_column)
        rows = [i for i, text in enumerate(given.values) if text.strip()]
        clusters, distances = np.full(len(given.values), -1, dtype=np.int64), np.full(len(given.values), np.nan)
        fits = np.zeros(len(given.values), dtype=bool)
        if rows:
            clusters[rows], distances[rows], fits[rows] = self._assign([given.values[i] for i in rows])
        words = [", ".join(self.words.get(int(c), [])) for c in clusters]
        columns = {"cluster": clusters, "distance": distances, "words": words, "fits": fits}
        return pd.DataFrame(columns, index=given.index)

    def _assign(self, texts: list[str]) -> Joined:
        """Return the clusters of new texts, the distances to them, and which texts fit."""
        try:
            return self._place(self._encode(texts))
        except (ValueError, TypeError) as error:  # a reducer or a clusterer that is fitted again refuses a parameter
            raise Failed(f"{self.card.name}, {self.method.name}: {first_line(error)}") from error

    def _place(self, vectors: Matrix) -> Joined:
        """Return the clusters of new vectors, the distances to them, and which vectors fit."""
        check_dimensions(self.vectors, vectors)
        reducer, clusterer = get_reducer(self.method.reducer), get_clusterer(self.method.clusterer)
        build = partial(reducer.estimator, self.method.reducer_params, self.seed)
        points = reducer.place(build, self.vectors, self.points, vectors)
        build = partial(clusterer.estimator, self.method.clusterer_params, self.seed)
        view, join = show(self.vectors, self.model.similarity, self.query), partial(clusterer.assign, build)
        reduced = (VectorView(self.points), points) if self.method.reduces else None
        return join_clusters(view, vectors, self.clusters, join, reduced=reduced)

    def _encode(self, texts: list[str]) -> Matrix:
        if self.model.fingerprint != self.fingerprint:
            raise Changed(f"model '{self.card.name}' is not the one that was scored: its weights have changed")
        return self.fitted.encode(texts) if self.fitted else self.model.encode(texts)


def freeze(
    storage: Storage, task: Task, candidate: Candidate, model: Model, vectors: Vectors, split_set: str
) -> Served:
    """Return a candidate's clustering of the task's largest test split, by its first seed, ready to be served.

    `vectors` are those of the task's corpus by the candidate's model.
    """
    cell = storage.get_cell(candidate.cells[0])
    if cell is None:
        raise Changed(f"task '{task.name}': cell {candidate.cells[0]} is not stored any more; run again")
    split = max(task.test_splits(split_set), key=lambda s: s.size)
    assignments = storage.read_assignments(candidate.cells[0])
    rows = assignments[(assignments["split"] == split.split) & (assignments["level"] == split.level)]
    clusters = rows.set_index("item")["cluster"].reindex(split.items).to_numpy(np.int64)
    method, seed = Method(**cell.params), cell.seed or 0
    values = vectors.subset(split.rows).load()
    texts = task.texts_at(split.rows)
    points = values
    if method.reduces:
        if path := locate_reduction_of(storage, cell, task.corpus["text_id"].to_numpy()[split.rows]):
            points = np.asarray(open_matrix(path), dtype=np.float32)
        else:
            points = components.reduce(method.reducer, method.reducer_params, values, seed)
    words = find_keywords(texts, clusters)
    fitted = Lexical(model.card).fit_words(task.texts) if model.corpus_bound else None
    query = None if split.query is None else vectors.subset(np.array([split.query])).load()
    return Served(model.card, model.fingerprint, method, seed, fitted, values, points, clusters, words, query)


def save(served: Served, folder: Path) -> None:
    """Write a served clustering as JSON, `.npy` and, if sparse, `.npz`: nothing is unpickled to serve it.

    Neither a text nor a path is written: of the texts, what is served holds vectors, key words, and the words of a model
    of words.
    """
    _save_matrix(folder / "vectors", served.vectors)
    if served.method.reduces:
        _save_matrix(folder / "points", served.points)
    if served.query is not None:
        _save_matrix(folder / "query", served.query)
    _save_array(folder / "clusters.npy", served.clusters)
    for name, values in served.fitted.weights.items() if served.fitted else ():
        _save_array(folder / f"{name}.npy", values)
    is_here = served.card.model is not None and is_folder(served.card.model)
    card = served.card.model_copy(update={"model": WEIGHTS} if is_here else {})
    entry = _Entry(
        card=card,
        fingerprint=served.fingerprint,
        method=_Method(**served.method.params()),
        seed=served.seed,
        vocabulary=served.fitted and served.fitted.vocabulary,
        words=served.words,
    )
    write_json(folder / ENTRY, entry.model_dump(mode="json"))


def load(folder: Path, weights: Path | None = None) -> Served:
    """Read a clustering that `save` wrote, without running code of a checkpoint.

    Of a checkpoint, `weights` are loaded, by default the pinned ones.

    Raises
    ------
    TraubeError
        If a file is missing, corrupt or too large, or does not fit the others.
    """
    path = folder / ENTRY
    try:
        entry = _Entry.model_validate(parse_json(read_bytes(path)))
        method = Method(**entry.method.model_dump())
    except ValidationError as error:
        fault = error.errors()[0]
        raise _corrupt(path, f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
    except (ValueError, TypeError) as error:
        raise _corrupt(path, first_line(error)) from None
    card = entry.card
    if weights:
        card = card.model_copy(update={"model": str(weights)})
    elif card.model == WEIGHTS:
        card = locate_pinned(card, entry.fingerprint)
        if card.model == WEIGHTS:
            raise Missing(
                f"model '{card.name}': the pinned weights {entry.fingerprint} are not in {paths.home()}; set TRAUBE_HOME "
                "to the data directory that registered the model, or restore a backup"
            )
    vectors = _load_matrix(folder / "vectors")
    points = _load_matrix(folder / "points") if method.reduces else vectors
    query = _load_matrix(folder / "query") if any(map(is_file, folder.glob("query.np[yz]"))) else None
    clusters = read_array(folder / "clusters.npy", "i")
    fitted = None
    if entry.vocabulary is not None:
        names = [name for name in ("idf", "components") if is_file(folder / f"{name}.npy")]
        weights_of_words = {name: read_array(folder / f"{name}.npy") for name in names}
        fitted = FittedWords(card.kind, entry.vocabulary, weights_of_words)
        _check_words(folder, fitted)
    if vectors.ndim != 2 or points.ndim != 2 or not vectors.shape[0]:
        raise _corrupt(folder, "the vectors are no matrix")
    if clusters.shape != (vectors.shape[0],) or clusters.min() < -1 or points.shape[0] != vectors.shape[0]:
        raise _corrupt(folder, "vectors, points and clusters are not of the same texts")
    if query is not None and query.shape != (1, vectors.shape[1]):
        raise _corrupt(folder, "the query is no vector like the others")
    return Served(
        card,
        entry.fingerprint,
        method,
        entry.seed,
        fitted,
        vectors,
        points,
        clusters.astype(np.int64),
        entry.words,
        query,
    )


class _Method(Strict):
    reducer: str
    clusterer: str
    reducer_params: dict[str, Any]
    clusterer_params: dict[str, Any]


class _Entry(Strict):
    """The contents of `served.json`."""

    card: ModelCard
    fingerprint: str = Field(pattern="^[0-9a-f]{1,64}$")
    method: _Method
    seed: int = Field(ge=0, le=MOST_SEED)
    vocabulary: tuple[str, ...] | None
    words: dict[int, list[str]]


def _check_words(folder: Path, fitted: FittedWords) -> None:
    n_words = len(fitted.vocabulary)
    shapes = {
        "bow": {},
        "tokens": {},
        "tfidf": {"idf": 1},
        "lsa": {"idf": 1, "components": 2},
        "lda": {"components": 2},
    }
    dimensions = {name: values.ndim for name, values in fitted.weights.items()}
    if dimensions != shapes.get(fitted.kind) or any(values.shape[-1] != n_words for values in fitted.weights.values()):
        raise _corrupt(folder, "the weights of words do not fit the model")
    if len(set(fitted.vocabulary)) != n_words or not n_words:
        raise _corrupt(folder / ENTRY, "vocabulary: a word occurs twice, or there is none")


def _corrupt(path: Path, fault: str) -> TraubeError:
    return Corrupt(f"{path}: corrupt ({fault}); restore a backup of it")


def _save_array(path: Path, values: NDArray[Any]) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, values, allow_pickle=False)


def _save_matrix(path: Path, matrix: Matrix) -> None:
    if not sparse.issparse(matrix):
        _save_array(path.with_suffix(".npy"), np.asarray(matrix))
        return
    with replacing(path.with_suffix(".npz")) as temporary, temporary.open("wb") as file:
        sparse.save_npz(file, matrix)


def _load_matrix(path: Path) -> Matrix:
    if is_file(path.with_suffix(".npz")):
        return read_csr(path.with_suffix(".npz"))
    return read_array(path.with_suffix(".npy"))
