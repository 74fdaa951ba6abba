"""Spread of vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import cosine_similarity

from tests.errors import refused
from traube.papers.german.spread import MEASURES, spread

seeds = st.integers(0, 10_000)


def vectors(seed: int, n: int = 30, d: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@settings(deadline=None)
@given(seeds)
def test_the_measures_keep_their_bounds_whatever_the_order_and_rotation(seed: int) -> None:
    found = spread(vectors(seed) + 3)
    assert tuple(found) == MEASURES
    assert 0 < found["isotropy"] <= 1
    assert 1 <= found["effective_rank"] <= 5
    x = vectors(seed)
    rng = np.random.default_rng(seed + 1)
    turned = x[rng.permutation(len(x))] @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
    assert spread(turned) == pytest.approx(spread(x))
    pairs = cosine_similarity(x)[np.triu_indices(len(x), 1)]
    assert spread(x)["cosine"] == pytest.approx(pairs.mean())


def test_a_cone_is_less_isotropic_than_a_ball() -> None:
    ball, cone = spread(vectors(0, 500)), spread(vectors(0, 500) + 4 * np.eye(5)[0])
    assert cone["isotropy"] < 0.5 < 0.9 < ball["isotropy"]
    assert cone["cosine"] > 0.5 > abs(ball["cosine"])
    line = np.outer(np.arange(9.0), [1, 0, 0])
    assert spread(line)["effective_rank"] == pytest.approx(1)


def test_a_sparse_matrix_is_as_good_as_a_dense_one() -> None:
    x = np.maximum(vectors(3), 0)
    assert spread(csr_matrix(x)) == pytest.approx(spread(x))


def test_one_vector_has_no_spread() -> None:
    with refused(ValueError):
        spread(np.ones((1, 3)))
