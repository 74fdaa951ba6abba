"""Run one component in one thread, within the memory that it may take."""

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import psutil
from scipy import sparse

from traube._core.errors import DoesNotFit, Failed, Malformed
from traube._core.short_repr import ShortRepr
from traube.components.new_points import Matrix
from traube.components.registry import Component, get_reducer
from traube.components.spherical import Labels

GIB = 2**30
LONGEST = 3600.0  # seconds of a core for a split, as far as they are known beforehand


class NestedLabels(NamedTuple):
    """One layer of nested clusters."""

    labels: Labels  # [n]
    stability: dict[int, float]  # of each cluster


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(ShortRepr):
    """Report of a clusterer on a split.

    Attributes
    ----------
    labels : ndarray of shape (n_texts,)
        Clusters, int64; -1 is noise.
    n_clusters_table : DataFrame or None
        How well each number of clusters fits, where the number was chosen.
    stability : dict of int to float
        Of each cluster, from 0 to 1, where it was measured.
    layers : tuple of NestedLabels
        From the coarsest to the finest, `labels` among them; empty unless `Component.reports_layers`.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import VectorView, fit, parse_method
    >>> X = np.array([[0, 0], [0, 1], [5, 5], [5, 6]], dtype=np.float32)
    >>> fitted = fit(parse_method("agglomerative"), VectorView(X))
    >>> len(set(fitted.labels)), list(fitted.n_clusters_table)
    (2, ['k', 'silhouette'])
    """

    labels: Labels
    n_clusters_table: pd.DataFrame | None = None
    stability: dict[int, float] = field(default_factory=dict)
    layers: tuple[NestedLabels, ...] = ()


def reduce(
    reducer: str | Component,
    params: Mapping[str, Any] | None,
    X: Matrix,
    seed: int | None,
    memory_bytes: int | None = None,
) -> Matrix:
    """Fit a reducer and return the coordinates.

    Parameters
    ----------
    reducer : str or Component
        The component, or the name of a registered one.
    params : mapping or None
        Parameters in place of some defaults.
    X : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        Vectors, dense or sparse.
    seed : int or None
        Seed; the same inputs and seed give the same result.
    memory_bytes : int, optional
        Memory that may be used. By default half of the memory that is free.

    Returns
    -------
    ndarray or csr_matrix of shape (n_texts, n_components)
        Coordinates, float32. Csr only from `none`, which leaves the vectors as they are.

    Raises
    ------
    TraubeError
        If the reducer or a parameter does not exist or is out of range, or X is not a finite, non-empty matrix.
    DoesNotFit
        If a dense copy of sparse vectors would not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import reduce
    >>> X = np.array([[0, 0], [0, 1], [5, 5], [5, 6]], dtype=np.float32)
    >>> reduce("pca", {"n_components": 1}, X, seed=42).shape
    (4, 1)
    """
    component = get_reducer(reducer)
    resolved = component.resolve(params)
    X = make_dense(component, resolved, check_vectors(X), memory_bytes)
    coordinates = _run(component, resolved, seed, {}, lambda estimator: estimator.fit_transform(X))
    if sparse.issparse(coordinates):
        return sparse.csr_matrix(coordinates, dtype=np.float32)
    return np.ascontiguousarray(coordinates, dtype=np.float32)


def apply_clusterer(
    component: Component, params: Mapping[str, Any], X: Any, n: int, given: Mapping[str, int], seed: int | None
) -> Fitted:
    """Fit a clusterer on the n rows of what it takes, and return what it reports."""
    estimator, labels = _run(component, params, seed, given, lambda built: (built, np.asarray(built.fit_predict(X))))
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise Malformed(
            f"{component.name} must give an integer for each of {n} texts; it gave {labels.dtype} {labels.shape}"
        )
    labels = labels.astype(np.int64)
    if not component.reports_layers:
        return Fitted(labels)
    layers = [
        NestedLabels(layer, dict(enumerate(stability.tolist())))
        for layer, stability in zip(estimator.layers_, estimator.layer_stability_, strict=True)
    ]
    stability = dict(enumerate(estimator.cluster_stability_.tolist()))
    return Fitted(labels, estimator.k_table_, stability, tuple(layers) if len(layers) > 1 else ())


def _run(
    component: Component,
    params: Mapping[str, Any],
    seed: int | None,
    given: Mapping[str, int],
    fit: Callable[[Any], Any],
) -> Any:
    """Build and fit a component in one thread.

    Threads add their partial sums in the order in which they finish, so with several of them the last bits of a k-means
    center, and now and then a label, would differ from run to run. Splits, methods and seeds run side by side instead.
    """
    try:
        estimator = component.estimator(params, seed, **given)
        with _thread_pools(len(sys.modules)).limit(limits=1), warnings.catch_warnings():
            # Fewer different texts than clusters: the score `clusters` shows it.
            warnings.filterwarnings("ignore", message="Number of distinct clusters", category=UserWarning)
            return fit(estimator)
    except (ValueError, TypeError) as error:  # TypeError: scikit-learn's, of sparse vectors where it takes dense ones
        raise Failed(f"{component.name}: {' '.join(str(error).split())}") from error


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> Any:
    """Return the thread pools of the loaded libraries.

    They are searched after imports only, because the search takes longer than a small clustering.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def check_vectors(X: Matrix) -> Matrix:
    """Return X as float32, csr_matrix if sparse; X is copied only if necessary."""
    X = X if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise Malformed(f"vectors must be a table of texts x dimensions, at least one of each; this is {X.shape}")
    if isinstance(X, np.ndarray):
        X = np.ascontiguousarray(X, dtype=np.float32)
        rows = np.flatnonzero(~np.isfinite(X).all(axis=1))
    else:
        X = sparse.csr_matrix(X, dtype=np.float32)  # UMAP knows matrices, not scipy's newer sparse arrays
        X = X if X.has_sorted_indices else X.sorted_indices()  # UMAP would sort the caller's in place
        rows = np.unique(X.tocoo().row[~np.isfinite(X.data)])
    if len(rows):
        raise Malformed(f"vectors hold NaN or infinity in {len(rows)} rows, the first being row {int(rows[0])}")
    return X


def bytes_needed(component: Component, params: Mapping[str, Any], n: int, d: int, is_sparse: bool) -> int:
    """Return the known memory need of a component beside n vectors of d dimensions: distances, a dense copy.

    Parameters
    ----------
    component : Component
        The component.
    params : mapping
        All its parameters.
    n : int
        Number of vectors.
    d : int
        Number of dimensions.
    is_sparse : bool
        True if the vectors are sparse.

    Returns
    -------
    int
        Bytes; 0 where nothing is known.

    Examples
    --------
    >>> from traube.components import bytes_needed, get_clusterer
    >>> agglomerative = get_clusterer("agglomerative")
    >>> bytes_needed(agglomerative, agglomerative.resolve(), n=1_000, d=384, is_sparse=False)
    8000000
    """
    dense_copy = 8 * n * d if component.dense and is_sparse else 0
    return dense_copy + (8 * n * n if component.holds_distances(params) else 0)


def refuse_long(component: Component, X: Matrix, k: int | None) -> None:
    """Refuse a clustering that would take longer than `LONGEST`."""
    n, is_sparse = X.shape[0], sparse.issparse(X)
    seconds = component.estimate_seconds(n, k, is_sparse)
    if seconds > LONGEST:
        advice = "reduce the vectors first, for example by pca, or " if is_sparse else ""
        raise DoesNotFit(
            f"{component.name} of {n:,} texts in {k:,} clusters would take about {seconds / 3600:,.1f} hours of a core, and one "
            f"at most is spent on a split: {advice}take fewer texts or a coarser level of labels"
        )


def make_dense(component: Component, params: Mapping[str, Any], X: Matrix, memory_bytes: int | None) -> Matrix:
    """Return X, dense if the component needs that; refuse X if the component would not fit into memory."""
    n, d = X.shape
    needed = bytes_needed(component, params, n, d, sparse.issparse(X))
    budget = psutil.virtual_memory().available // 2 if memory_bytes is None else memory_bytes
    if needed > budget:
        quadratic = component.holds_distances(params)
        advice = "use agglomerative_knn (approximate)" if quadratic else "reduce the vectors first, for example by pca"
        raise DoesNotFit(
            f"{component.name} of {n:,} texts in {d:,} dimensions needs {needed / GIB:.1f} GiB, "
            f"and {budget / GIB:.1f} GiB may be used: {advice}, or fewer texts"
        )
    return X if isinstance(X, np.ndarray) else X.toarray()
