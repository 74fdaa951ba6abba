"""The layout of texts in the plane, for maps."""

import numpy as np

from traube.components.estimators.reducers import Umap, find_neighbors_by, load_umap
from traube.components.estimators.stable_kmeans import make_fuzzy_graph
from traube.components.new_points import Matrix
from traube.components.spherical import Array


def lay_out(X: Matrix, n_epochs: int, random_state: int) -> Array:
    """Place the rows of a matrix in the plane by UMAP's layout of their fuzzy graph, with UMAP's default settings.

    What `Umap` does besides takes ten times as long to compile, in each new data directory.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        At least 16 vectors, compared by the cosine.
    n_epochs : int
        Epochs of the optimization.
    random_state : int
        Seed.

    Returns
    -------
    ndarray of shape (n_texts, 2)
        The points, float32.
    """
    umap, defaults = load_umap(), Umap()
    graph = make_fuzzy_graph(*find_neighbors_by(X, defaults.n_neighbors, defaults.metric))
    a, b = map(np.float32, umap.umap_.find_ab_params(defaults.spread, defaults.min_dist))
    points, _ = umap.umap_.simplicial_set_embedding(
        X, graph, n_components=2, initial_alpha=1.0, a=a, b=b, gamma=1.0, negative_sample_rate=5, n_epochs=n_epochs,
        init=defaults.init, random_state=np.random.RandomState(random_state), metric=defaults.metric, metric_kwds={},
        densmap=False, densmap_kwds={}, output_dens=False,
    )  # fmt: skip
    return np.asarray(points, dtype=np.float32)
