"""Grouping texts that have no labels: vectors, clusters, and what each cluster is about."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube import components
from traube.components import Method, parse_method
from traube.components.apply import Labels, Matrix
from traube.core import paths
from traube.core.errors import TraubeError, Unsupported
from traube.core.progress import SILENT, Progress
from traube.grouping.describe import distances, keywords, mean_distances, strays, strays_by_distance, typical
from traube.models import Model, Similarity, load_model
from traube.models.card import Precision
from traube.pipeline.executors import make_executor
from traube.pipeline.workbench import Workbench
from traube.reports.cluster_report import MapLayer, cluster_report
from traube.tasks.task import refuse_table

STABLE = "none/stable_kmeans"
WEAK, CLEAR = 0.15, 0.3  # scores; below the first, clouds without clusters score as high
NEARLY = 0.02  # below the best score


@dataclass(frozen=True)
class Layer:
    """One cut through the tree of groups.

    Attributes
    ----------
    labels : int64 [n], -1 for noise and for blank texts
    words : key words by cluster
    typical : positions of typical texts by cluster
    stability : of each cluster, from 0 to 1, where it was measured
    """

    labels: NDArray[np.int64]
    words: dict[int, list[str]]
    typical: dict[int, list[int]]
    stability: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Clusters:
    """Groups of texts.

    Attributes
    ----------
    labels : int64 [n], -1 for noise and for blank texts
    distances : float64 [n], to the mean of the text's cluster, in the model's space; by a similarity, the mean distance
        to the cluster's other texts, where the most alike of all pairs is 0 apart and the least alike 1
    words : key words by cluster
    typical : positions of typical texts by cluster
    k_table : how well each number of clusters fits, where the number was chosen: `excess` of stability
        (`traube.components.choose_stable_k`), `silhouette`, or the `correlation` of `choose_k_by_distance`
    stability : of each cluster, from 0 to 1: how well it is found again in other samples of the texts;
        empty but for `STABLE`
    names : of clusters that have been given one; see `name`
    strays : bool [n], texts that fit no cluster (`traube.grouping.describe.strays`); they are in the nearest one
        all the same, until `without_strays`
    blank : how many texts are empty or hold nothing but spaces; they are in no cluster
    layers : from the coarsest to the finest, `labels` among them; every cluster of a layer lies within one of the layer
        before. Empty where the method makes no tree
    """

    labels: NDArray[np.int64]
    distances: NDArray[np.float64]
    words: dict[int, list[str]]
    typical: dict[int, list[int]]
    k_table: pd.DataFrame | None
    stability: dict[int, float] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    strays: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))  # none where nobody looked
    blank: int = 0
    layers: tuple[Layer, ...] = ()

    def name(self, cluster: int) -> str:
        """The name that a cluster was given, or its first key words; empty for noise."""
        return self.names.get(cluster) or ", ".join(self.words.get(cluster, [])[:3])

    def sizes(self) -> dict[int, int]:
        """How many texts each cluster has, the largest first; noise is none."""
        return dict(Counter(np.sort(self.labels[self.labels >= 0]).tolist()).most_common())

    @property
    def noise(self) -> int:
        """How many texts with words are in no cluster."""
        return int((self.labels < 0).sum()) - self.blank

    @property
    def unsettled(self) -> int:
        """How many texts are in a cluster that they do not fit."""
        return int((self.strays & (self.labels >= 0)).sum()) if len(self.strays) else 0

    @property
    def about_as_good(self) -> list[int]:
        """Numbers of clusters about as steady as the chosen one, itself among them; none where stability did not choose."""
        if self.k_table is None or np.isnan(self.score):
            return []
        near = self.k_table["excess"] >= self.score - NEARLY
        return [int(k) for k in self.k_table.loc[near, "k"] if k > 1]

    def without_strays(self) -> "Clusters":
        """The same, where texts that fit no cluster are noise. No other text moves."""
        if not len(self.strays):
            return self
        labels = np.where(self.strays, -1, self.labels)
        return replace(self, labels=labels, distances=np.where(self.strays, np.nan, self.distances))

    def of_all(self, first: NDArray[np.int64], which: NDArray[np.int64]) -> "Clusters":
        """The same clusters of all texts, where each distinct text was clustered once, and blank ones were not.

        Parameters
        ----------
        first : int64 [m], where each text that was clustered stands first
        which : int64 [n], which of these each text is; -1 for a blank one
        """
        blank = which < 0
        return replace(
            self,
            labels=np.where(blank, -1, self.labels[which]),
            distances=np.where(blank, np.nan, self.distances[which]),
            typical={c: [int(first[i]) for i in positions] for c, positions in self.typical.items()},
            strays=self.strays[which] & ~blank if len(self.strays) else self.strays,
            blank=int(blank.sum()),
        )

    @property
    def score(self) -> float:
        """How far to believe the number of clusters, where stability chose it; else nan."""
        if self.k_table is None or "excess" not in self.k_table:
            return float("nan")
        return float(self.k_table["excess"].max())

    @property
    def clearness(self) -> str:
        """The same in words: `clear groups`, `weak groups` or `no clear groups`; empty where there is no score."""
        if np.isnan(self.score):
            return ""
        return "no clear groups" if self.score < WEAK else "weak groups" if self.score < CLEAR else "clear groups"

    def to_html(
        self,
        texts: Sequence[str],
        vectors: Matrix,
        *,
        title: str,
        notes: Sequence[str] = (),
        columns: pd.DataFrame | None = None,
        panel: bool = True,
    ) -> str:
        """Return the report of the clusters: a labeled map, the groups and the texts, as `cluster_report` makes it.

        Parameters
        ----------
        texts : sequence of str
            The texts that were clustered.
        vectors : ndarray or csr_matrix of shape (n_filled_texts, n_dimensions)
            The embeddings of those that are not blank.
        title : str
            The report's title.
        notes : sequence of str, optional
            Sentences below the title.
        columns : DataFrame of shape (n_texts, n_columns), optional
            What else is known of each text.
        panel : bool, default=True
            Whether groups and texts are listed beside the map.

        Returns
        -------
        str
            HTML that needs no network.
        """
        rows = filled(texts)
        position = {int(row): i for i, row in enumerate(rows)}
        layers = [
            MapLayer(
                layer.labels[rows],
                {c: ", ".join(words[:3]) for c, words in layer.words.items()}
                | (self.names if np.array_equal(layer.labels, self.labels) else {}),
                layer.words,
                {c: [position[i] for i in positions] for c, positions in layer.typical.items()},
                layer.stability,
            )
            for layer in self.layers or (Layer(self.labels, self.words, self.typical, self.stability),)
        ]
        return cluster_report(
            [texts[i] for i in rows],
            vectors,
            layers,
            title=title,
            notes=notes,
            columns=None if columns is None else columns.iloc[rows],
            panel=panel,
        )


def cluster_texts(
    texts: Sequence[str],
    *,
    model: str = "minilm",
    method: str | Method | None = None,
    k: int | None = None,
    seed: int = 42,
    query: str | None = None,
    precision: Precision | None = "auto",
    progress: Progress = SILENT,
) -> Clusters:
    """Group texts, perhaps by what they say to a query, and say what each group is about.

    Vectors are kept in TRAUBE_HOME, so that the same texts are not encoded twice. Blank texts are not
    encoded, and are in no group; equal texts count once, and share a group.

    Parameters
    ----------
    model : name of a model; its weights are downloaded if they are not on this machine
    method : like "umap/hdbscan", a reducer and a clusterer; by default the model's `usual_method`
    k : number of clusters; by default the one that fits best (`traube.components.choose_stable_k`; with
        another method `choose_k`, or `choose_k_by_distance`)
    seed : of everything random
    query : what the texts were found for, where the model is a similarity that compares for a query
    precision : of a transformer; auto is bf16 where that is faster here and agrees with fp32, None what its card says
    progress : who is told of texts that are encoded

    Raises
    ------
    TraubeError
        If texts is a table or a single text, there are none, only blank ones, or fewer than clusters, the method makes no sense, or the
        query is empty, missing or of no use to the model.

    Examples
    --------
    >>> found = ["the dough of the bread", "a loaf of bread", "the crew of the ship", "a ship and its crew"]
    >>> groups = cluster_texts(found, model="tfidf", k=2)
    >>> sorted(words[0] for words in groups.words.values())
    ['bread', 'crew']

    What was found for a query is grouped by what it says to it:

    >>> groups = cluster_texts(found, model="minilm_query_space", query="life at sea", k=2)
    >>> [found[positions[0]] for positions in groups.typical.values()]
    ['the crew of the ship', 'the dough of the bread']
    """
    refuse_table(texts, "cluster_texts", "text")
    first, which = distinct(texts)
    texts = [texts[i] for i in first]
    if k is not None and not 1 <= k <= len(texts):
        raise TraubeError(f"{k} clusters cannot be made of {len(texts)} distinct text{'s' * (len(texts) != 1)}")

    loaded = load_model(model, precision=precision)
    similarity, method = loaded.similarity, usual_method(loaded) if method is None else method
    method = parse_method(method) if isinstance(method, str) else method
    check_query(model, similarity, query)
    reason = method.unsupported_by_distance() if similarity else method.unsupported()
    if reason:
        raise Unsupported(f"{method.name}: {reason}")
    if method.trains:
        raise Unsupported(
            f"{method.name} trains an encoder, which takes minutes to hours: it groups tasks (`traube run`)"
        )
    if similarity and len(texts) < 2:
        raise TraubeError("there is one distinct text, and a similarity compares texts: give at least two")
    values = encoded(loaded, texts if query is None else [*texts, query], progress)
    component, table = components.get_clusterer(method.clusterer), None
    stability: dict[int, float] = {}
    if similarity:
        pairs = similarity.distances(values[: len(texts)], None if query is None else values[-1])
        if k is None and component.takes_k:
            k, table = components.choose_k_by_distance(method.clusterer, method.clusterer_params, pairs, seed)
        labels = components.cluster_by_distance(method.clusterer, method.clusterer_params, pairs, k, seed)
        distance, strange = mean_distances(pairs, labels), strays_by_distance(pairs, labels)
    else:
        if method.name == STABLE:
            labels, table, stability = _stable(values, k, seed)
        elif component.input_kind == "texts":
            labels = components.cluster_by_text(method.clusterer, method.clusterer_params, texts, k, seed)
        else:
            reduces, params = method.reduces, method.reducer_params
            points = components.reduce(method.reducer, params, values, seed) if reduces else values
            if k is None and component.takes_k and not component.chooses_k(method.clusterer_params):
                k, table = components.choose_k(points, seed)
            labels = components.cluster(method.clusterer, method.clusterer_params, points, k, seed)
        distance, strange = distances(values, labels), strays(values, labels)
    words, nearest = keywords(texts, labels), typical(labels, distance)
    return Clusters(labels, distance, words, nearest, table, stability, strays=strange).of_all(first, which)


def filled(texts: Sequence[str]) -> NDArray[np.int64]:
    """Positions of the texts that are not blank, int64 [m]; an error where there are none."""
    rows = np.array([i for i, text in enumerate(texts) if text.strip()], dtype=np.int64)
    if not len(rows):
        raise TraubeError("all texts are empty: there is nothing to group" if texts else "there are no texts to group")
    return rows


def distinct(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each distinct text stands first, int64 [m], and which of these each text is, int64 [n]; -1 for a blank one."""
    rows, number = filled(texts), dict[str, int]()
    which = np.full(len(texts), -1, dtype=np.int64)
    which[rows] = [number.setdefault(texts[i], len(number)) for i in rows]
    return rows[np.unique(which[rows], return_index=True)[1]], which


def usual_method(model: Model) -> str:
    """The method if nobody names one: k-means with a steady number of clusters; by a similarity, average linkage."""
    return "none/agglomerative_average" if model.similarity else STABLE


def check_query(model: str, similarity: Similarity | None, query: str | None) -> None:
    """Refuse a query that is empty or changes nothing, and a model that lacks one."""
    heeded = similarity is not None and similarity.query == "text"
    if heeded and query is None:
        raise TraubeError(
            f"model '{model}' compares texts for a query: say what they were found for (query, or --query)"
        )
    if query is None:
        return
    if not heeded:
        why = {"none": "compares texts whatever the query", "passages": "makes its query of the texts themselves"}
        said = why[similarity.query] if similarity else "has no use for a query"
        raise TraubeError(
            f"model '{model}' {said}; leave the query out, or take a model that has one, as minilm_query_space"
        )
    if not query.strip():
        raise TraubeError("the query is empty: say what the texts were found for")


def encoded(model: Model, texts: list[str], progress: Progress = SILENT) -> Matrix:
    """The vectors of texts, [n, d], kept in TRAUBE_HOME; the model is downloaded if it is not here."""
    model.fetch()
    with make_executor() as executor:
        return Workbench.at(paths.home(), executor).vectors_of_texts(texts, model, progress).load()


def _stable(values: Matrix, k: int | None, seed: int) -> tuple[Labels, pd.DataFrame | None, dict[int, float]]:
    """Labels, table of k and stability of each cluster by the method that says how far to believe it."""
    from traube.components.estimators.stable_kmeans import StableKMeans

    if values.shape[0] == 1:
        return np.zeros(1, dtype=np.int64), None, {}
    found = StableKMeans(n_clusters=k, random_state=seed).fit(values)
    return found.labels_, found.k_table_, {c: float(value) for c, value in enumerate(found.cluster_stability_)}
