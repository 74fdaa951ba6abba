"""The units of work: the work on one split, by whatever process does it (`traube._pipeline.executors`).

They are given the components themselves: a worker does not know what was registered in the parent.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube import components
from traube._core.errors import DoesNotFit, Failed, Unsupported, describe_error
from traube._core.measure import Cost, measure
from traube._core.progress import Progress
from traube.components import Component
from traube.components._deep import DeepClusterer
from traube.components._deep.encoding import Base
from traube.components._fit import fit_clusterer
from traube.models import Similarity, Vectors
from traube.models._vectors import Dense
from traube.models._views import show

Labels = NDArray[np.int64]
Scores = tuple[dict[str, float], dict[str, NDArray[np.float64]]]
P = ParamSpec("P")
T = TypeVar("T")


def picklable_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Turn every error into one that can be sent to the parent: another would break the pool."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            kind = next((k for k in (Unsupported, DoesNotFit) if isinstance(error, k)), Failed)
            raise kind(describe_error(error)) from None

    return run


def warm_up(reducers: Sequence[Component], memory: int) -> None:
    """Import and compile the libraries that reducers need."""
    points = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    for reducer in reducers:
        with suppress(Exception):  # an error is reported when the reducer is used
            reducer.build(**reducer.params, **({"random_state": 0} if reducer.seeded else {})).fit_transform(points)


class SplitClustering(NamedTuple):
    """Outcome of clustering a split."""

    labels: Labels  # [n]
    seconds: float
    memory: float  # megabytes at the highest point; nan where that is not known


class Reduced(NamedTuple):
    """Outcome of reducing a split's vectors."""

    points: Dense | sparse.csr_matrix  # float32 [n, m]
    cost: Cost


@picklable_errors
def reduce(vectors: Vectors, reducer: Component, params: dict[str, Any], seed: int, memory: int) -> Reduced:
    """Fit a reducer on a split's vectors."""
    with measure() as taken:
        points = components.reduce(reducer, params, vectors.load(), seed, memory)
    return Reduced(points, Cost(points.shape[0], taken.seconds_on(), taken.memory))


@picklable_errors
def cluster_split(
    texts: Sequence[str] | None,
    vectors: Vectors,
    query: Vectors | None,
    similarity: Similarity | None,
    clusterer: Component,
    params: dict[str, Any],
    n_clusters: int | None,
    seed: int,
    memory: int,
) -> SplitClustering:
    """Cluster a split, for its query if any; the texts are those of a clusterer that works on them."""
    values, question = vectors.load(), None if query is None else query.load()
    with measure() as taken:
        view = show(values, similarity, question, memory)
        fitted = fit_clusterer(clusterer, params, view, n_clusters, seed, memory, texts=texts)
    return SplitClustering(fitted.labels, taken.seconds_on(), taken.memory)


@picklable_errors
def score_split(
    labels: NDArray[np.object_] | None,
    clusters: Labels,
    groups: NDArray[np.int64],
    vectors: Vectors | None,
    memory: int,
) -> Scores:
    """Compute every metric of a split, against its labels or, without any, of its vectors; and without each group of texts."""
    from traube.metrics import _clustering as clustering  # brings scikit-learn, which only workers need

    if labels is not None:
        return clustering.score(labels, clusters), clustering.replicates(labels, clusters, groups)
    assert vectors is not None
    return clustering.internal(vectors.load(), clusters, groups, 0)


@dataclass(frozen=True)
class Trained:
    """Outcome of a training on a split."""

    labels: Labels  # [n]
    seconds: float
    history: list[dict[str, float]]  # an entry for each epoch
    representations: NDArray[np.float32] | None  # of the texts of `sample_for_plots`; None if nothing was trained


def sample_for_plots(n: int) -> NDArray[np.int64]:
    """Return the texts, of n, whose representations are kept: the same for every cell, int64 [m], ascending."""
    return np.sort(np.random.default_rng(0).permutation(n)[:1_000])


@dataclass(frozen=True)
class Training:
    """Everything that a training on a split needs but its encoder; it can be sent."""

    clusterer: DeepClusterer[Any]
    texts: Sequence[str]
    k: int
    seed: int
    labels: Sequence[str] | None

    def run(self, base: Base, work: Path, progress: Progress) -> Trained:
        """Train, or go on from the state that a stopped training has left in the folder `work`."""
        began = time.perf_counter()
        labels = self.clusterer.fit_predict(self.texts, self.k, base, self.seed, work, progress, self.labels)
        representations = self.clusterer.representations()
        if representations is not None:
            representations = representations[sample_for_plots(len(self.texts))]
        return Trained(labels, time.perf_counter() - began, self.clusterer.history, representations)
