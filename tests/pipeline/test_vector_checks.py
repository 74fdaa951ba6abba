"""Vectors are checked before they are clustered: one for each text, all finite, and not all alike."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from traube._pipeline.stages import check_vectors
from traube.models.vectors import Held

SPREAD = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
ALIKE = SPREAD / 1000 + 1


def failed(vectors: np.ndarray, texts: int = 50, *, is_sparse: bool = False) -> set[str]:
    block = sparse.csr_matrix(vectors) if is_sparse else vectors
    held = Held(Path(), np.arange(len(vectors)), vectors.shape[1], block, is_sparse=is_sparse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return {check.name for check in check_vectors(held, texts) if not check.passed}


@pytest.mark.parametrize("is_sparse", [False, True])
def test_each_fault_fails_its_check_and_no_other(is_sparse: bool) -> None:
    with_zeros, with_nan, with_inf = (SPREAD.copy() for _ in range(3))
    with_zeros[3], with_nan[3, 1], with_inf[3, 1] = 0, np.nan, np.inf
    assert failed(SPREAD, is_sparse=is_sparse) == set()
    assert failed(with_zeros, is_sparse=is_sparse) == set()
    assert failed(SPREAD, 51, is_sparse=is_sparse) == {"shape"}
    assert failed(ALIKE, is_sparse=is_sparse) == {"not_collapsed"}
    assert failed(with_inf) == {"finite"}
    assert "finite" in failed(with_nan, is_sparse=is_sparse)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_mean_cosine_is_that_of_all_pairs_by_scikit_learns_unit_vectors(is_sparse: bool) -> None:
    vectors = np.abs(SPREAD) * (np.arange(50) > 0)[:, None]
    block = sparse.csr_matrix(vectors) if is_sparse else vectors
    held = Held(Path(), np.arange(50), 8, block, is_sparse=is_sparse)
    found = {name: value for check in check_vectors(held, 50) for name, value in check.facts.items()}
    unit = normalize(vectors.astype(np.float64))
    cosines = (unit @ unit.T)[~np.eye(50, dtype=bool)]
    # a row of zeros has a cosine of 0 with all others, and none with itself
    assert found["mean_cosine"] == pytest.approx(cosines.mean() - 1 / (50 * 49), abs=1e-6)
    assert found["zero_vectors"] == 1


def test_the_mean_cosine_of_two_vectors_is_theirs() -> None:
    two = np.array([[1, 0], [3, 4]], dtype=np.float32)
    found = {
        n: value
        for n in (1, 2)
        for check in check_vectors(Held(Path(), np.arange(n), 2, two[:n], is_sparse=False), n)
        for name, value in check.facts.items()
        if name == "mean_cosine"
    }
    assert found == {1: 0, 2: pytest.approx(0.6)}


def test_vectors_that_are_all_alike_have_long_texts_as_their_reason() -> None:
    held = Held(Path(), np.arange(50), 8, ALIKE, is_sparse=False)
    assert [check.reason for check in check_vectors(held, 50, "50 of 50 texts are longer")] == [
        "",
        "",
        "50 of 50 texts are longer",
    ]
    assert [check.reason for check in check_vectors(held, 50)] == ["", "", ""]  # where none is long
    spread = Held(Path(), np.arange(50), 8, SPREAD, is_sparse=False)
    assert not any(check.reason for check in check_vectors(spread, 50, "50 of 50 texts are longer"))
