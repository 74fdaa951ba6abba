"""The area under the ROC curve of a similarity, for pairs of the same group against all others.

It is the chance that a random pair of the same group is more alike than a random other one; equal ones count half. It
depends on the order of the values alone: for distances give the negative ones. A page is judged by itself, and the mean
is over pages (QS3M, section 4.1).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traube._core.arrays import Bools
from traube._core.errors import Failed


def auc(alike: NDArray[np.floating[Any]], same: Bools) -> float:
    """Return the area under the ROC curve, in [0, 1], 0.5 being chance; nan where all pairs are the same, or none is.

    Parameters
    ----------
    alike : ndarray of float of shape (n_pairs,)
        How alike the items of each pair are; larger is more alike.
    same : ndarray of bool of shape (n_pairs,)
        Whether they are of the same group.

    Returns
    -------
    float
        The area, or nan.
    """
    from sklearn.metrics import roc_auc_score

    if not np.isfinite(alike).all():
        raise Failed("a similarity is NaN or infinite: pairs cannot be put in its order")
    return float(roc_auc_score(same, alike)) if 0 < np.count_nonzero(same) < len(same) else np.nan


def page_auc(alike: NDArray[np.floating[Any]], labels: NDArray[Any]) -> float:
    """Return `auc` of all n (n - 1) / 2 pairs of a page: above the diagonal of `alike`, [n, n]; by their groups, [n]."""
    first, second = np.triu_indices(len(labels), 1)
    return auc(alike[first, second], labels[first] == labels[second])
