"""A task's largest test split, clustered as it was scored, that takes new texts: encode, reduce, assign.

`Component.place` and `.assign` put a new text; by a similarity it joins the cluster that is nearest on average.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube import components
from traube._core.disk import replacing
from traube._core.errors import TraubeError
from traube._core.files import write_json
from traube._grouping.describe import find_keywords
from traube._pipeline.cluster import locate_reduction_of
from traube._storage import Storage
from traube.comparison._candidates import Candidate
from traube.components import Method, get_clusterer, get_reducer
from traube.components._new_points import Matrix, compute_centers, find_nearest_on_average
from traube.models import Model, ModelCard, Vectors, model_of
from traube.models._pins import locate_pinned
from traube.models._vectors import open_matrix
from traube.tasks._task import Task


@dataclass
class Served:
    """A fitted clustering."""

    card: ModelCard
    fingerprint: str  # of the model
    method: Method
    seed: int  # of the clustering
    corpus: list[str]  # for a corpus-bound model the texts it was fitted on, the task's; else empty
    texts: list[str]  # the clustering's, in order
    vectors: Matrix  # theirs, float32 [n, d]
    points: Matrix  # reduced, float32 [n, m]; the vectors themselves where nothing is reduced
    clusters: NDArray[np.int64]  # [n]; -1 is noise
    words: dict[int, list[str]]  # key words by cluster
    query: str | None = None  # of the split; None where there is none

    @cached_property
    def model(self) -> Model:
        """The model of the card; `predict` refuses one whose weights have changed since."""
        return model_of(self.card)

    @cached_property
    def _centers(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return compute_centers(self.points, self.clusters)

    def predict(self, texts: Sequence[str]) -> pd.DataFrame:
        """Assign new texts to the clusters.

        Returns
        -------
        DataFrame of n_texts rows
            `cluster` (int; -1 is noise), `distance` (to the cluster's center, in the reduced space; by a similarity, the mean
            to the cluster's texts, where the split's pairs lie between 0 and 1; nan for noise), `words` (the cluster's key
            words, in one string).
        """
        if not texts or any(not isinstance(t, str) or not t.strip() for t in texts):
            raise TraubeError("give at least one text, none of them empty")
        vectors = self._encode(list(texts))
        similarity = self.model.similarity
        if similarity:
            query = None if self.query is None or similarity.query != "text" else self._encode([self.query])[0]
            clusters, means = find_nearest_on_average(
                similarity.distances_to(self.vectors, vectors, query), self.clusters
            )
            distances = np.maximum(means, 0)
        else:
            reducer, clusterer = get_reducer(self.method.reducer), get_clusterer(self.method.clusterer)
            build = partial(reducer.estimator, self.method.reducer_params, self.seed)
            points = reducer.place(build, self.vectors, self.points, vectors)
            build = partial(clusterer.estimator, self.method.clusterer_params, self.seed)
            clusters = clusterer.assign(build, self.points, self.clusters, points)
            distances = self._to_centers(points, clusters)
        words = [", ".join(self.words.get(int(c), [])) for c in clusters]
        return pd.DataFrame({"cluster": clusters, "distance": distances, "words": words})

    def _to_centers(self, points: Matrix, clusters: NDArray[np.int64]) -> NDArray[np.float64]:
        ids, means = self._centers
        at = np.searchsorted(ids, clusters)
        distances = np.full(len(clusters), np.nan)
        for i in np.flatnonzero(clusters >= 0):
            row = np.asarray(points[i].todense()).ravel() if sparse.issparse(points) else points[i]
            distances[i] = np.linalg.norm(row - means[at[i]])
        return distances

    def _encode(self, texts: list[str]) -> Matrix:
        if self.model.fingerprint != self.fingerprint:
            raise TraubeError(f"model '{self.card.name}' is not the one that was scored: its weights have changed")
        return self.model.encode_new(self.corpus, texts)


def freeze(
    storage: Storage, task: Task, candidate: Candidate, model: Model, vectors: Vectors, split_set: str
) -> Served:
    """Return a candidate's clustering of the task's largest test split, by its first seed, ready to be served.

    `vectors` are those of the task's corpus by the candidate's model.
    """
    cell = storage.get_cell(candidate.cells[0])
    if cell is None:
        raise TraubeError(f"task '{task.name}': cell {candidate.cells[0]} is not stored any more; run again")
    split = max(task.test_splits(split_set), key=lambda s: s.size)
    assignments = storage.read_cell_table(candidate.cells[0])
    rows = assignments[(assignments["split"] == split.split) & (assignments["level"] == split.level)]
    clusters = rows.set_index("item")["cluster"].reindex(split.items).to_numpy(np.int64)
    params = cell["params"]
    method = Method(cell["reducer"], cell["clusterer"], params["reducer_params"], params["clusterer_params"])
    values, seed = vectors.subset(split.rows).load(), int(cell["seed"] or 0)
    texts = task.texts_at(split.rows)
    points = values
    if method.reduces:
        if path := locate_reduction_of(storage, cell, task.corpus["text_id"].to_numpy()[split.rows]):
            points = np.asarray(open_matrix(path), dtype=np.float32)
        else:
            points = components.reduce(method.reducer, method.reducer_params, values, seed)
    words = find_keywords(texts, clusters)
    corpus = task.texts if model.corpus_bound else []
    query = None if split.query is None else task.texts[split.query]
    return Served(model.card, model.fingerprint, method, seed, corpus, texts, values, points, clusters, words, query)


def save(served: Served, folder: Path) -> None:
    """Write a served clustering as JSON, `.npy` and, if sparse, `.npz`: nothing is unpickled to serve it."""
    _save_matrix(folder / "vectors", served.vectors)
    if served.method.reduces:
        _save_matrix(folder / "points", served.points)
    with replacing(folder / "clusters.npy") as temporary, temporary.open("wb") as file:
        np.save(file, served.clusters)
    write_json(
        folder / "served.json",
        {
            "card": served.card.model_dump(),
            "fingerprint": served.fingerprint,
            "method": served.method.params(),
            "seed": served.seed,
            "corpus": served.corpus,
            "texts": served.texts,
            "words": {str(c): words for c, words in served.words.items()},
            "query": served.query,
        },
    )


def load(folder: Path, weights: Path | None = None) -> Served:
    """Read a clustering that `save` wrote, without running code of a checkpoint.

    Of a checkpoint, `weights` are loaded, by default the pinned ones.
    """
    entry = json.loads((folder / "served.json").read_text(encoding="utf-8"))
    vectors = _load_matrix(folder / "vectors")
    method, card = Method(**entry["method"]), ModelCard.model_validate(entry["card"])
    if weights:
        card = card.model_copy(update={"model": str(weights)})
    elif card.model and Path(card.model).parent.name == "weights" and not Path(card.model).exists():  # of another node
        card = locate_pinned(card, entry["fingerprint"])
    return Served(
        card=card,
        fingerprint=entry["fingerprint"],
        method=method,
        seed=entry["seed"],
        corpus=entry["corpus"],
        texts=entry["texts"],
        vectors=vectors,
        points=_load_matrix(folder / "points") if method.reduces else vectors,
        clusters=np.load(folder / "clusters.npy", allow_pickle=False),
        words={int(c): words for c, words in entry["words"].items()},
        query=entry.get("query"),  # what was saved before there were queries has none
    )


def _save_matrix(path: Path, matrix: Matrix) -> None:
    suffix = ".npz" if sparse.issparse(matrix) else ".npy"
    with replacing(path.with_suffix(suffix)) as temporary, temporary.open("wb") as file:
        if sparse.issparse(matrix):
            sparse.save_npz(file, matrix)
        else:
            np.save(file, np.asarray(matrix))


def _load_matrix(path: Path) -> Matrix:
    if path.with_suffix(".npz").exists():
        return sparse.csr_matrix(sparse.load_npz(path.with_suffix(".npz")))
    return np.load(path.with_suffix(".npy"), allow_pickle=False)
