"""UMAP's machine code is compiled once for all processes, and gives the coordinates of code that is compiled anew."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = "from traube.components.registered.reducers import compile_umap; compile_umap()"
FIT = """
import numpy as np
from traube.components import REDUCERS, reduce
from umap import umap_
X = np.random.default_rng(1).normal(size=(300, 20)).astype(np.float32)
print(reduce("umap", REDUCERS["umap"].params, X, 42, 10**9).tobytes().hex())
print(sum(umap_.smooth_knn_dist.stats.cache_misses.values()))
"""


def run(code: str, home: Path) -> list[str]:
    environment = {**os.environ, "TRAUBE_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


def machine_code(home: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (home / "compiled").rglob("*.nbc")}


@pytest.mark.slow
def test_machine_code_is_read_from_disk_and_gives_the_same_coordinates(home: Path, tmp_path: Path) -> None:
    run(COMPILE, home)
    kept = machine_code(home)
    assert len(kept) == 3
    coordinates, compiled_here = run(FIT, home)
    assert compiled_here == "0"
    assert machine_code(home) == kept

    assert run(FIT, tmp_path) == [coordinates, "1"]  # a home of its own: compiled anew
