"""Reducers as scikit-learn estimators, with the defaults of protocol `paper`."""

import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from typing_extensions import override

from traube.components.estimators.compiled import keep_machine_code
from traube.components.estimators.lazy_umap import import_umap
from traube.components.new_points import Matrix, place_by_neighbors
from traube.components.spherical import Array

FLOATS = [np.float64, np.float32]  # neither is converted


class SparseInput(BaseEstimator):
    """An estimator of dense or sparse rows."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Reducer(TransformerMixin, SparseInput):
    """Base class of the reducers: dense or sparse rows, in single or double precision."""

    def _validate(self, X: Any, fitting: bool) -> Matrix:
        if not fitting:
            check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=fitting)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(eq=False, repr=False)
class Pca(_Reducer):
    """Principal components of dense or sparse vectors.

    Sparse vectors are centered implicitly (ARPACK), so the dense matrix is never built. There are
    never more components than texts or dimensions: the result is [n, min(n_components, n, d)].

    Parameters
    ----------
    n_components : int, default=2
        Number of components.
    random_state : int, optional
        Seed of the randomized solvers, which scikit-learn takes for large inputs.

    Attributes
    ----------
    pca_ : sklearn.decomposition.PCA
        The fitted estimator.
    """

    n_components: int = 2
    random_state: int | None = None

    def fit(self, X: Matrix, y: None = None) -> Self:
        """Fit on dense or sparse [n, d]."""
        self.fit_transform(X)
        return self

    @override
    def fit_transform(self, X: Matrix, y: None = None, **fit_params: Any) -> Array:
        from sklearn.decomposition import PCA

        X = self._validate(X, fitting=True)
        smallest = min(X.shape)
        if not isinstance(X, np.ndarray) and self.n_components >= smallest:
            X = X.toarray()  # ARPACK wants fewer components than that; one side is tiny here, so the copy is small
        self.pca_ = PCA(n_components=min(self.n_components, smallest), random_state=self.random_state)
        with np.errstate(invalid="ignore", divide="ignore"):  # shares of the variance, of which a single text has none
            return self.pca_.fit_transform(X)

    def transform(self, X: Matrix) -> Array:
        """Return new points of shape (n_points, n_components)."""
        return self.pca_.transform(self._validate(X, fitting=False))


@dataclass(eq=False, repr=False)
class Umap(_Reducer):
    """UMAP (McInnes et al. 2018) with defaults that hold for few texts as well.

    Parameters
    ----------
    n_components : int, default=2
        Dimensions of the layout.
    n_neighbors : int, default=15
        Neighbors of each text in the graph, at most n - 1.
    metric : str, default="cosine"
        Distance of two vectors, as in umap-learn.
    min_dist : float, default=0.1
        Distance that near texts have in the layout.
    spread : float, default=1.0
        Scale of the layout.
    n_epochs : int, optional
        Epochs of the optimization. By default as many as umap-learn takes.
    init : str, default="spectral"
        Layout to start from, as in umap-learn.
    knn : {"exact", "approximate"}, default="exact"
        "exact" computes the neighbors by brute force in scikit-learn; "approximate" leaves them to UMAP: exact ones
        through a Python call for every pair of dense vectors below 4,096 texts (four fifths of a fit), NN-descent
        above, whose compilation costs 20 s and more in each process. After "exact", new texts are placed at the
        weighted mean of their nearest neighbors' places; after "approximate" UMAP places them itself.
    random_state : int, optional
        Seed; with a seed UMAP is deterministic on one machine, and single-threaded.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_texts, n_components)
        The layout, float32.

    Notes
    -----
    The spectral start needs more than `n_components` + 1 texts. For fewer the start is random,
    which is also what UMAP falls back to when its eigensolver fails. Below three texts there is no
    neighborhood graph at all: they are put in a row, one unit apart.
    """

    n_components: int = 2
    n_neighbors: int = 15
    metric: str = "cosine"
    min_dist: float = 0.1
    spread: float = 1.0
    n_epochs: int | None = None
    init: str = "spectral"
    knn: str = "exact"
    random_state: int | None = None

    def fit(self, X: Matrix, y: None = None) -> Self:
        """Fit on [n, d], dense or csr; `embedding_` is float32 [n, n_components]."""
        if self.knn not in ("exact", "approximate"):
            raise ValueError(f"knn must be 'exact' or 'approximate', not {self.knn!r}")
        X = self._validate(X, fitting=True)
        self.fitted_X_ = X
        n = X.shape[0]
        if n < 3:
            self.embedding_ = np.repeat(np.arange(n, dtype=np.float32)[:, None], self.n_components, axis=1)
            return self
        umap = load_umap()
        exact = self.knn == "exact"
        n_neighbors = min(self.n_neighbors, n - 1)
        too_few = self.init == "spectral" and n <= self.n_components + 1
        # UMAP's own curve, in the precision of the layout: powers of single numbers take a fifth less of a whole fit
        a, b = map(np.float32, umap.umap_.find_ab_params(self.spread, self.min_dist))
        umap_params = {**self.get_params(), "n_neighbors": n_neighbors, "init": "random" if too_few else self.init}
        del umap_params["knn"]
        self.umap_ = umap.UMAP(
            **umap_params,
            a=a,
            b=b,
            precomputed_knn=(*find_neighbors_by(X, n_neighbors, self.metric), None) if exact else (None, None, None),
            force_approximation_algorithm=exact,  # or UMAP ignores the neighbors of fewer than 4,096 texts
            n_jobs=-1 if self.random_state is None else 1,  # a seed forces one job anyway, with a warning
        )
        with warnings.catch_warnings():
            message = r"precomputed_knn\[2\] \(knn_search_index\)"
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
            self.embedding_ = self.umap_.fit_transform(X)
        return self

    @override
    def fit_transform(self, X: Matrix, y: None = None, **fit_params: Any) -> Array:
        return self.fit(X).embedding_

    def transform(self, X: Matrix) -> Array:
        """Place new texts among those of `fit`, float32 [n, n_components]."""
        X = self._validate(X, fitting=False)
        if self.knn == "approximate" and hasattr(self, "umap_"):
            return self.umap_.transform(X)
        return place_by_neighbors(type(self), self.fitted_X_, self.embedding_, X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def load_umap() -> ModuleType:
    """Import umap-learn, and have its machine code kept on disk."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Tensorflow not installed", category=ImportWarning)
        umap = import_umap()
    keep_machine_code()
    return umap


def find_neighbors_by(X: Matrix, k: int, metric: str) -> tuple[NDArray[np.int64], Array]:
    """Return the k nearest rows of each row, itself among them: indices and distances [n, k].

    Memory: blocks of 256 MB.
    """
    from sklearn import config_context
    from sklearn.neighbors import NearestNeighbors

    with config_context(working_memory=256):
        distances, indices = NearestNeighbors(n_neighbors=k, metric=metric, algorithm="brute").fit(X).kneighbors(X)
    return indices, np.maximum(distances, 0).astype(np.float32)
