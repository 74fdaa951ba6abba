"""Groups of texts: labels, and what each group is about."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.errors import TooFew, Unsupported
from traube._core.hashing import digest
from traube._core.progress import SILENT, Progress
from traube._grouping.describe import find_keywords, find_typical
from traube._grouping.edits import GroupEdits, apply_edits, nest, read_edits
from traube._grouping.inputs import STABLE, find_filled, open_cache
from traube._grouping.layers import Layer, find_level, make_tree, map_positions
from traube._grouping.naming import BUDGET, Namer, Topic, load_namer, name_topics
from traube._grouping.terms import TermReader
from traube._reports.cluster_report import MapLayer, cluster_report
from traube._reports.placing import place_texts
from traube.components import TextView, View, fit, parse_method
from traube.components.new_points import Matrix
from traube.components.stability import EXACT, UNCLEAR, find_alike
from traube.models.long_texts import LongTexts

WEAK, CLEAR = UNCLEAR, 0.25  # scores
LISTED, CUT = 20, 100  # clusters that a notebook shows, and characters of each typical text
PATH = " > "  # between the names of a path


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
        (`traube.components.choose_stable_k`), `silhouette`, or the `correlation` of distances with being in different clusters.
    stability : dict of int to float
        Of each cluster, from 0 to 1: how well it is found again in other samples of the texts. Empty where the
        algorithm does not measure it.
    names : dict of int to str
        Of clusters that have been given one; see `name`.
    naming_note : str
        How many clusters a language model did not name, and why; empty where all are named, or none were to be.
    strays : ndarray of shape (n_texts,)
        Whether a text fits no cluster (`strays` of its view); it is in the nearest one all the same, until
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
    view : View
        What is known of the distinct texts: vectors, distances, or nothing but the texts.
    rows : ndarray of shape (n_texts,)
        Which of the distinct texts each text is; -1 for a blank one.
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
    view: View = field(default_factory=TextView)
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    index: pd.Index | None = None
    model: str = ""

    def __repr__(self) -> str:
        sizes = self.sizes()
        parts = [pluralize(len(self.labels), "text"), pluralize(len(sizes), "cluster"), self.clearness]
        rated = {c: size for c, size in sizes.items() if not np.isnan(self.stability.get(c, np.nan))}
        if rated:
            mean = np.average([self.stability[c] for c in rated], weights=list(rated.values()))
            parts.append(f"stability {mean:.2f}")
        return f"Clustering({', '.join(filter(None, parts))})"

    def _repr_html_(self) -> str:
        table = self.summary()
        table["key_words"] = [", ".join(words) for words in table["key_words"]]
        table["typical_texts"] = [" | ".join(t[:CUT] for t in texts) for texts in table["typical_texts"]]
        more = f"<p>and {len(table) - LISTED} smaller ones</p>" if len(table) > LISTED else ""
        html_table = table.head(LISTED).to_html(index=False, float_format="{:.2f}".format, na_rep="")
        return f"<p>{escape(repr(self))}</p>{html_table}{more}"

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
        group_names = [self.name(c) for c in self.labels.tolist()]
        return [
            PATH.join(names) if label >= 0 else ""
            for *names, label in zip(*above, group_names, self.labels, strict=True)
        ]

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
            raise Unsupported("plot: these texts have no vectors to place: they were compared by a similarity")
        rows = np.flatnonzero(self.rows >= 0)
        layers, chosen = map_layers(self, rows)
        return plot_map(self.vectors[self.rows[rows]], layers[chosen], repr(self), random_state, ax)

    @property
    def vectors(self) -> Matrix | None:
        """The vectors of the distinct texts, [n_distinct_texts, n_dimensions]; None where only distances are known."""
        return self.view.vectors

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
        regrouped = replace(
            self, labels=layer.labels, words=layer.words, typical=layer.typical, stability=layer.stability, **changes
        )
        labels, is_blank = layer.labels[self._distinct()], self.rows < 0
        return replace(
            regrouped,
            distances=np.where(is_blank, np.nan, self.view.to_own_cluster(labels)[self.rows]),
            strays=self.view.strays(labels)[self.rows] & ~is_blank,
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
        distinct_labels = labels[first]
        return map_positions(find_typical(distinct_labels, self.view.to_own_cluster(distinct_labels), self.view), first)

    def _distinct(self) -> NDArray[np.int64]:
        """Return the first position of each distinct text, in the order of the vectors."""
        number, first = np.unique(self.rows, return_index=True)
        return np.asarray(first[number >= 0])

    def _split(self, rows: NDArray[np.int64], n_clusters: int, seed: int) -> NDArray[np.int64]:
        """Cut the texts of a cluster into `n_clusters`; equal texts stay together."""
        if self.vectors is None:
            raise Unsupported("its texts were compared by a similarity: such groups are merged and renamed, not split")
        unique, which = np.unique(self.rows[rows], return_inverse=True)
        if len(unique) < n_clusters:
            raise TooFew(f"it has {pluralize(len(unique), 'distinct text')}: too few for {n_clusters} groups")
        labels = fit(parse_method(STABLE), self.view.take(unique), n_clusters, seed).labels
        if len(np.unique(labels)) < n_clusters:
            raise TooFew(f"its texts are too alike for {n_clusters} groups")
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
            typical=map_positions(self.typical, first),
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
            if self.vectors is None:
                raise Unsupported("to_html: these texts have no vectors to place: they were compared by a similarity")
            points = place_texts(self.vectors[self.rows[rows]])
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
    layers = [
        MapLayer(
            layer.labels[rows],
            {c: layer.name(c) for c in layer.words} | (clustering.names if i == clustering.level else {}),
            layer.words,
            {c: [position[i] for i in positions if i in position] for c, positions in layer.typical.items()},
            layer.stability,
        )
        for i, layer in enumerate(clustering.cuts)
    ]
    return layers, clustering.level


def pluralize(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
