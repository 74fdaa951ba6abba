"""How many clusters, by how much steadier they are than those of vectors without any. Clusters that are there are found
again in another sample of the texts. So are, to some extent, those of a cloud without any, along its longest axes; what
counts is the difference.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube.components.spherical import Array, Labels, best_of_each, unit
from traube.core.errors import TraubeError

GRID = (*range(2, 11), *(12, 14, 16, 18, 20, 23, 26, 30, 35, 40, 46, 53, 61, 70, 80, 92, 106, 122, 140, 160, 184, 210))
TEXTS = 2_000  # that are looked at, whatever there are
TEXTS_A_CLUSTER = 8  # there must be so many for a number of clusters to be tried
COMPONENTS = 100
SHARE = 0.8
# Few clusters are quick, and few texts: more samples make them surer, up to so many texts x clusters x samples.
SAMPLES, MOST_SAMPLES, SAMPLED = 8, 16, 240_000
# The same for all numbers of clusters: more starts alone make clusters steadier.
STARTS, MOST_STARTS, STARTED = 2, 10, 1_000  # of few texts more, up to so many texts x starts
NULL_SAMPLES = 4  # of a cloud
# Of few clusters a single cloud may look steady by chance.
FEW, NULL_CLOUDS = 8, 5
ITERATIONS = 10
# Stability from which clusters are the same in all samples, and what it takes beside: then nothing is smoothed.
EXACT, BEYOND = 0.98, 0.15


def choose_stable_k(X: Any, seed: int, candidates: Iterable[int] | None = None) -> tuple[int, pd.DataFrame]:
    """The number of clusters at which those of spherical k-means are most often found again in other
    samples of the texts, beyond what a Gaussian cloud with the same mean and covariance shows.

    Parameters
    ----------
    X : [n, d], dense or csr. At most 2,000 rows, drawn by `seed`, are looked at, in at most 100
        principal directions: this bounds time and memory whatever n is
    candidates : numbers to try, at most n / 8; None = 31 numbers from 2 to 210

    Returns
    -------
    k : int; where the excess is largest, but where clusters are all but the same in all samples, the
        largest such number. 1 if no number of clusters is steadier than in the cloud, or there are fewer than 16 texts
    table : DataFrame (k, stability, null, excess), a row per candidate in ascending order, after one for a single
        cluster, whose excess is 0. The stabilities are mean adjusted Rand indices; the excess is their difference, the
        mean with both neighbours'; where clusters are all but the same in all samples it is their own, or by how much
        wider the gaps between them are than between those of clouds: a long cloud is cut in two at the same place too.
        The largest excess says how far to believe k: below .15 there are no clear groups, up to .3 weak ones
    """
    random = np.random.default_rng(seed)
    points = looked_at(X, _drawn(X.shape[0], random), seed)
    most = len(points) // TEXTS_A_CLUSTER
    ks = [k for k in GRID if k <= most] if candidates is None else sorted(set(candidates))
    faulty = [k for k in ks if not 2 <= k <= most]
    if faulty:
        raise TraubeError(f"the numbers of clusters to try must lie between 2 and {most}; got {faulty}")
    if not ks:
        return 1, _table([], np.empty(0), np.empty(0), np.empty(0))

    stability = _stability(points, ks, _samples(len(points), ks), random)
    apart = np.full(len(ks), np.nan)
    for i in np.flatnonzero(stability >= EXACT):
        # how much wider the gaps between clusters are than the widest of clouds without any
        clouds = [_gap(_cloud(points, random), ks[i], random) for _ in range(NULL_CLOUDS)]
        apart[i] = _gap(points, ks[i], random) - max(clouds)
    table = _table(ks, stability, _null(points, ks, random), apart)
    settled = table.loc[(table["stability"] >= EXACT) & (table["excess"] >= BEYOND), "k"]
    best = settled.iloc[-1] if len(settled) else table["k"].iloc[int(table["excess"].argmax())]
    return int(best), table


def cluster_stability(X: Any, labels: Labels, seed: int) -> NDArray[np.float64]:
    """How well each cluster is found again in samples of the texts: the mean, over the samples that hold
    some of it, of its best Jaccard index with a cluster of spherical k-means there (Hennig 2007).

    Parameters
    ----------
    X, seed : as in `choose_stable_k`
    labels : int64 [n], from 0

    Returns
    -------
    float64 [k], from 0 to 1; nan for a cluster none of whose texts is in a sample
    """
    random = np.random.default_rng(seed)
    rows = _drawn(X.shape[0], random)
    points, own, k = looked_at(X, rows, seed), labels[rows], int(labels.max()) + 1
    (samples,) = _sampled(points, [k], [SAMPLES], random)
    jaccard, holding = np.zeros(k), np.zeros(k)
    for sample in samples:
        both = sample >= 0
        counts = np.bincount(own[both] * k + sample[both], minlength=k * k).reshape(k, k)
        sizes = counts.sum(axis=1)
        union = sizes[:, None] + counts.sum(axis=0) - counts
        jaccard += (counts / np.maximum(union, 1)).max(axis=1)
        holding += sizes > 0
    return np.divide(jaccard, holding, out=np.full(k, np.nan), where=holding > 0)


def _drawn(n: int, random: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(random.choice(n, min(n, TEXTS), replace=False))


def looked_at(X: Any, rows: NDArray[np.int64], seed: int) -> Array:
    """Some rows as unit vectors in their principal directions, not centred; float32 [rows, at most 100]."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    points = normalize(X[rows])
    if min(points.shape) > COMPONENTS:
        points = TruncatedSVD(COMPONENTS, random_state=seed).fit_transform(points)
    dense = points if isinstance(points, np.ndarray) else points.toarray()
    return unit(np.ascontiguousarray(dense, dtype=np.float32))


def _table(
    ks: Sequence[int], stability: NDArray[np.float64], null: NDArray[np.float64], apart: NDArray[np.float64]
) -> pd.DataFrame:
    excess = np.array([0.0, *(stability - null)])
    padded = np.pad(excess, 1, mode="edge")
    smooth = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    smooth[1:] = np.where(np.isnan(apart), smooth[1:], np.fmax(excess[1:], apart))
    smooth[0] = 0
    columns = {"k": [1, *ks], "stability": [np.nan, *stability], "null": [np.nan, *null], "excess": smooth}
    return pd.DataFrame(columns)


def _gap(points: Array, k: int, random: np.random.Generator) -> float:
    """The margin between the nearest two centers, in cosine, that 19 of 20 points have; over the mean one."""
    (labels,) = best_of_each(points, [k], STARTS, ITERATIONS, random)
    centres = unit(np.stack([points[labels == c].sum(axis=0) for c in np.unique(labels)]))
    if len(centres) < 2:
        return 0.0
    nearest = np.sort(points @ centres.T, axis=1)
    margins = nearest[:, -1] - nearest[:, -2]
    return float(np.quantile(margins, 0.05) / max(margins.mean(), 1e-12))


def _samples(n: int, ks: Sequence[int]) -> list[int]:
    """How many samples are drawn for each number of clusters of n texts."""
    return [int(np.clip(SAMPLED // (n * k), SAMPLES, MOST_SAMPLES)) for k in ks]


def _null(points: Array, ks: Sequence[int], random: np.random.Generator) -> NDArray[np.float64]:
    """The stabilities in clouds without clusters; of every second number, and between them interpolated over log k."""
    few = [k for k in ks if k <= FEW]
    rest = [k for k in ks if k > FEW]
    rest = [k for i, k in enumerate(rest) if i % 2 == 0 or i == len(rest) - 1]
    drawn = few + rest
    clouds = [
        max(NULL_CLOUDS if k <= FEW else 1, m // SAMPLES)
        for k, m in zip(drawn, _samples(len(points), drawn), strict=True)
    ]
    sums = np.zeros(len(drawn))
    for i in range(max(clouds)):
        now = [j for j, count in enumerate(clouds) if count > i]
        sums[now] += _stability(_cloud(points, random), [drawn[j] for j in now], [NULL_SAMPLES] * len(now), random)
    return np.interp(np.log(ks), np.log(drawn), sums / clouds)


def _cloud(points: Array, random: np.random.Generator) -> Array:
    """As many unit vectors from a Gaussian with the points' mean and covariance."""
    mean = points.mean(axis=0, dtype=np.float64)
    _, scales, directions = np.linalg.svd(points - mean, full_matrices=False)
    drawn = random.normal(size=(len(points), len(scales))) * (scales / np.sqrt(len(points)))
    return unit((mean + drawn @ directions).astype(np.float32))


def _stability(
    points: Array, ks: Sequence[int], samples: Sequence[int], random: np.random.Generator
) -> NDArray[np.float64]:
    """The mean adjusted Rand index of all pairs of samples on the texts that they share, float64 [ks]."""
    found = _sampled(points, ks, samples, random)
    return np.array(
        [np.mean([_rand(a, b, k) for a, b in combinations(own, 2)]) for k, own in zip(ks, found, strict=True)]
    )


def _sampled(
    points: Array, ks: Sequence[int], samples: Sequence[int], random: np.random.Generator
) -> list[list[Labels]]:
    """For each number of clusters, those of so many samples; int64 [n], -1 for what is not in the sample."""
    n = len(points)
    found: list[list[Labels]] = [[] for _ in ks]
    for i in range(max(samples)):
        now = [j for j, count in enumerate(samples) if count > i]
        rows = np.sort(random.choice(n, max(1, round(SHARE * n)), replace=False))
        tried = [ks[j] for j in now]
        starts = int(np.clip(STARTED // n, STARTS, MOST_STARTS))
        clustered = best_of_each(points[rows], tried, starts, ITERATIONS, random)
        for j, labels in zip(now, clustered, strict=True):
            found[j].append(np.full(n, -1, dtype=np.int64))
            found[j][-1][rows] = labels
    return found


def _rand(a: Labels, b: Labels, k: int) -> float:
    """The adjusted Rand index of two clusterings on what is in both; 1 if both have one cluster, or single texts alone."""
    both = (a >= 0) & (b >= 0)
    counts = np.bincount(a[both] * k + b[both], minlength=k * k).reshape(k, k).astype(np.float64)
    together, first, second = (_pairs(sizes) for sizes in (counts, counts.sum(axis=1), counts.sum(axis=0)))
    expected = first * second / max(_pairs(counts.sum()), 1)
    largest = (first + second) / 2
    return 1.0 if largest == expected else (together - expected) / (largest - expected)


def _pairs(sizes: Any) -> float:
    return float((sizes * (sizes - 1)).sum() / 2)
