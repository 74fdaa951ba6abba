"""Grouping texts that have no labels: vectors, clusters, and what each cluster is about."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from traube._core.errors import TooFew
from traube._core.progress import SILENT, Progress
from traube._grouping.clustering import Clustering, pluralize
from traube._grouping.inputs import (
    check_algorithm,
    check_query,
    encode_with_query,
    find_distinct,
    find_unknown,
    open_cache,
    resolve_model,
)
from traube._grouping.layers import describe_layers
from traube._grouping.naming import BUDGET, Namer, load_namer
from traube.components import Fitted, VectorView, View, fit
from traube.models import Model, to_model
from traube.models.card import Precision
from traube.models.long_texts import measure_long_texts
from traube.models.views import show
from traube.tasks.texts import check_whole, read_embeddings, read_texts


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
        algorithm that with the best silhouette, or fit to a similarity's distances).
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
        encoder: Model | None = None
        if embeddings is not None:
            view: View = VectorView(read_embeddings(embeddings, "cluster_texts", len(given.values))[first])
            check_query("embeddings", None, query)
            method = check_algorithm(algorithm)
        else:
            encoder = to_model(resolve_model(model, given.values), precision=precision)
            check_query(encoder.name, encoder.similarity, query)
            method = check_algorithm(algorithm, encoder)
            view = _encode(chosen, encoder, query, progress)
        unknown = find_unknown(view)  # texts that are in no group
        known = np.flatnonzero(~unknown)
        _check_number(n_clusters, len(known))
        known_view, known_texts = (view.take(known), [chosen[i] for i in known]) if unknown.any() else (view, chosen)
        fitted = fit(method, known_view, n_clusters, random_state, texts=known_texts)
        clustering = _describe(fitted, known_view, known_texts)
        if unknown.any():
            of_known = clustering.of_all(known, np.where(unknown, -1, np.cumsum(~unknown) - 1))
            clustering = replace(of_known, unknown=unknown, blank=0, view=view)
        if encoder is not None:
            clustering = replace(clustering, long_texts=measure_long_texts(encoder, given.values), model=encoder.name)
    clustering = replace(clustering.of_all(first, which), texts=given.values, index=given.index)
    if namer is not None:
        clustering = clustering.name_clusters(namer, budget=name_budget, cache=cache, progress=progress)
        if clustering.naming_note:
            warnings.warn(clustering.naming_note, stacklevel=2)
    return clustering


def _check_number(n_clusters: int | None, n_texts: int) -> None:
    """Refuse a number of clusters that is none, or that these distinct texts cannot have."""
    if n_clusters is None:
        return
    check_whole(n_clusters, "n_clusters")
    if not 1 <= n_clusters <= n_texts:
        raise TooFew(f"{n_clusters} clusters cannot be made of {pluralize(n_texts, 'distinct text')}")


def _encode(texts: list[str], model: Model, query: str | None, progress: Progress) -> View:
    """Return what a model shows of texts, perhaps for a query."""
    if model.similarity and len(texts) < 2:
        raise TooFew("there is one distinct text, and a similarity compares texts: give at least two")
    vectors, query_vector = encode_with_query(model, texts, query, progress)
    progress.encoded(vectors)
    return show(vectors, model.similarity, query_vector)


def _describe(fitted: Fitted, view: View, texts: list[str]) -> Clustering:
    """Return the groups with words and typical texts, and what the view knows of each text."""
    layers = describe_layers(fitted, view, texts)
    level = next(i for i, layer in enumerate(layers) if np.array_equal(layer.labels, fitted.labels))
    chosen_layer = layers[level]
    return Clustering(
        fitted.labels,
        view.to_own_cluster(fitted.labels),
        chosen_layer.words,
        chosen_layer.typical,
        fitted.n_clusters_table,
        fitted.stability,
        strays=view.strays(fitted.labels),
        layers=tuple(layers) if fitted.layers else (),
        level=level,
        view=view,
    )
