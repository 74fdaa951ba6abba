"""Code that the three sides of `vs_bertopic.py` share: read each folder, group with each seed, write what was found.

A folder holds texts.json and vectors.npy; `<side>-<seed>.json` is written there, and what is there is not computed again.
Needs nothing but Python and NumPy.
"""

import argparse
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Group = Callable[[list[str], np.ndarray, int], dict[str, Any]]  # texts, vectors and a seed: what was found


def run(side: str, group: Group, warm_up: Callable[[int], object]) -> None:
    """Group the texts of the folders of the command line; `warm_up` compiles first, given the number of dimensions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, required=True)
    arguments = parser.parse_args()
    warm = False
    for folder in arguments.folders:
        for seed in range(arguments.seeds):
            path = folder / f"{side}-{seed}.json"
            if path.exists():
                continue
            texts = json.loads((folder / "texts.json").read_text())
            vectors = np.load(folder / "vectors.npy")
            if not warm:
                warm_up(vectors.shape[1])
                warm = True
            began = cpu_seconds()
            found = group(texts, vectors, seed)
            path.write_text(json.dumps({"seconds": cpu_seconds() - began, **found}))
            print(side, folder.name, seed, flush=True)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def noise_vectors(dimensions: int) -> np.ndarray:
    """Return 300 random vectors to compile on, float32 of shape (300, dimensions)."""
    return np.random.default_rng(0).normal(size=(300, dimensions)).astype(np.float32)
