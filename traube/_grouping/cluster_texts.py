"""Grouping texts that have no labels: vectors, clusters, and what each cluster is about."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from traube import components
from traube._core import paths
from traube._core.errors import TraubeError, Unsupported, first_line
from traube._core.hashing import digest
from traube._core.progress import SILENT, Progress
from traube._core.short_repr import ShortRepr
from traube._grouping.describe import (
    alike_by_distance,
    alike_by_vectors,
    are_equal,
    average_distances,
    find_keywords,
    find_strays,
    find_strays_by_distance,
    find_typical,
    measure_distances,
)
from traube._grouping.edits import GroupEdits, apply_edits, nest, read_edits
from traube._grouping.naming import BUDGET, Namer, Topic, load_namer, name_topics
from traube._grouping.terms import TermReader
from traube._pipeline.default_model import AUTO, choose_model
from traube._pipeline.executors import make_executor
from traube._pipeline.workbench import Workbench
from traube._reports.cluster_report import MapLayer, cluster_report
from traube._reports.placing import place_texts
from traube.components import Method, parse_method
from traube.components._apply import Labels, Matrix
from traube.components._stability import EXACT, UNCLEAR, find_alike
from traube.models import FunctionModel, Model, Similarity, to_model
from traube.models._card import Precision
from traube.models._long_texts import LongTexts, measure_long_texts
from traube.models._vectors import Dense
from traube.tasks._languages import detect_languages
from traube.tasks._texts import check_whole, read_embeddings, read_texts

STABLE = "none/stable_kmeans"
WEAK, CLEAR = UNCLEAR, 0.25  # scores
LISTED, CUT = 20, 100  # clusters that a notebook shows, and characters of each typical text
PATH = " > "  # between the names of a path


@dataclass(frozen=True, eq=False, repr=False)
class Layer(ShortRepr):
    """One cut through the tree of groups.

    Attributes
    ----------
    labels : ndarray of shape (n_texts,)
        Clusters; -1 for noise and for blank texts.
    words : dict of int to list of str
        Key words of each cluster.
    typical : dict of int to list of int
        Positions of the typical texts of each cluster.
    stability : dict of int to float
        Of each cluster, from 0 to 1, where it was measured.
    """

    labels: NDArray[np.int64]
    words: dict[int, list[str]] = field(default_factory=dict)
    typical: dict[int, list[int]] = field(default_factory=dict)
    stability: dict[int, float] = field(default_factory=dict)

    def name(self, cluster: int) -> str:
        """Return the first key words of a cluster; empty for noise."""
        return ", ".join(self.words.get(cluster, [])[:3])

    def of_all(self, first: NDArray[np.int64], which: NDArray[np.int64]) -> "Layer":
        """Return the layer of all texts; as in `Clustering`."""
        labels = np.where(which < 0, -1, self.labels[which])
        return replace(self, labels=labels, typical=_positions(self.typical, first))


@dataclass(frozen=True, eq=False, repr=False)
class Grouping(ShortRepr):
    """Labels of a clusterer on vectors, with the table of k, the stabilities and the layers that were found.

    Attributes
    ----------
    labels : ndarray of shape (n_vectors,)
        As in `Clustering`.
    k_table : DataFrame or None
        As in `Clustering`.
    stability : dict of int to float
        As in `Clustering`.
    layers : tuple of Layer
        As in `Clustering`, but without words and typical texts, which are found where there are texts.
    """

    labels: Labels
    k_table: pd.DataFrame | None = None
    stability: dict[int, float] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Clustering:
    """Groups of texts.

    Attributes
    ----------
    labels : ndarray of shape (n_texts,)
        Clusters, from 0; -1 for noise and for blank texts.
    distances : ndarray of shape (n_texts,)
        To the mean of the text's cluster, in the model's space; by a similarity, the mean distance to the cluster's
        other texts, where the most similar of all pairs is 0 apart and the least similar 1.
    words : dict of int to list of str
        Key words of each cluster.
    typical : dict of int to list of int
        Positions of the typical texts of each cluster.
    k_table : DataFrame or None
        How well each number of clusters fits, where the number was chosen: `excess` of stability
        (`traube.components.choose_stable_k`), `silhouette`, or the `correlation` of `choose_k_by_distance`.
    stability : dict of int to float
        Of each cluster, from 0 to 1: how well it is found again in other samples of the texts. Empty where the
        algorithm does not measure it.
    names : dict of int to str
        Of clusters that have been given one; see `name`.
    naming_note : str
        How many clusters a language model did not name, and why; empty where all are named, or none were to be.
    strays : ndarray of shape (n_texts,)
        Whether a text fits no cluster (`traube._grouping.describe.find_strays`); it is in the nearest one all the same, until
        `without_strays`. Empty where nobody looked.
    blank : int
        How many texts are missing, empty or hold nothing but spaces; they are in no cluster.
    layers : tuple of Layer
        From the coarsest to the finest, `labels` among them; every cluster of a layer lies within one of the layer
        before. Empty where the algorithm makes no tree.
    level : int
        Which of the layers has these labels.
    unknown : ndarray of shape (n_texts,)
        Whether the model knows nothing of a text: its vector is 0, as that of a text that holds no word which the
        model knows. Such texts are in no cluster. Empty where all are known.
    long_texts : LongTexts or None
        How many texts are longer than the model reads, and by how much; None if none is.
    unmerged : ndarray of shape (n_texts,) or None
        As `labels`, but before clusters were merged (`edit`); None where nobody did.
    texts : sequence of str
        As they were passed; a missing one is empty.
    vectors : array or csr_matrix of shape (n_distinct_texts, n_dimensions), or None
        None where only distances are known.
    rows : ndarray of shape (n_texts,)
        Which of the vectors each text has; -1 for a blank one.
    index : pandas.Index or None
        Of the Series or DataFrame that was passed, or 0, 1, 2, ...
    model : str
        Name of the model that encoded the texts; empty where embeddings were passed.

    Examples
    --------
    >>> from traube import cluster_texts
    >>> texts = ["the dough of the bread", "a loaf of bread", "the crew of the ship", "a ship and its crew"]
    >>> clustering = cluster_texts(texts, model="tfidf", n_clusters=2, cache=False)
    >>> clustering.labels.tolist()
    [1, 1, 0, 0]
    >>> clustering.name(0)
    'crew, ship'
    """

    labels: NDArray[np.int64]
    distances: NDArray[np.float64]
    words: dict[int, list[str]]
    typical: dict[int, list[int]]
    k_table: pd.DataFrame | None
    stability: dict[int, float] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    naming_note: str = ""
    strays: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    blank: int = 0
    layers: tuple[Layer, ...] = ()
    level: int = 0
    unknown: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    long_texts: LongTexts | None = None
    unmerged: NDArray[np.int64] | None = None
    texts: Sequence[str] = ()
    vectors: Matrix | None = None
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    index: pd.Index | None = None
    model: str = ""

    def __repr__(self) -> str:
        sizes = self.sizes()
        shown = [_pluralize(len(self.labels), "text"), _pluralize(len(sizes), "cluster"), self.clearness]
        rated = {c: size for c, size in sizes.items() if not np.isnan(self.stability.get(c, np.nan))}
        if rated:
            mean = np.average([self.stability[c] for c in rated], weights=list(rated.values()))
            shown.append(f"stability {mean:.2f}")
        return f"Clustering({', '.join(filter(None, shown))})"

    def _repr_html_(self) -> str:
        table = self.summary()
        table["key_words"] = [", ".join(words) for words in table["key_words"]]
        table["typical_texts"] = [" | ".join(t[:CUT] for t in texts) for texts in table["typical_texts"]]
        more = f"<p>and {len(table) - LISTED} smaller ones</p>" if len(table) > LISTED else ""
        shown = table.head(LISTED).to_html(index=False, float_format="{:.2f}".format, na_rep="")
        return f"<p>{escape(repr(self))}</p>{shown}{more}"

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each text, with the index of what was passed.

        Returns
        -------
        DataFrame
            `text`, `cluster` (-1 for noise and blank texts), `name`, `distance` (to the mean of the cluster) and
            `stability` (of the cluster); where there are layers, `path`, and a column `layer_0`, `layer_1`, ... for each,
            from the coarsest on.
        """
        labels = self.labels.tolist()
        columns: dict[str, Any] = {
            "text": list(self.texts) if len(self.texts) else [""] * len(labels),
            "cluster": self.labels,
            "name": [self.name(c) for c in labels],
            "distance": self.distances,
            "stability": [self.stability.get(c, np.nan) for c in labels],
        }
        if self.layers:
            columns["path"] = self.paths()
        columns |= {f"layer_{i}": layer.labels for i, layer in enumerate(self.layers)}
        return pd.DataFrame(columns, index=self.index)

    def paths(self) -> list[str]:
        """Return the names of the groups that hold each text, from the coarsest layer to its own; empty for noise."""
        above = [[layer.name(c) for c in layer.labels.tolist()] for layer in self.layers[: self.level]]
        own = [self.name(c) for c in self.labels.tolist()]
        return [PATH.join(names) if label >= 0 else "" for *names, label in zip(*above, own, self.labels, strict=True)]

    def summary(self) -> pd.DataFrame:
        """Return a row for each cluster, the largest first.

        Returns
        -------
        DataFrame
            `cluster`, `size`, `name`, `key_words` (list of str), `typical_texts` (list of str) and `stability`.
        """
        sizes = self.sizes()
        return pd.DataFrame(
            {
                "cluster": list(sizes),
                "size": list(sizes.values()),
                "name": [self.name(c) for c in sizes],
                "key_words": [self.words.get(c, []) for c in sizes],
                "typical_texts": [[self.texts[i] for i in self.typical.get(c, []) if len(self.texts)] for c in sizes],
                "stability": [self.stability.get(c, np.nan) for c in sizes],
            }
        )

    def plot(self, ax: Any = None, random_state: int = 42) -> Any:
        """Draw a map of the texts, with the name of each cluster where most of its texts are.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw. By default a new figure's.
        random_state : int, default=42
            Seed of UMAP, which places the texts.

        Returns
        -------
        matplotlib.axes.Axes
            The axes of the map.

        Raises
        ------
        TraubeError
            If the model gives distances in place of vectors.
        """
        from traube._grouping.plot import plot_map

        if self.vectors is None:
            raise TraubeError("plot: these texts have no vectors to place: they were compared by a similarity")
        rows = np.flatnonzero(self.rows >= 0)
        layers, chosen = map_layers(self, rows)
        return plot_map(self.vectors[self.rows[rows]], layers[chosen], repr(self), random_state, ax)

    @property
    def tree(self) -> pd.DataFrame:
        """The layers as a table; see `make_tree`."""
        return make_tree(self.layers)

    def name(self, cluster: int) -> str:
        """Return the name that a cluster was given, or its first key words; empty for noise."""
        return self.names.get(cluster) or ", ".join(self.words.get(cluster, [])[:3])

    @property
    def cuts(self) -> tuple[Layer, ...]:
        """The layers, or where there are none the clusters as the only one."""
        return self.layers or (Layer(self.labels, self.words, self.typical, self.stability),)

    @property
    def fingerprint(self) -> str:
        """A hash of the clustering: another text, or a text in another cluster, gives another hash."""
        # a letter in front, since a groups.yaml holds it, and YAML would take digits alone for a number
        return f"c{digest([list(self.texts), self.labels.tolist()])[:7]}"

    def at_layer(self, layer: int | str) -> "Clustering":
        """Return the clusters of another layer.

        Parameters
        ----------
        layer : int, "coarse" or "fine"
            Its number, 0 being the coarsest, or one of the two ends.

        Returns
        -------
        Clustering
            With the labels, key words, typical texts and stability of that layer; the layers stay as they are.

        Raises
        ------
        TraubeError
            If there is no such layer.
        """
        level = find_level(self.layers, layer)
        if level == self.level:
            return self
        return self._in_groups_of(self.layers[level], level=level, names={}, naming_note="", unmerged=None)

    def edit(self, groups: str | Path | GroupEdits, random_state: int = 42) -> "Clustering":
        """Return the clusters renamed, merged and split as a groups.yaml says.

        Parameters
        ----------
        groups : str, Path or GroupEdits
            The file.
        random_state : int, default=42
            Seed of what splits clusters, k-means on smoothed vectors.

        Returns
        -------
        Clustering
            Clusters that nobody changed keep number, words and stability; the other layers nest with what is new.

        Raises
        ------
        TraubeError
            If the file says what it cannot say, was written for another clustering, or a cluster cannot be split.
        """
        edits = groups if isinstance(groups, GroupEdits) else read_edits(Path(groups))
        names = {c: self.name(c) for c in self.sizes()}
        edited = apply_edits(
            edits, self.labels, names, self.texts, self.fingerprint, lambda rows, k: self._split(rows, k, random_state)
        )
        nested = nest([layer.labels for layer in self.cuts], self.level, edited.labels)
        reader = TermReader([self.texts[i] for i in self._distinct()])
        layers = [self._describe(labels, cut, reader) for labels, cut in zip(nested, self.cuts, strict=True)]
        kept = {c: name for c, name in self.names.items() if c in edited.labels}
        return self._in_groups_of(
            layers[self.level],
            layers=tuple(layers) if self.layers else (),
            names=kept | edited.names,
            unmerged=edited.parts,
        )

    def name_clusters(
        self,
        name_with: str | Namer,
        *,
        budget: int = BUDGET,
        cache: bool | str | Path = True,
        progress: Progress = SILENT,
    ) -> "Clustering":
        """Return the same clusters with names by a language model; names that a cluster has been given stay.

        The model reads the key words of a cluster and at most three typical texts, cut after 300 characters; an
        endpoint on another machine is sent them. Where it gives no name, key words stay, and `naming_note` says why.

        Parameters
        ----------
        name_with : str or Namer
            An OpenAI-compatible endpoint as ``URL#MODEL``, such as ``http://127.0.0.1:11434/v1#llama3.2``, whose key
            is the environment's ``TRAUBE_NAME_KEY``; or a causal language model on this machine, as a folder or a
            Hugging Face id.
        budget : int, default=20_000
            The most tokens of all questions and answers (`traube._grouping.naming.name_topics`). The largest clusters
            come first.
        cache : bool, str or Path, default=True
            Where answers are kept, so that no question is sent twice, as in `cluster_texts`.
        progress : Progress, optional
            Callbacks for clusters that are named.

        Returns
        -------
        Clustering
            With these names in `names`.

        Raises
        ------
        TraubeError
            If the endpoint is written wrong, or would be sent texts unencrypted, or the model is not on this machine.
        """
        namer = load_namer(name_with)
        topics = {
            c: Topic(self.words.get(c, []), [self.texts[i] for i in self.typical.get(c, [])])
            for c in self.sizes()
            if c not in self.names
        }
        with open_cache(cache):
            taken = self.names.values()
            names, note = name_topics(topics, namer, budget=budget, taken=taken, progress=progress)
        return replace(self, names=self.names | names, naming_note=note)

    def _in_groups_of(self, layer: Layer, **changes: Any) -> "Clustering":
        """Return the same texts in the groups of a layer."""
        found = replace(
            self, labels=layer.labels, words=layer.words, typical=layer.typical, stability=layer.stability, **changes
        )
        if self.vectors is None:
            return found
        labels, is_blank = layer.labels[self._distinct()], self.rows < 0
        return replace(
            found,
            distances=np.where(is_blank, np.nan, measure_distances(self.vectors, labels)[self.rows]),
            strays=find_strays(self.vectors, labels)[self.rows] & ~is_blank,
        )

    def _describe(self, labels: NDArray[np.int64], before: Layer, reader: TermReader) -> Layer:
        """Return a layer of new labels; clusters that existed before keep their words and typical texts."""
        there = np.unique(labels[labels >= 0]).tolist()
        same = {c for c in there if np.array_equal(labels == c, before.labels == c)}
        words = {c: before.words.get(c, []) for c in same}
        nearest = {c: before.typical.get(c, []) for c in same}
        if len(same) < len(there):
            words = find_keywords(reader, labels[self._distinct()]) | words
            nearest = self._find_typical(labels) | nearest
        stability = {c: before.stability[c] for c in same if c in before.stability}
        return Layer(labels, {c: words[c] for c in there}, {c: nearest[c] for c in there}, stability)

    def _find_typical(self, labels: NDArray[np.int64]) -> dict[int, list[int]]:
        """Return the positions of typical texts of other labels."""
        first = self._distinct()
        own = labels[first]
        if self.vectors is None:
            distance, alike = self.distances[first], are_equal([self.texts[i] for i in first])
        else:
            distance = measure_distances(self.vectors, own)
            alike = alike_by_vectors(self.vectors, distance)
        return _positions(find_typical(own, distance, alike), first)

    def _distinct(self) -> NDArray[np.int64]:
        """Return the first position of each distinct text, in the order of the vectors."""
        number, first = np.unique(self.rows, return_index=True)
        return np.asarray(first[number >= 0])

    def _split(self, rows: NDArray[np.int64], n_clusters: int, seed: int) -> NDArray[np.int64]:
        """Cut the texts of a cluster into `n_clusters`; equal texts stay together."""
        if self.vectors is None:
            raise TraubeError("its texts were compared by a similarity: such groups are merged and renamed, not split")
        own, which = np.unique(self.rows[rows], return_inverse=True)
        if len(own) < n_clusters:
            raise TraubeError(f"it has {_pluralize(len(own), 'distinct text')}: too few for {n_clusters} groups")
        labels = group_vectors(self.vectors[own], check_algorithm("auto"), n_clusters, seed).labels
        if len(np.unique(labels)) < n_clusters:
            raise TraubeError(f"its texts are too alike for {n_clusters} groups")
        return labels[which]

    def sizes(self) -> dict[int, int]:
        """Return how many texts each cluster has, the largest first; noise is none."""
        return dict(Counter(np.sort(self.labels[self.labels >= 0]).tolist()).most_common())

    @property
    def parts(self) -> NDArray[np.int64]:
        """The labels before clusters were merged: a new text joins the nearest part, and the cluster that holds it."""
        return self.labels if self.unmerged is None else np.where(self.labels < 0, -1, self.unmerged)

    @property
    def noise(self) -> int:
        """The number of texts that are in no cluster, and are neither blank nor unknown to the model."""
        return int((self.labels < 0).sum() - self.unknown.sum()) - self.blank

    @property
    def unsettled(self) -> int:
        """The number of texts that are in a cluster that they do not fit."""
        return int((self.strays & (self.labels >= 0)).sum()) if len(self.strays) else 0

    @property
    def about_as_good(self) -> list[int]:
        """List of the numbers of clusters about as stable as the chosen one, with that one; empty if stability did not choose."""
        if self.k_table is None or np.isnan(self.score):
            return []
        exact = self.k_table["stability"] >= EXACT
        chosen = self.k_table["k"] == len(self.sizes())
        alike = self.k_table.loc[exact, "k"] if (exact & chosen).any() else find_alike(self.k_table)
        return [int(k) for k in alike if k > 1]

    def without_strays(self) -> "Clustering":
        """Return the clustering with texts that fit no cluster as noise, so typical of none; no other text moves."""
        if not len(self.strays):
            return self
        labels = np.where(self.strays, -1, self.labels)
        layers = tuple(replace(layer, labels=np.where(self.strays, -1, layer.labels)) for layer in self.layers)
        return replace(
            self,
            labels=labels,
            distances=np.where(self.strays, np.nan, self.distances),
            typical=self._replace_strays(labels, self.typical),
            layers=tuple(replace(la, typical=self._replace_strays(la.labels, la.typical)) for la in layers),
        )

    def _replace_strays(self, labels: NDArray[np.int64], typical: dict[int, list[int]]) -> dict[int, list[int]]:
        """Return typical texts of labels without strays: those of a cluster that had one are chosen again."""
        left = {c: [i for i in at if not self.strays[i]] for c, at in typical.items() if self.strays[at].any()}
        again = self._find_typical(labels) if left and len(self.texts) else {}
        return typical | left | {c: again[c] for c in left if c in again}

    def of_all(self, first: NDArray[np.int64], which: NDArray[np.int64]) -> "Clustering":
        """Return the same clusters for all texts.

        Each distinct text was clustered once, and blank ones were not.

        Parameters
        ----------
        first : ndarray of shape (n_distinct_texts,)
            Where each text that was clustered stands first.
        which : ndarray of shape (n_texts,)
            Which of these each text is; -1 for a blank one.
        """
        blank = which < 0
        return replace(
            self,
            labels=np.where(blank, -1, self.labels[which]),
            distances=np.where(blank, np.nan, self.distances[which]),
            typical=_positions(self.typical, first),
            strays=self.strays[which] & ~blank if len(self.strays) else self.strays,
            unknown=self.unknown[which] & ~blank if len(self.unknown) else self.unknown,
            blank=int(blank.sum()),
            layers=tuple(layer.of_all(first, which) for layer in self.layers),
            rows=which,
        )

    @property
    def score(self) -> float:
        """The stability of the number of clusters, if stability chose that number; else nan."""
        if self.k_table is None or "excess" not in self.k_table:
            return float("nan")
        return float(self.k_table["excess"].max())

    @property
    def clearness(self) -> str:
        """The score in words: `clear groups`, `weak groups` or `no clear groups`; empty if there is no score."""
        if np.isnan(self.score):
            return ""
        return "no clear groups" if self.score < WEAK else "weak groups" if self.score < CLEAR else "clear groups"

    def to_html(
        self,
        texts: Sequence[str] | None = None,
        vectors: Matrix | None = None,
        *,
        title: str | None = None,
        notes: Sequence[str] = (),
        columns: pd.DataFrame | None = None,
        panel: bool = True,
        points: NDArray[np.float32] | None = None,
    ) -> str:
        """Return the report of the clusters: a labeled map, the groups and the texts, as `cluster_report` makes it.

        Parameters
        ----------
        texts : sequence of str, optional
            The texts that were clustered. By default those that were passed.
        vectors : ndarray or csr_matrix of shape (n_filled_texts, n_dimensions), optional
            The embeddings of those that are not blank. By default those that were clustered.
        title : str, optional
            The report's title.
        notes : sequence of str, optional
            Sentences below the title.
        columns : DataFrame of shape (n_texts, n_columns), optional
            What else is known of each text.
        panel : bool, default=True
            Whether groups and texts are listed beside the map.
        points : ndarray of shape (n_filled_texts, 2), optional
            Where those that are not blank are on the map. By default UMAP places them.

        Returns
        -------
        str
            HTML that needs no network.
        """
        texts = self.texts if texts is None else texts
        rows = find_filled(texts)
        if points is None:
            if vectors is None and self.vectors is None:
                raise TraubeError("to_html: these texts have no vectors to place: they were compared by a similarity")
            vectors = self.vectors[self.rows[rows]] if vectors is None and self.vectors is not None else vectors
            points = place_texts(vectors)
        layers, chosen = map_layers(self, rows)
        return cluster_report(
            [texts[i] for i in rows],
            points,
            layers,
            title=repr(self) if title is None else title,
            notes=notes,
            columns=None if columns is None else columns.iloc[rows],
            panel=panel,
            chosen=chosen,
        )


def cluster_texts(
    texts: Any,
    *,
    embeddings: Any = None,
    model: Any = "auto",
    n_clusters: int | None = None,
    algorithm: Any = "auto",
    random_state: int = 42,
    query: str | None = None,
    precision: Precision | None = "auto",
    cache: bool | str | Path = True,
    text_column: str | int | None = None,
    name_with: str | Namer | None = None,
    name_budget: int = BUDGET,
    progress: Progress = SILENT,
) -> Clustering:
    """Group texts, perhaps by what they say to a query, and say what each group is about.

    Blank and missing texts are not encoded, and are in no group; equal texts count once, and share a group.

    Parameters
    ----------
    texts : sequence of str, ndarray, Series, Arrow column, or DataFrame
        The texts, or a table that has a column of them, of pandas, polars, DuckDB or whatever exports Arrow data.
    embeddings : array-like or sparse matrix of shape (n_texts, n_dimensions), optional
        Vectors of the texts, in their order. Then no model is used.
    model : str, Path, SentenceTransformer, callable or Model, default="auto"
        A name (`traube models` lists them), a Hugging Face id or a folder; a network in memory; or a function that
        takes a list of texts and returns an array with a row for each. Weights that are not on this machine are
        downloaded. By default `minilm` for English texts; for others `multilingual_e5_small_q4`, where the extra
        `multilingual` is installed.
    n_clusters : int, optional
        Number of clusters. By default the one that fits best (`traube.components.choose_stable_k`; with another
        algorithm `choose_k`, or `choose_k_by_distance`).
    algorithm : str, Method or scikit-learn clusterer, default="auto"
        A reducer and a clusterer, like "umap/hdbscan", or any estimator with `fit_predict`, like `KMeans(10)`. By
        default the model's `default_method`.
    random_state : int, default=42
        Seed of everything random.
    query : str, optional
        What the texts were found for, where the model is a similarity that compares for a query.
    precision : {"auto", "fp32", "bf16"}, optional
        Of a transformer; "auto" is bf16 where that is faster on this machine and agrees with fp32, None what its card
        says.
    cache : bool, str or Path, default=True
        Where vectors are kept, so that the same texts are not encoded twice: in the data directory (`TRAUBE_HOME`, by
        default `~/.traube`, in a checkout `.traube`), or in a folder of your own. With False they are not kept, and
        nothing is written but what any texts need: downloaded weights, and UMAP's compiled code. Vectors that you
        pass, or that a function makes, are never kept.
    text_column : str or int, optional
        The table's column of texts. By default its only one.
    name_with : str or Namer, optional
        A language model that names the clusters (`Clustering.name_clusters`); what it does not name is one warning.
    name_budget : int, default=20_000
        The most tokens that it may read and write.
    progress : Progress, optional
        Callbacks for texts that are encoded, and clusters that are named.

    Returns
    -------
    Clustering
        Labels of shape (n_texts,), key words, typical texts and stability of each cluster.

    Raises
    ------
    TypeError
        If texts, embeddings, model or algorithm are of a type that cannot be used; the message says what to pass.
    TraubeError
        If there are no texts, only blank ones, or fewer than clusters, the algorithm makes no sense, or the query is
        empty, missing or of no use to the model.

    Examples
    --------
    >>> found = ["the dough of the bread", "a loaf of bread", "the crew of the ship", "a ship and its crew"]
    >>> groups = cluster_texts(found, model="tfidf", n_clusters=2)
    >>> groups
    Clustering(4 texts, 2 clusters, stability 0.66)
    >>> sorted(words[0] for words in groups.words.values())
    ['bread', 'crew']

    What was found for a query is grouped by what it says to it:

    >>> groups = cluster_texts(found, model="minilm_query_space", query="life at sea", n_clusters=2)
    >>> [found[positions[0]] for positions in groups.typical.values()]
    ['the crew of the ship', 'the dough of the bread']
    """
    check_whole(random_state, "random_state")
    given = read_texts(texts, "cluster_texts", text_column)
    first, which = find_distinct(given.values)
    chosen = [given.values[i] for i in first]
    namer = None if name_with is None else load_namer(name_with)  # first: a name that is wrong costs no work
    _check_number(n_clusters, len(chosen))
    with open_cache(cache):
        if embeddings is not None:
            vectors = read_embeddings(embeddings, "cluster_texts", len(given.values))[first]
            check_query("embeddings", None, query)
            found = _group(vectors, chosen, check_algorithm(algorithm), n_clusters, random_state)
        else:
            encoder = to_model(resolve_model(model, given.values), precision=precision)
            found = _encode_and_group(chosen, encoder, n_clusters, algorithm, random_state, query, progress)
            found = replace(found, long_texts=measure_long_texts(encoder, given.values), model=encoder.name)
    found = replace(found.of_all(first, which), texts=given.values, index=given.index)
    if namer is not None:
        found = found.name_clusters(namer, budget=name_budget, cache=cache, progress=progress)
        if found.naming_note:
            warnings.warn(found.naming_note, stacklevel=2)
    return found


def resolve_model(model: Any, texts: Sequence[str]) -> Any:
    """Return the model, or the name of the one for the texts' languages where it is "auto"."""
    return choose_model(detect_languages(texts)).name if isinstance(model, str) and model == AUTO else model


def _check_number(n_clusters: int | None, n_texts: int) -> None:
    """Refuse a number of clusters that is none, or that these distinct texts cannot have."""
    if n_clusters is None:
        return
    check_whole(n_clusters, "n_clusters")
    if not 1 <= n_clusters <= n_texts:
        raise TraubeError(f"{n_clusters} clusters cannot be made of {_pluralize(n_texts, 'distinct text')}")


def _encode_and_group(
    texts: list[str],
    model: Model,
    n_clusters: int | None,
    algorithm: Any,
    seed: int,
    query: str | None,
    progress: Progress,
) -> Clustering:
    similarity = model.similarity
    check_query(model.name, similarity, query)
    checked = check_algorithm(default_method(model) if algorithm == "auto" else algorithm, similarity)
    if similarity and len(texts) < 2:
        raise TraubeError("there is one distinct text, and a similarity compares texts: give at least two")
    vectors = encode_texts(model, texts if query is None else [*texts, query], progress)
    progress.encoded(vectors[: len(texts)])
    if not similarity:
        return _group(vectors, texts, checked, n_clusters, seed)
    pairs = similarity.distances(vectors[: len(texts)], None if query is None else vectors[-1])
    return _group_by_distance(pairs, texts, checked, n_clusters, seed)


def _group_by_distance(
    pairs: Dense, texts: list[str], algorithm: Method, n_clusters: int | None, seed: int
) -> Clustering:
    """Group texts by the distances of all pairs, and describe the groups."""
    clusterer, params, table = algorithm.clusterer, algorithm.clusterer_params, None
    if n_clusters is None and components.get_clusterer(clusterer).takes_k:
        n_clusters, table = components.choose_k_by_distance(clusterer, params, pairs, seed)
    labels = components.cluster_by_distance(clusterer, params, pairs, n_clusters, seed)
    distance = average_distances(pairs, labels)
    return Clustering(
        labels,
        distance,
        find_keywords(texts, labels),
        find_typical(labels, distance, alike_by_distance(pairs, distance)),
        table,
        strays=find_strays_by_distance(pairs, labels),
    )


def _group(vectors: Matrix, texts: list[str], algorithm: Any, n_clusters: int | None, seed: int) -> Clustering:
    """Group vectors, and describe the groups by their texts; vectors of 0 say nothing, and are in no group."""
    unknown = find_unknown(vectors)
    if unknown.any():
        rows = np.flatnonzero(~unknown)
        _check_number(n_clusters, len(rows))
        of_known = _group(vectors[rows], [texts[i] for i in rows], algorithm, n_clusters, seed)
        which = np.where(unknown, -1, np.cumsum(~unknown) - 1)
        return replace(of_known.of_all(rows, which), unknown=unknown, blank=0, vectors=vectors)
    found = group_vectors(vectors, algorithm, n_clusters, seed, texts)
    reader = TermReader(texts)
    layers = []
    for layer in found.layers or (Layer(found.labels, stability=found.stability),):
        distance = measure_distances(vectors, layer.labels)
        nearest = find_typical(layer.labels, distance, alike_by_vectors(vectors, distance))
        layers.append(replace(layer, words=find_keywords(reader, layer.labels), typical=nearest))
    level = next(i for i, layer in enumerate(layers) if np.array_equal(layer.labels, found.labels))
    own = layers[level]
    return Clustering(
        found.labels,
        measure_distances(vectors, found.labels),
        own.words,
        own.typical,
        found.k_table,
        found.stability,
        strays=find_strays(vectors, found.labels),
        layers=tuple(layers) if found.layers else (),
        level=level,
        vectors=vectors,
    )


def check_algorithm(algorithm: Any, similarity: Similarity | None = None) -> Any:
    """Return the Method of a name, or a scikit-learn clusterer as it is; refuse any other algorithm.

    Raises
    ------
    TypeError
        If it is neither.
    Unsupported
        If it cannot group these vectors, or the distances of a similarity.
    """
    if isinstance(algorithm, str):
        algorithm = parse_method(STABLE if algorithm == "auto" else algorithm)
    if not isinstance(algorithm, Method):
        if isinstance(algorithm, type) or not hasattr(algorithm, "fit_predict"):
            raise TypeError(
                f'algorithm is of type {type(algorithm).__name__}: pass a name, like "umap/hdbscan", or a scikit-learn '
                "clusterer, like KMeans(10)"
            )
        if similarity:
            raise Unsupported("a similarity gives distances, and scikit-learn's clusterers take vectors: pass a name")
        return algorithm
    reason = algorithm.unsupported_by_distance() if similarity else algorithm.unsupported()
    if reason:
        raise Unsupported(f"{algorithm.name}: {reason}")
    if algorithm.trains:
        raise Unsupported(
            f"{algorithm.name} trains an encoder, which takes minutes to hours: it groups tasks (`traube run`)"
        )
    return algorithm


def group_vectors(
    vectors: Matrix, algorithm: Any, n_clusters: int | None, seed: int, texts: list[str] | None = None
) -> Grouping:
    """Group vectors by a checked algorithm (`check_algorithm`); an algorithm on words groups the texts instead."""
    if not isinstance(algorithm, Method):
        return Grouping(_fit_predict(algorithm, vectors, n_clusters, seed))
    if algorithm.name == STABLE:
        return _stable(vectors, algorithm.clusterer_params, n_clusters, seed)
    clusterer, params, table = algorithm.clusterer, algorithm.clusterer_params, None
    component = components.get_clusterer(clusterer)
    if component.input_kind == "texts":
        if texts is None:
            raise Unsupported(f"{algorithm.name} groups texts, and these are vectors")
        return Grouping(components.cluster_by_text(clusterer, params, texts, n_clusters, seed))
    points = vectors
    if algorithm.reduces:
        points = components.reduce(algorithm.reducer, algorithm.reducer_params, vectors, seed)
    if n_clusters is None and component.takes_k and not component.chooses_k(params):
        n_clusters, table = components.choose_k(points, seed)
    return Grouping(components.cluster(clusterer, params, points, n_clusters, seed), table)


def _fit_predict(estimator: Any, vectors: Matrix, n_clusters: int | None, seed: int) -> Labels:
    """Return labels by a scikit-learn clusterer, numbered from 0; -1 is noise."""
    from sklearn.base import clone

    name, params = type(estimator).__name__, estimator.get_params(deep=False)
    if n_clusters is not None and "n_clusters" not in params:
        raise TraubeError(f"{name} finds the number of clusters by itself: leave out n_clusters")
    given = {} if n_clusters is None else {"n_clusters": n_clusters}
    if params.get("random_state", 0) is None:
        given["random_state"] = seed
    try:
        labels = np.asarray(clone(estimator).set_params(**given).fit_predict(vectors))
    except Exception as error:
        raise TraubeError(f"{name} fails on {vectors.shape[0]} vectors ({first_line(error)})") from error
    if labels.shape != (vectors.shape[0],):
        raise TraubeError(f"{name} gives labels of shape {labels.shape} for {vectors.shape[0]} vectors")
    numbered = np.full(len(labels), -1, dtype=np.int64)
    numbered[labels >= 0] = np.unique(labels[labels >= 0], return_inverse=True)[1]
    return numbered


def find_level(layers: Sequence[Layer], layer: int | str, n_clusters: int | None = None) -> int:
    """Return the number of a layer, which may be called "coarse" or "fine"; refuse a layer that does not exist.

    Raises
    ------
    TypeError
        If it is neither a number nor a name.
    TraubeError
        If there is no such layer, or a number of clusters is given as well.
    """
    if isinstance(layer, bool) or not isinstance(layer, (int, np.integer, str)):
        raise TypeError(f'layer is of type {type(layer).__name__}: pass a whole number, "coarse" or "fine"')
    if n_clusters is not None:
        raise TraubeError("a layer and a number of clusters both say where to cut: leave one of them out")
    if not layers:
        raise TraubeError(
            "there are no layers: none/stable_kmeans makes them where there are enough texts; leave the layer out, or "
            "choose a number of clusters"
        )
    last = len(layers) - 1
    name = str(layer).strip().casefold()
    level = {"coarse": 0, "fine": last}.get(name, int(name) if name.isdecimal() else -1)
    if not 0 <= level <= last:
        raise TraubeError(f"there is no layer {layer}: choose from 0 (coarse) to {last} (fine)")
    return level


def make_tree(layers: Sequence[Layer]) -> pd.DataFrame:
    """Return the clusters of all layers, from the coarsest layer on.

    Returns
    -------
    DataFrame
        `layer` (0 is the coarsest), `cluster`, `parent` (the cluster of the layer before that holds it, none in the
        coarsest), `size` and `stability`. Without layers it has no rows.
    """
    rows = []
    for number, layer in enumerate(layers):
        for cluster in np.unique(layer.labels[layer.labels >= 0]).tolist():
            members = np.flatnonzero(layer.labels == cluster)
            parent = int(layers[number - 1].labels[members[0]]) if number else pd.NA
            rows.append((number, cluster, parent, len(members), layer.stability.get(cluster, np.nan)))
    table = pd.DataFrame(rows, columns=["layer", "cluster", "parent", "size", "stability"])
    whole = {"layer": "int64", "cluster": "int64", "parent": "Int64", "size": "int64", "stability": "float64"}
    return table.astype(whole)


def map_layers(clustering: Clustering, rows: NDArray[np.int64]) -> tuple[list[MapLayer], int]:
    """Return the layers of a map of some texts, from the coarsest on, and the position of the one that was chosen.

    Parameters
    ----------
    clustering : Clustering
        Its layers, or the clusters alone where there are none.
    rows : ndarray of int
        Positions of the texts that are on the map.

    Returns
    -------
    layers : list of MapLayer
        The layers, with the texts by their positions on the map.
    chosen : int
        Which of them holds the clusters themselves.
    """
    position = {int(row): i for i, row in enumerate(rows)}
    found = [
        MapLayer(
            layer.labels[rows],
            {c: layer.name(c) for c in layer.words} | (clustering.names if i == clustering.level else {}),
            layer.words,
            {c: [position[i] for i in positions if i in position] for c, positions in layer.typical.items()},
            layer.stability,
        )
        for i, layer in enumerate(clustering.cuts)
    ]
    return found, clustering.level


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


def _positions(typical: dict[int, list[int]], first: NDArray[np.int64]) -> dict[int, list[int]]:
    return {c: [int(first[i]) for i in positions] for c, positions in typical.items()}


def _pluralize(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def find_filled(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return positions of the texts that are not blank, int64 [m]; raise an error if all are blank."""
    rows = np.array([i for i, text in enumerate(texts) if text.strip()], dtype=np.int64)
    if not len(rows):
        raise TraubeError("all texts are empty: there is nothing to group" if texts else "there are no texts to group")
    return rows


def find_distinct(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first position of each distinct text, int64 [m], and the index of each text's, int64 [n].

    The index is -1 for a blank text.
    """
    rows, number = find_filled(texts), dict[str, int]()
    which = np.full(len(texts), -1, dtype=np.int64)
    which[rows] = [number.setdefault(texts[i], len(number)) for i in rows]
    return rows[np.unique(which[rows], return_index=True)[1]], which


def find_unknown(vectors: Matrix) -> NDArray[np.bool_]:
    """Return which vectors are 0, as those of texts of which a model knows no word; raise an error if all are."""
    known = (vectors != 0).getnnz(axis=1) > 0 if sparse.issparse(vectors) else np.asarray(vectors).any(axis=1)
    if not known.any():
        raise TraubeError("all vectors are 0: the model knows no word of the texts; take another one (`traube models`)")
    return np.asarray(~known)


def default_method(model: Model) -> str:
    """Return the default method: k-means with the most stable number of clusters.

    For a similarity, the default is average linkage.
    """
    return "none/agglomerative_average" if model.similarity else STABLE


def check_query(model: str, similarity: Similarity | None, query: str | None) -> None:
    """Refuse a query that is empty or that the model does not use, and a missing query that the model needs."""
    is_used = similarity is not None and similarity.query == "text"
    if is_used and query is None:
        raise TraubeError(
            f"model '{model}' compares texts for a query: say what they were found for (query, or --query)"
        )
    if query is None:
        return
    if not is_used:
        reasons = {"none": "compares texts whatever the query", "passages": "makes its query of the texts themselves"}
        reason = reasons[similarity.query] if similarity else "has no use for a query"
        raise TraubeError(
            f"model '{model}' {reason}; leave the query out, or take a model that has one, as minilm_query_space"
        )
    if not query.strip():
        raise TraubeError("the query is empty: say what the texts were found for")


def encode_texts(model: Model, texts: list[str], progress: Progress = SILENT) -> Matrix:
    """Return the vectors of texts, [n, d], kept in the data directory; download the model if need be."""
    model.fetch()
    if isinstance(model, FunctionModel):  # nothing says whether a function has changed
        return model.encode(texts)
    with make_executor() as executor:
        return Workbench.at(paths.home(), executor).vectors_of_texts(texts, model, progress).load()


def _stable(values: Matrix, params: Mapping[str, Any], k: int | None, seed: int) -> Grouping:
    """Group by k-means with the most stable number of clusters, and by layers around it."""
    if values.shape[0] == 1:
        return Grouping(np.zeros(1, dtype=np.int64))
    found = components.get_clusterer("stable_kmeans").estimator(params, seed, n_clusters=k).fit(values)
    layers = tuple(
        Layer(labels, stability=dict(enumerate(stability.tolist())))
        for labels, stability in zip(found.layers_, found.layer_stability_, strict=True)
    )
    own = dict(enumerate(found.cluster_stability_.tolist()))
    return Grouping(found.labels_, found.k_table_, own, layers if len(layers) > 1 else ())
