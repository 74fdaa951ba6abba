"""EVoC as a clusterer, as far as it needs no compiling, which takes minutes; benchmarks/vs_bertopic.py runs it."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from tests.clustering import cluster
from tests.errors import refused
from traube._core.errors import Unsupported


@pytest.mark.parametrize("n", [2, 15])
def test_of_few_vectors_all_are_noise(n: int) -> None:
    if not find_spec("evoc"):
        pytest.skip("evoc is not installed")
    is_loaded = "evoc" in sys.modules
    assert set(cluster("evoc", None, np.eye(n, 20), None, 0)) == {-1}
    assert ("evoc" in sys.modules) is is_loaded


def test_where_it_is_not_installed_the_error_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "evoc", None)
    with refused(Unsupported, "traube[evoc]"):
        cluster("evoc", None, np.eye(20), None, 0)
