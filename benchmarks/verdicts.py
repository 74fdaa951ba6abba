"""How often does a verdict say "better" where nothing is, and how often does it miss what is? By simulation, where the truth is known.

Real vectors (MiniLM's of StackOverflow's 20,000 questions) take the place of a population of texts. A trial draws texts from it,
makes models of it by adding noise, clusters their splits by mini-batch k-means and asks the test. A model is better because its
noise is smaller. Its noise is a text's own in each model (`strong` effects of texts), or nearly the same in all models (`weak`: what
differs is mostly the clusterer's luck).
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Split = tuple[NDArray[np.int64], NDArray[np.int64]]

SEEDS = 5
METRIC = "v_measure/noise_as_cluster"
# the noise of the model that others are compared with, then of an equal one and of better ones: about 1, 2 and 5 points
NOISE = {"strong": (0.50, 0.50, 0.478, 0.458, 0.395), "weak": (0.50, 0.50, 0.478, 0.458, 0.395)}
OWN = 0.1  # of the noise's norm where effects are weak: what is a text's own in each model
# the setting of a first look: all dimensions, one seed, 1,200 texts; 0, 1.9 and 4.2 points
FIRST = (1.00, 1.00, 0.91, 0.78)


@cache
def population(pool: Path, dimensions: int) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Vectors, classes and jackknife groups of all texts."""
    from sklearn.decomposition import PCA

    with np.load(pool) as stored:
        vectors, classes = stored["X"], stored["y"]
    if dimensions < vectors.shape[1]:
        vectors = PCA(dimensions, random_state=0).fit_transform(vectors).astype(np.float32)
    return vectors, classes, np.random.default_rng(0).integers(0, 20, len(vectors))


def one(rng: np.random.Generator, classes: NDArray[np.int64]) -> list[Split]:
    return [(np.arange(len(classes)), classes)]


def disjoint(rng: np.random.Generator, classes: NDArray[np.int64]) -> list[Split]:
    parts = np.array_split(rng.permutation(len(classes)), 10)
    return [(rows, classes[rows]) for rows in parts]


def overlapping(rng: np.random.Generator, classes: NDArray[np.int64], count: int = 28) -> list[Split]:
    """As the German benchmark's: 10 to 100 % of the texts, of 10 or of all 20 classes."""
    found = []
    for share in np.linspace(0.1, 1, count):
        rows = np.arange(len(classes))
        if rng.random() < 0.5:
            rows = np.flatnonzero(np.isin(classes, rng.choice(20, 10, replace=False)))
        rows = rng.permutation(rows)[: max(40, int(share * len(rows)))]
        found.append((rows, classes[rows]))
    return found


def pydocs(rng: np.random.Generator, classes: NDArray[np.int64]) -> list[Split]:
    """As pydocs': three by package (coarse classes), three by subpackage, six within a package."""
    coarse = rng.permutation(20) % 6
    n = len(classes)
    drawn = [rng.permutation(n)[: int(share * n)] for share in (0.6, 0.8, 1.0) * 2]
    found = [(rows, coarse[classes[rows]] if i < 3 else classes[rows]) for i, rows in enumerate(drawn)]
    within = [np.flatnonzero(coarse[classes] == package) for package in range(6)]
    return found + [(rows, classes[rows]) for rows in within]


LAYOUTS = {"1": one, "10 disjoint": disjoint, "28 overlapping": overlapping, "12 as pydocs": pydocs}


def trial(number: int, pool: Path) -> dict[str, Values]:
    """Scores of every layout and kind of effects: [models, seeds, splits, 21], the metric and its replicates."""
    vectors, classes, groups = population(pool, 32)
    rng = np.random.default_rng([1, number])
    found = {}
    for name, layout in LAYOUTS.items():
        rows = rng.choice(len(vectors), 800, replace=False)
        splits = layout(rng, classes[rows])
        shared = rng.normal(size=(800, 32))
        for effects, levels in NOISE.items():
            scores = []
            for level in levels:
                own = rng.normal(size=(800, 32))
                noise = own if effects == "strong" else shared + OWN * own
                model = (vectors[rows] + level * noise / np.sqrt(32)).astype(np.float32)
                scores.append(scored(rng, model, splits, groups[rows], SEEDS))
            found[f"{name}|{effects}"] = np.array(scores)
    return found


def first_look(number: int, pool: Path) -> dict[str, Values]:
    """The same of the first look's setting."""
    vectors, classes, groups = population(pool, 384)
    rng = np.random.default_rng([2, number])
    rows = rng.choice(len(vectors), 1200, replace=False)
    splits = overlapping(rng, classes[rows], 20)
    models = [(vectors[rows] + s * rng.normal(size=(1200, 384)) / np.sqrt(384)).astype(np.float32) for s in FIRST]
    return {"first": np.array([scored(rng, model, splits, groups[rows], 1) for model in models])}


def scored(
    rng: np.random.Generator, model: NDArray[np.float32], splits: list[Split], groups: NDArray[np.int64], seeds: int
) -> Values:
    """[seeds, splits, 21]: the metric, and its replicates."""
    from sklearn import config_context

    from traube import methods
    from traube.metrics.clustering import Contingency, scores_of

    found = np.empty((seeds, len(splits), 21))
    for j, (rows, labels) in enumerate(splits):
        k, vectors, of_group = len(np.unique(labels)), model[rows], groups[rows] + 1  # group 0 is empty
        for s in range(seeds):
            with config_context(assume_finite=True, skip_parameter_validation=True):
                clusters = methods.cluster("minibatch_kmeans", None, vectors, k, int(rng.integers(2**31)))
            found[s, j] = scores_of(Contingency.without_each(labels, clusters, of_group, 21), ["v_measure"])[
                "v_measure"
            ]
    return found


def run(kind: str, numbers: range, pool: Path, folder: Path, workers: int) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    todo = [n for n in numbers if not (folder / f"{kind}-{n}.npz").exists()]
    with ProcessPoolExecutor(workers) as executor:
        for _ in executor.map(_kept, [kind] * len(todo), todo, [pool] * len(todo), [folder] * len(todo)):
            pass
    yield folder


def _kept(kind: str, number: int, pool: Path, folder: Path) -> None:
    found = {"trial": trial, "first": first_look}[kind](number, pool)
    np.savez(folder / f".{kind}-{number}.npz", **{k: v.astype(np.float32) for k, v in found.items()})
    (folder / f".{kind}-{number}.npz").rename(folder / f"{kind}-{number}.npz")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("a", type=int)
    parser.add_argument("b", type=int)
    a = parser.parse_args()
    for _ in run(a.kind, range(a.a, a.b), Path("/tmp/so.npz"), Path("/tmp/verdicts"), 1):
        pass
