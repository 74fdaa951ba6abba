"""EVoC as a clusterer; it compiles for minutes when it runs first."""

import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from traube.components import cluster
from traube.core.errors import Unsupported


@pytest.mark.parametrize("n", [2, 15])
def test_of_few_vectors_all_are_noise(n: int) -> None:
    pytest.importorskip("evoc")
    assert set(cluster("evoc", None, np.eye(n, 20), None, 0)) == {-1}


def test_where_it_is_not_installed_the_error_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "evoc", None)
    with pytest.raises(Unsupported, match=r"^evoc is not installed: pip install 'traube\[evoc\]'"):
        cluster("evoc", None, np.eye(20), None, 0)


@pytest.mark.slow
def test_it_finds_groups_and_repeats_itself(blobs: tuple[NDArray[np.float32], NDArray[np.int64]]) -> None:
    vectors, gold = blobs
    found = cluster("evoc", None, vectors, None, 3)
    assert adjusted_rand_score(gold[found >= 0], found[found >= 0]) > 0.9
    assert np.array_equal(found, cluster("evoc", None, vectors, None, 3))
