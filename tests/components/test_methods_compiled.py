"""UMAP's machine code is compiled once for all processes, and gives the coordinates of code that is compiled again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = """
from traube.components.registered.reducers import compile_umap
from traube._core import paths
compile_umap()
print(len([*paths.home().rglob("*.nbc")]))
"""
FIT = """
import numpy as np
from traube.components import REDUCERS, reduce
X = np.random.default_rng(1).normal(size=(300, 20)).astype(np.float32)
print(reduce("umap", REDUCERS["umap"].params, X, 42, 10**9).tobytes().hex())
from umap import umap_  # once Traube has: without its search for neighbors
print(sum(umap_.smooth_knn_dist.stats.cache_misses.values()))
"""
SEARCH = """
import sys, warnings
import numpy as np
from sklearn.metrics import adjusted_rand_score
from traube.components import VectorView, reduce
from traube.components.fitting import fit_clusterer
from traube.components.estimators.lazy_umap import import_umap
X = np.random.default_rng(1).normal(size=(300, 20)).astype(np.float32)
umap = import_umap()
reduce("umap", {}, X, 42, 10**9)
print("pynndescent" in sys.modules)
print(*(name in umap.umap_.pynn_named_distances for name in ("hellinger", "nonsense")))
gold = np.random.default_rng(0).integers(5, size=4200)
blobs = (4 * np.eye(10)[gold] + np.random.default_rng(1).normal(size=(4200, 10))).astype(np.float32)
warnings.simplefilter("error")
first, second = (reduce("umap", {"n_epochs": 20, "knn": "approximate"}, blobs, 0, 10**9) for _ in range(2))
warnings.resetwarnings()
found = fit_clusterer("kmeans", {"n_init": 5}, VectorView(first), 5, 0).labels
print(np.array_equal(first, second), adjusted_rand_score(gold, found) > 0.8)
fitted = umap.UMAP(n_epochs=5, random_state=0, force_approximation_algorithm=True).fit(X)
import pynndescent
print(type(fitted._knn_search_index) is pynndescent.NNDescent, isinstance(fitted._knn_search_index, umap.umap_.NNDescent))
print(set(umap.umap_.pynn_named_distances) == set(pynndescent.distances.named_distances), fitted.transform(X).shape)
"""


def run(code: str, home: Path, kept_in: str = os.environ["NUMBA_CACHE_DIR"]) -> list[str]:
    environment = {**os.environ, "TRAUBE_HOME": str(home), "NUMBA_CACHE_DIR": kept_in}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


def machine_code(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


@pytest.mark.slow
def test_machine_code_is_read_from_disk_and_gives_the_same_coordinates(home: Path, tmp_path: Path) -> None:
    number, coordinates, _ = run(COMPILE + FIT, home, kept_in="")
    kept = machine_code(home / "compiled")
    assert int(number) == len(kept) == 6  # three when they are called, three when umap-learn is imported
    assert run(FIT, home, kept_in="") == [coordinates, "0"]
    assert machine_code(home / "compiled") == kept
    assert run(FIT, tmp_path / "home", kept_in=str(home / "compiled")) == [coordinates, "0"]  # numba's own setting
    assert not machine_code(tmp_path / "home")


@pytest.mark.slow
def test_only_a_neighbor_search_imports_its_library_which_finds_the_same_groups_each_time(home: Path) -> None:
    assert " ".join(run(SEARCH, home)) == "False True False True True True True True (300, 2)"


NEEDS_MORE = """
import sys
from traube.components.estimators import lazy_umap
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "umap":
            return None
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        from pynndescent import NNDescent, {name}
sys.meta_path.insert(0, Finder())
try:
    lazy_umap.import_umap()
except Exception as error:
    print(type(error).__name__, error)
print("pynndescent" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "is_refused"), [("NNDescent", False), ("PyNNDescentTransformer", True)])
def test_an_umap_that_needs_more_of_its_search_is_refused(name: str, is_refused: bool, home: Path) -> None:
    found = " ".join(run(NEEDS_MORE.format(name=name), home))
    assert found.startswith("Incompatible umap-learn") == is_refused and found.endswith("False"), found
    assert ("needs pynndescent.PyNNDescentTransformer" in found) == is_refused
