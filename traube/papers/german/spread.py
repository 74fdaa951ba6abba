"""Spread of a model's vectors, which may make some encoders weak."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

MEASURES = ("norm", "norm_sd", "cosine", "isotropy", "effective_rank")


def spread(vectors: NDArray[np.floating[Any]] | sparse.csr_matrix) -> dict[str, float]:
    """Return measures of spread, by name.

    Parameters
    ----------
    vectors : ndarray or csr_matrix of shape (n_texts, n_dimensions)
        At least 2 rows; a sparse matrix is made dense.

    Returns
    -------
    dict of float
        `norm`, `norm_sd` : mean and population standard deviation of the vectors' lengths.
        `cosine` : mean cosine of two different vectors; 0 is evenly spread, 1 is one direction.
        `isotropy` : least over greatest partition function along the principal axes, 0 to 1; 1 is evenly
        spread (Mu and Viswanath 2018, equation 5).
        `effective_rank` : exponential of the entropy of the centered vectors' normalized singular values;
        1 to d (Roy and Vetterli 2007).
    """
    x = np.asarray(vectors.toarray() if isinstance(vectors, sparse.csr_matrix) else vectors, dtype=np.float64)
    n = len(x)
    if n < 2:
        raise ValueError("the spread of fewer than two vectors is not defined")
    norms = np.linalg.norm(x, axis=1)
    units = x / np.where(norms > 0, norms, 1)[:, None]
    # mean over all ordered pairs, without those of a vector with itself
    cosine = (np.square(units.sum(axis=0)).sum() - np.square(units).sum()) / (n * (n - 1))
    axes = np.linalg.eigh(units.T @ units)[1]
    along = np.exp(units @ np.hstack([axes, -axes])).sum(axis=0)  # an axis has two directions

    centered = x - x.mean(axis=0)
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(centered.T @ centered), 0))
    shares = singular[singular > 0] / singular.sum()  # none where all vectors are the same: the rank is 1
    return {
        "norm": float(norms.mean()),
        "norm_sd": float(norms.std()),
        "cosine": float(cosine),
        "isotropy": float(along.min() / along.max()),
        "effective_rank": float(np.exp(-(shares * np.log(shares)).sum())),
    }
