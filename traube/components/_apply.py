"""Run one component on one split: on its vectors, its distances or its texts."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import psutil
from scipy import sparse

from traube._core.errors import DoesNotFit, TraubeError
from traube.components._components import AUTO, Component, get_clusterer, get_reducer
from traube.components._new_points import Matrix
from traube.components._spherical import Labels
from traube.components._stability import choose_stable_k

GIB = 2**30
LONGEST = 3600.0  # seconds of a core for a split, as far as they are known beforehand


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
    X = _prepare(component, resolved, _check_vectors(X), memory_bytes)
    coordinates = _run(component, resolved, seed, {}, lambda estimator: estimator.fit_transform(X))
    if sparse.issparse(coordinates):
        return sparse.csr_matrix(coordinates, dtype=np.float32)
    return np.ascontiguousarray(coordinates, dtype=np.float32)


def cluster(
    clusterer: str | Component,
    params: Mapping[str, Any] | None,
    X: Matrix,
    k: int | Literal["auto"] | None,
    seed: int | None,
    memory_bytes: int | None = None,
) -> Labels:
    """Fit a clusterer and return the labels.

    Parameters
    ----------
    clusterer : str or Component
        The component, or the name of a registered one.
    params : mapping or None
        Parameters in place of some defaults.
    X : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        Vectors, dense or sparse.
    k : int, "auto" or None
        Number of clusters, for clusterers that take it. With "auto", or `k: auto` among the parameters, the number is
        that of `choose_stable_k`.
    seed : int or None
        Seed; the same inputs and seed give the same result.
    memory_bytes : int, optional
        Memory that may be used. By default half of the memory that is free.

    Returns
    -------
    ndarray of shape (n_texts,)
        Labels, int64; -1 is noise. A single text, or k = 1, leaves nothing to decide: all zeros.

    Raises
    ------
    TraubeError
        As in `reduce`; or if k is missing, below 1 or above n, or the clusterer works on texts.
    DoesNotFit
        If the distances or a dense copy would not fit, or it would take more than `LONGEST`.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import cluster
    >>> X = np.array([[0, 0], [0, 1], [5, 5], [5, 6]], dtype=np.float32)
    >>> cluster("agglomerative", None, X, k=2, seed=None).tolist()
    [0, 0, 1, 1]
    """
    component = get_clusterer(clusterer)
    if component.fitted_on != "vectors":
        raise TraubeError(f"{component.name} works on texts, not on vectors")
    X = _check_vectors(X)
    n = X.shape[0]
    resolved = component.resolve(params)
    if component.takes_k and (k == AUTO or component.chooses_k(resolved)):
        k, _ = choose_stable_k(X, seed or 0)
    given = _check_k(component, k, n)
    if n == 1 or given.get("n_clusters") == 1:
        return np.zeros(n, dtype=np.int64)
    X = _prepare(component, resolved, X, memory_bytes)
    _refuse_long(component, X, given.get("n_clusters"))
    if sparse.issparse(X):
        # scikit-learn computes in double anyway, and converts block by block: a hundred times slower
        X = X.astype(np.float64)
    return _fit_labels(component, resolved, X, n, given, seed)


def _fit_labels(
    component: Component, params: Mapping[str, Any], X: Any, n: int, given: Mapping[str, int], seed: int | None
) -> Labels:
    if n == 1 or given.get("n_clusters") == 1:
        return np.zeros(n, dtype=np.int64)
    labels = np.asarray(_run(component, params, seed, given, lambda estimator: estimator.fit_predict(X)))
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise TraubeError(
            f"{component.name} must give an integer for each of {n} texts; it gave {labels.dtype} {labels.shape}"
        )
    return labels.astype(np.int64)


def cluster_by_distance(
    clusterer: str | Component, params: Mapping[str, Any] | None, distances: Matrix, k: int | None, seed: int | None
) -> Labels:
    """Cluster items by their distances, as `cluster` does by vectors.

    Parameters
    ----------
    clusterer : str or Component
        The component, or the name of a registered one; it must work on distances.
    params : mapping or None
        Parameters in place of some defaults.
    distances : ndarray of shape (n_items, n_items)
        Distances, symmetric, 0 on the diagonal.
    k : int or None
        Number of clusters, for clusterers that take it.
    seed : int or None
        Seed; the same inputs and seed give the same result.

    Returns
    -------
    ndarray of shape (n_items,)
        Labels, int64; -1 is noise.

    Raises
    ------
    TraubeError
        As in `cluster`, or if the clusterer does not work on distances.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import cluster_by_distance
    >>> positions = np.array([0.0, 1.0, 5.0, 6.0])
    >>> distances = np.abs(positions[:, None] - positions[None, :])
    >>> cluster_by_distance("agglomerative_average", None, distances, k=2, seed=None).tolist()
    [0, 0, 1, 1]
    """
    component = get_clusterer(clusterer)
    resolved = component.resolve(params)
    suited = component.by_distance(resolved)
    if suited is None:
        raise TraubeError(f"{component.name} works on {component.fitted_on}, not on distances")
    n = distances.shape[0]
    given = _check_k(component, k, n)
    return _fit_labels(component, suited, np.ascontiguousarray(distances, dtype=np.float64), n, given, seed)


def cluster_by_text(
    clusterer: str | Component, params: Mapping[str, Any] | None, texts: Sequence[str], k: int | None, seed: int | None
) -> Labels:
    """Cluster texts, as `cluster` does vectors.

    Parameters
    ----------
    clusterer : str or Component
        The component, or the name of a registered one; it must work on texts.
    params : mapping or None
        Parameters in place of some defaults.
    texts : sequence of str
        The texts; some may be empty, but not all.
    k : int or None
        Number of clusters, for clusterers that take it.
    seed : int or None
        Seed; the same inputs and seed give the same result.

    Returns
    -------
    ndarray of shape (n_texts,)
        Labels, int64; -1 is noise.

    Raises
    ------
    TraubeError
        As in `cluster`, or if the clusterer does not work on texts.

    Examples
    --------
    >>> from traube.components import cluster_by_text
    >>> cluster_by_text("gsdmm", None, ["a loaf of bread", "bread", "?"], k=None, seed=42).tolist()
    [0, 0, -1]
    """
    component = get_clusterer(clusterer)
    if component.input_kind != "texts":
        raise TraubeError(f"{component.name} works on {component.fitted_on}, not on texts")
    texts, n = list(texts), len(texts)
    if not n:
        raise TraubeError("there are no texts to group")
    return _fit_labels(component, component.resolve(params), texts, n, _check_k(component, k, n), seed)


def _check_k(component: Component, k: int | str | None, n: int) -> dict[str, int]:
    if not component.takes_k:
        return {}
    if not isinstance(k, int | np.integer) or isinstance(k, bool):
        raise TraubeError(f"{component.name} needs the number of clusters (see traube.components.choose_k)")
    if not 1 <= k <= n:
        raise TraubeError(f"{component.name}: cannot make {k} clusters of {n} texts: give at least 1, at most {n}")
    return {"n_clusters": int(k)}


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
    except ValueError as error:
        raise TraubeError(f"{component.name}: {' '.join(str(error).split())}") from error


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> Any:
    """Return the thread pools of the loaded libraries.

    They are searched after imports only, because the search takes longer than a small clustering.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _check_vectors(X: Matrix) -> Matrix:
    """Return X as float32, csr_matrix if sparse; X is copied only if necessary."""
    X = X if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise TraubeError(f"vectors must be a table of texts x dimensions, at least one of each; this is {X.shape}")
    if isinstance(X, np.ndarray):
        X = np.ascontiguousarray(X, dtype=np.float32)
        rows = np.flatnonzero(~np.isfinite(X).all(axis=1))
    else:
        X = sparse.csr_matrix(X, dtype=np.float32)  # UMAP knows matrices, not scipy's newer sparse arrays
        X = X if X.has_sorted_indices else X.sorted_indices()  # UMAP would sort the caller's in place
        rows = np.unique(X.tocoo().row[~np.isfinite(X.data)])
    if len(rows):
        raise TraubeError(f"vectors hold NaN or infinity in {len(rows)} rows, the first being row {int(rows[0])}")
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


def _refuse_long(component: Component, X: Matrix, k: int | None) -> None:
    """Refuse a clustering that would take longer than `LONGEST`."""
    n, is_sparse = X.shape[0], sparse.issparse(X)
    seconds = component.estimate_seconds(n, k, is_sparse)
    if seconds > LONGEST:
        advice = "reduce the vectors first, for example by pca, or " if is_sparse else ""
        raise DoesNotFit(
            f"{component.name} of {n:,} texts in {k:,} clusters would take about {seconds / 3600:,.1f} hours of a core, and one "
            f"at most is spent on a split: {advice}take fewer texts or a coarser level of labels"
        )


def _prepare(component: Component, params: Mapping[str, Any], X: Matrix, memory_bytes: int | None) -> Matrix:
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
