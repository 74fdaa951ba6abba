"""The one way in which new texts join existing clusters: labeled texts', or those of a served clustering."""

import numpy as np
from numpy.typing import NDArray

from traube.components import VectorView, View
from traube.components.new_points import Matrix
from traube.components.spherical import Labels
from traube.components.views import Join

Joined = tuple[Labels, NDArray[np.float64], NDArray[np.bool_]]


def join_clusters(
    view: View, new: Matrix, labels: Labels, join: Join | None = None, *, reduced: tuple[View, Matrix] | None = None
) -> Joined:
    """Return the clusters of new texts, the distances to them, and which texts fit.

    A text of which the model knows no word joins none. A text fits if it is nearer to its cluster than to all texts, in the
    model's space (`View.strays`): a reduced space has a place among the clusters for whatever is unlike them all.

    Parameters
    ----------
    view : View
        What the model shows of the clustered texts.
    new : ndarray or csr_matrix of shape (n_new_texts, n_dimensions)
        Vectors of the new texts.
    labels : ndarray of int64 of shape (n_texts,)
        Clusters of the clustered texts; -1 is noise.
    join : callable, optional
        The clusterer's rule; by default the view's.
    reduced : tuple of View and Matrix, optional
        Both in the reduced space, where that is what was clustered.

    Returns
    -------
    labels : ndarray of int64 of shape (n_new_texts,)
        The clusters; -1 for none.
    distances : ndarray of float64 of shape (n_new_texts,)
        Nan for none.
    fits : ndarray of bool of shape (n_new_texts,)
        False for none.
    """
    near, points = reduced or (view, new)
    beside = view.compare(new)
    joined, distances = near.nearest(near.compare(points) if reduced else beside, labels, join)
    if isinstance(view, VectorView):
        unknown = VectorView(new).find_unknown()
        joined[unknown], distances[unknown] = -1, np.nan
    return joined, distances, (joined >= 0) & ~view.strays(labels, beside, joined)
