"""Clustering as scikit-learn estimators: of texts, and of embeddings."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from traube._grouping.cluster_texts import cluster_texts
from traube._grouping.clustering import Clustering
from traube._grouping.inputs import check_algorithm, encode_texts, open_cache
from traube._grouping.joining import join_clusters
from traube._grouping.layers import Layer, find_level, make_tree
from traube.components import VectorView, fit
from traube.components.apply import NestedLabels
from traube.models import to_model
from traube.tasks.texts import check_whole, read_texts


class _Fitted(ClusterMixin, BaseEstimator):
    """State and methods that both fitted estimators share."""

    labels_: NDArray[np.int64]
    n_clusters_: int
    stability_: NDArray[np.float64]
    tree_: pd.DataFrame

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find groups.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features); or texts
            Embeddings; for `TextClusterer` texts, as `traube.cluster_texts` takes them.
        y : None
            Ignored.

        Returns
        -------
        Self
            The fitted clusterer.
        """
        return self._group(X)

    @abstractmethod
    def _group(self, X: Any) -> Self: ...

    def _keep(
        self, labels: NDArray[np.int64], stability: dict[int, float], layers: Sequence[Layer | NestedLabels]
    ) -> Self:
        self.labels_ = labels
        self.n_clusters_ = len(np.unique(labels[labels >= 0]))
        self.stability_ = np.array([stability.get(c, np.nan) for c in range(int(labels.max(initial=-1)) + 1)])
        self.tree_ = make_tree(layers)
        return self


class EmbeddingClusterer(_Fitted):
    """Group embeddings.

    Equal embeddings count as often as they occur; `TextClusterer` counts equal texts once.

    Parameters
    ----------
    n_clusters : int, optional
        Number of clusters. By default the one that fits best.
    algorithm : str, Method or scikit-learn clusterer, default="auto"
        As in `traube.cluster_texts`.
    random_state : int, RandomState or None, default=42
        Seed of everything random.
    layer : int, "coarse" or "fine", optional
        Which of the nested layers is taken, 0 being the coarsest, in place of a number of clusters. By default the one
        around which they are made.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each embedding, from 0; -1 is noise.
    n_clusters_ : int
        Number of clusters.
    stability_ : ndarray of shape (``n_clusters_``,)
        How well each cluster is found again in other samples, from 0 to 1; nan where that was not measured.
    tree_ : DataFrame
        `layer` (0 is the coarsest), `cluster`, `parent`, `size` and `stability`; no rows where the algorithm makes no
        tree.
    k_table_ : DataFrame or None
        How well each number of clusters fits, where it was chosen.
    n_features_in_ : int
        Number of dimensions.

    Examples
    --------
    >>> from traube import EmbeddingClusterer
    >>> clusterer = EmbeddingClusterer(n_clusters=2).fit([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> bool(clusterer.labels_[0] == clusterer.labels_[1] != clusterer.labels_[2])
    True
    >>> bool(clusterer.predict([[1, 0.1]])[0] == clusterer.labels_[0])
    True
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        algorithm: Any = "auto",
        random_state: Any = 42,
        layer: int | str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.algorithm = algorithm
        self.random_state = random_state
        self.layer = layer

    def _group(self, X: Any) -> Self:
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32)
        if self.n_clusters is not None:
            check_whole(self.n_clusters, "n_clusters")
        if self.n_clusters is not None and not 1 <= self.n_clusters <= X.shape[0]:
            raise ValueError(f"n_clusters={self.n_clusters} clusters cannot be made of n_samples={X.shape[0]}")
        fitted = fit(check_algorithm(self.algorithm), VectorView(X), self.n_clusters, _seed(self.random_state))
        self.k_table_ = fitted.n_clusters_table
        self._embeddings = X
        if self.layer is None:
            return self._keep(fitted.labels, fitted.stability, fitted.layers)
        chosen = fitted.layers[find_level(fitted.layers, self.layer, self.n_clusters)]
        return self._keep(chosen.labels, chosen.stability, fitted.layers)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the cluster whose mean is nearest to each embedding by the cosine, -1 for one of zeros.

        Of the embeddings that were grouped, this may be another one than `labels_` says.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The embeddings.

        Returns
        -------
        ndarray of shape (n_samples,)
            Cluster of each embedding, int64.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        return join_clusters(VectorView(self._embeddings), X, self.labels_)[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class TextClusterer(_Fitted):
    """Group texts, as `traube.cluster_texts` does, behind scikit-learn's interface.

    Of scikit-learn's `check_estimator` only what is not about arrays of numbers applies: X is a column of texts.

    Parameters
    ----------
    model : str, Path, SentenceTransformer, callable or Model, default="auto"
        What encodes the texts.
    n_clusters : int, optional
        Number of clusters. By default the one that fits best.
    algorithm : str, Method or scikit-learn clusterer, default="auto"
        As in `traube.cluster_texts`.
    random_state : int, RandomState or None, default=42
        Seed of everything random.
    precision : {"fp32", "bf16", "auto"}, optional
        As in `traube.cluster_texts`.
    cache : bool, str or Path, default=True
        As in `traube.cluster_texts`.
    text_column : str or int, optional
        As in `traube.cluster_texts`.
    layer : int, "coarse" or "fine", optional
        Which of the nested layers is taken, 0 being the coarsest, in place of a number of clusters. By default the one
        around which they are made.
    groups : str or Path, optional
        A groups.yaml, which renames, merges and splits clusters (`Clustering.edit`); new texts join what it made.

    Attributes
    ----------
    labels_ : ndarray of shape (n_texts,)
        Cluster of each text, from 0; -1 for noise and blank texts.
    n_clusters_ : int
        Number of clusters.
    stability_ : ndarray of shape (``n_clusters_``,)
        How well each cluster is found again in other samples, from 0 to 1; nan where that was not measured. Where
        `groups` merges some, their numbers are left out of `labels_`, and nan here.
    tree_ : DataFrame
        `layer` (0 is the coarsest), `cluster`, `parent`, `size` and `stability`; no rows where the algorithm makes no
        tree.
    clustering_ : Clustering
        The same with key words, names and typical texts.

    Examples
    --------
    >>> from traube import TextClusterer
    >>> texts = ["the dough of the bread", "a loaf of bread", "the crew of the ship", "a ship and its crew"]
    >>> clusterer = TextClusterer(model="tfidf", n_clusters=2).fit(texts)
    >>> clusterer.clustering_.name(clusterer.predict(["bread"])[0])
    'bread, dough, loaf'
    """

    def __init__(
        self,
        model: Any = "auto",
        n_clusters: int | None = None,
        algorithm: Any = "auto",
        random_state: Any = 42,
        precision: Any = "auto",
        cache: Any = True,
        text_column: str | int | None = None,
        layer: int | str | None = None,
        groups: str | Path | None = None,
    ) -> None:
        self.model = model
        self.n_clusters = n_clusters
        self.algorithm = algorithm
        self.random_state = random_state
        self.precision = precision
        self.cache = cache
        self.text_column = text_column
        self.layer = layer
        self.groups = groups

    def _group(self, X: Any) -> Self:
        seed = _seed(self.random_state)
        clustering = cluster_texts(
            X,
            model=self.model,
            n_clusters=self.n_clusters,
            algorithm=self.algorithm,
            random_state=seed,
            precision=self.precision,
            cache=self.cache,
            text_column=self.text_column,
        )
        if self.layer is not None:
            find_level(clustering.layers, self.layer, self.n_clusters)
            clustering = clustering.at_layer(self.layer)
        if self.groups is not None:
            clustering = clustering.edit(self.groups, seed)
        self.clustering_: Clustering = clustering
        return self._keep(clustering.labels, clustering.stability, clustering.layers)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the cluster whose mean is nearest to each text by the cosine, -1 for one without a word that the model knows.

        Of the texts that were grouped, this may be another one than `labels_` says.

        Parameters
        ----------
        X : sequence of str, ndarray, Series, Arrow column, or DataFrame
            The texts, as in `fit`.

        Returns
        -------
        ndarray of shape (n_texts,)
            Cluster of each text, int64.
        """
        check_is_fitted(self)
        new = read_texts(X, "predict", self.text_column).values
        clustering, rows = self.clustering_, [i for i, text in enumerate(new) if text.strip()]
        labels = np.full(len(new), -1, dtype=np.int64)
        if not rows:
            return labels
        # of equal texts, the first
        first = np.unique(clustering.rows[clustering.rows >= 0], return_index=True)[1]
        at = np.flatnonzero(clustering.rows >= 0)[first]
        corpus, texts = [clustering.texts[i] for i in at], [new[i] for i in rows]
        with open_cache(self.cache):
            # the texts that were grouped may have been in other languages
            chosen = clustering.model if isinstance(self.model, str) and self.model == "auto" else self.model
            model = to_model(chosen, precision=self.precision)
            vectors = model.encode_new(corpus, texts) if model.corpus_bound else encode_texts(model, texts)
        labels[rows] = join_clusters(clustering.view, vectors, clustering.parts[at])[0]
        # a new text joins the nearest of the parts that were merged, and with it what they became
        group = dict(zip(clustering.parts.tolist(), clustering.labels.tolist(), strict=True))
        return np.array([group.get(part, -1) for part in labels.tolist()], dtype=np.int64)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)):
        check_whole(random_state, "random_state")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
