"""The one way to cluster a split: what a clusterer takes, and how many clusters it makes, is decided here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from traube._core.errors import Conflict, Invalid
from traube.components._apply import Fitted, apply_clusterer
from traube.components._components import Component, get_clusterer, get_reducer
from traube.components._method import Method
from traube.components._views import TextView, View


def fit(
    method: Method | Component,
    view: View,
    n_clusters: int | None = None,
    seed: int | None = None,
    memory: int | None = None,
    *,
    texts: Sequence[str] | None = None,
) -> Fitted:
    """Cluster a split by a method: reduce its vectors, if the method does, and fit the clusterer.

    Parameters
    ----------
    method : Method or Component
        A reducer and a clusterer, or a clusterer alone with its default parameters.
    view : View
        What the split shows of its texts: vectors, distances, or the texts alone.
    n_clusters : int, optional
        Number of clusters. By default the one that fits best, or that the clusterer finds. With `k: auto` among its
        parameters, the number is that of `choose_stable_k`.
    seed : int, optional
        Seed; the same inputs and seed give the same result.
    memory : int, optional
        Bytes that may be used. By default half of the memory that is free.
    texts : sequence of str, optional
        The texts, for a clusterer that works on them whatever the view.

    Returns
    -------
    Fitted
        Labels of shape (n_texts,), and what else the clusterer reports. A single text, or one cluster, leaves nothing to
        decide: all labels are 0.

    Raises
    ------
    TraubeError
        If the vectors are not finite, or the number of clusters is below 1, above n, or given to a clusterer that
        finds it.
    Unsupported
        If the method does not work on what the view shows.
    DoesNotFit
        If the distances or a dense copy would not fit the memory, or it would take more than an hour.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import VectorView, fit, parse_method
    >>> view = VectorView(np.array([[0, 0], [0, 1], [5, 5], [5, 6]], dtype=np.float32))
    >>> fit(parse_method("pca/agglomerative"), view, n_clusters=2, seed=42).labels.tolist()
    [1, 1, 0, 0]
    """
    if isinstance(method, Component):
        return fit_clusterer(method, None, view, n_clusters, seed, memory, texts=texts)
    if method.reduces:
        view = view.reduce(get_reducer(method.reducer), method.reducer_params, seed, memory)
    return fit_clusterer(method.clusterer, method.clusterer_params, view, n_clusters, seed, memory, texts=texts)


def fit_clusterer(
    clusterer: str | Component,
    params: Mapping[str, Any] | None,
    view: View,
    n_clusters: int | None = None,
    seed: int | None = None,
    memory: int | None = None,
    *,
    texts: Sequence[str] | None = None,
) -> Fitted:
    """Fit a clusterer, which may be none that is registered here, as `fit` fits that of a method."""
    component = get_clusterer(clusterer)
    resolved = component.resolve(params)
    if component.input_kind == "texts" and texts is not None:
        view = TextView(texts)
    view.check(component, resolved)
    number, table = decide_n_clusters(component, resolved, view, n_clusters, seed or 0)
    given = {} if number is None else {"n_clusters": _check_number(component, number, len(view))}
    if len(view) == 1 or number == 1:
        return Fitted(np.zeros(len(view), dtype=np.int64), table)
    X, built_with = view.prepare(component, resolved, number, memory)
    fitted = apply_clusterer(component, built_with, X, len(view), given, seed)
    return fitted if table is None else replace(fitted, n_clusters_table=table)


def decide_n_clusters(
    clusterer: Component, params: Mapping[str, Any], view: View, n_clusters: int | None, seed: int
) -> tuple[int | None, pd.DataFrame | None]:
    """Return the number of clusters that a clusterer is given, None if none is, and the table if it was chosen."""
    if clusterer.n_clusters == "found" and n_clusters is not None:
        raise Conflict(f"{clusterer.name} finds the number of clusters by itself: leave out n_clusters")
    if clusterer.chooses_k(params) or (clusterer.n_clusters == "given" and n_clusters is None):
        return view.choose_n_clusters(clusterer, params, seed)
    return n_clusters, None


def _check_number(clusterer: Component, n_clusters: int, n: int) -> int:
    if not isinstance(n_clusters, int | np.integer) or isinstance(n_clusters, bool):
        raise Invalid(f"{clusterer.name} needs the number of clusters as a whole number, not {n_clusters!r}")
    if not 1 <= n_clusters <= n:
        raise Invalid(f"{clusterer.name}: cannot make {n_clusters} clusters of {n} texts: give at least 1, at most {n}")
    return int(n_clusters)
