"""Number of clusters, and the stability of each, by clustering the texts repeatedly with other weights.

Existing clusters recur in another sample of the texts. So do, to some extent, those of a cloud without any clusters,
along its longest axes; the difference is what counts. The samples are bootstraps: each text counts as often as a
Poisson draw says. Texts are first put together into a few hundred micro clusters, so that a sample costs milliseconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube._core.errors import Invalid
from traube.components._spherical import (
    Array,
    Labels,
    cluster_samples,
    cluster_spherical,
    find_micro_clusters,
    sum_clusters,
    unit,
)

GRID = (*range(2, 11), *(12, 14, 16, 18, 20, 23, 26, 30, 35, 40, 46, 53, 61, 70, 80, 92, 106, 122, 140, 160, 184, 210))
TEXTS = 5_000  # most texts that are sampled
TEXTS_A_CLUSTER = 8  # there must be so many for a number of clusters to be tried
COMPONENTS = 50
DECIMALS = 5  # from which on points are the same: no more clusters than points are tried
MICRO = 400  # micro clusters
# From so many clusters on, the larger half of the numbers, and those above 100, are tried with more micro clusters: 400 blur
# 200 classes. More than one for every three texts find too many.
MANY, COARSE, FINE, TEXTS_A_MICRO = 46, 100, 800, 3
FEW = 8  # clusters, up to which every number of the grid is tried; above, every second, and the others are interpolated
PARTITIONS, SAMPLES = 4, 8  # of the texts into micro clusters; of each
MORE = 5  # times the samples for up to READABLE clusters: these agree less evenly, and are found faster
NULL_CLOUDS, NULL_SAMPLES = 4, 4  # a single cloud may look stable by chance
NEIGHBORS = 5  # samples that each is compared with
# The same starts for all numbers of clusters: more starts alone make clusters more stable. Of few texts more.
STARTED, MOST_STARTS = 1_000, 10  # the first is texts x starts
ITERATIONS = 8
WINDOW = 5  # numbers of the grid over which the excess is averaged
# So far below the largest excess another is about as good; where no clusters are clear, chance moves the largest further.
ALIKE, VAGUE = 0.01, 0.03
# An excess below the first says that no clusters are clear; then there are at most so many.
UNCLEAR, READABLE = 0.12, 20
# Stability from which clusters are the same in all samples, and what it takes beside: then nothing is smoothed.
EXACT, BEYOND = 0.98, 0.15
NEARLY, EXACT_STARTS = 0.8, 5  # a stability from which so many starts say whether it is exact


@dataclass(frozen=True)
class Samples:
    """Clusterings of samples of the texts.

    Attributes
    ----------
    points : array
        float32 [n, d], unit vectors of all texts in their principal directions.
    centers : dict of int to array
        By number of clusters, float32 [samples, k, d], unit vectors.
    stability : dict of int to float
        By number of clusters, the mean adjusted Rand index of two samples.
    """

    points: Array
    centers: dict[int, Array]
    stability: dict[int, float]

    def find_nearest(self, points: Array, k: int) -> NDArray[np.int64]:
        """Return the cluster of each point in each sample of k clusters, or the number nearest to k; int64 [samples, n]."""
        nearest = min(self.centers, key=lambda tried: abs(np.log(tried / k)))
        return np.stack([(points @ centers.T).argmax(axis=1) for centers in self.centers[nearest]])


def choose_stable_k(X: Any, seed: int, candidates: Iterable[int] | None = None) -> tuple[int, pd.DataFrame]:
    """Return the number of clusters that is most stable beyond chance.

    Clusters of spherical k-means are compared between bootstrap samples of the texts, and with those of Gaussian clouds
    that have the same mean and covariance.

    Parameters
    ----------
    X : array or csr matrix of shape (n_texts, n_dimensions)
        Vectors. At most 5,000 rows, drawn by `seed`, are sampled, in at most 50 principal directions: this bounds time
        and memory whatever the number of texts is.
    seed : int
        Of everything random.
    candidates : iterable of int, optional
        Numbers to try, at most n_texts / 8, and as many as there are different vectors. By default 31 numbers from 2 to
        210, those above 100 only if there seem to be 46 clusters or more.

    Returns
    -------
    k : int
        The middle of the numbers around the largest excess that come within .01 of it, or .03 where no clusters are
        clear: which of them is ahead is chance.
        Where clusters are all but the same in all samples, the largest such number. At most 20 where the excess is below
        .12, for then no clusters are clear. 1 if no number of clusters is more stable than in a cloud, or there are fewer
        than 16 texts.
    table : DataFrame
        Columns k, stability, null, excess; a row per candidate in ascending order, after one for a single cluster, whose
        excess is 0. The stabilities are mean adjusted Rand indices; the excess is their difference, the mean with two
        neighbors on each side; where clusters are all but the same in all samples it is their own, or by how much wider
        the gaps between them are than between those of clouds: a long cloud is cut in two at the same place too. The
        largest excess says how far to believe k: below .12 there are no clear groups, up to .25 weak ones.

    Examples
    --------
    >>> import numpy as np
    >>> from traube.components import choose_stable_k
    >>> random = np.random.default_rng(42)
    >>> X = np.repeat(np.eye(3), 20, axis=0) + random.normal(scale=0.05, size=(60, 3))
    >>> choose_stable_k(X, seed=42, candidates=[2, 3, 4])[0]
    3
    """
    return sample_clusters(project(X, seed), seed, candidates)[:2]


def sample_clusters(
    points: Array, seed: int, candidates: Iterable[int] | None = None
) -> tuple[int, pd.DataFrame, Samples]:
    """Return the result of `choose_stable_k` for projected points, and the samples that it is based on."""
    random = np.random.default_rng(seed)
    rows = _draw_rows(len(points), random)
    distinct = len(np.unique(points[rows].round(DECIMALS), axis=0))
    most = min(len(rows) // TEXTS_A_CLUSTER, distinct)
    grid = [k for k in GRID if k < most] + [most] * (most == distinct > 1 or most in GRID)
    ks = grid if candidates is None else sorted(set(candidates))
    faulty = [k for k in ks if not 2 <= k <= most]
    if faulty:
        raise Invalid(f"the numbers of clusters to try must lie between 2 and {most}; got {faulty}")
    if not ks:
        return 1, _make_table([], np.empty(0), np.empty(0), np.empty(0)), sample_some(points, 1, seed)

    seen = points[rows]
    coarse = [k for k in ks if k <= COARSE] if candidates is None else ks
    k, table, samples = _choose(points, seen, coarse, MICRO, random)
    micro = min(FINE, len(seen) // TEXTS_A_MICRO)
    if k < MANY or micro <= MICRO:
        return k, table, samples
    large = [tried for tried in ks if tried >= k // 2]
    finer, of_large, fine = _choose(points, seen, large, micro, random)
    if finer < large[0]:  # looked at more closely, none of them is clear
        return k, table, samples
    table = pd.concat([table[table["k"] < large[0]], of_large.iloc[1:]], ignore_index=True)
    return finer, table, Samples(points, samples.centers | fine.centers, samples.stability | fine.stability)


def _choose(
    points: Array, seen: Array, ks: list[int], micro: int, random: np.random.Generator
) -> tuple[int, pd.DataFrame, Samples]:
    """Return the most stable of some numbers of clusters, judged on the seen points and so many micro clusters."""
    starts = int(np.clip(STARTED // len(seen), 1, MOST_STARTS))
    samples = Samples(points, *_sample(seen, _thin_out(ks), PARTITIONS, SAMPLES, starts, random, micro, MORE))
    stability = _interpolate(ks, samples.stability)
    near = np.flatnonzero(stability >= NEARLY)
    surer = {}
    if len(near):
        surer = _sample(seen, [ks[i] for i in near], 1, SAMPLES, max(starts, EXACT_STARTS), random, micro, MORE)[1]
    exact = [i for i in near if surer[ks[i]] >= EXACT]
    stability[exact] = [surer[ks[i]] for i in exact]
    apart = np.full(len(ks), np.nan)
    for i in exact:
        # how much wider the gaps between clusters are than the widest of clouds without any
        clouds = [_measure_gap(draw_cloud(seen, random), ks[i], random) for _ in range(NULL_CLOUDS)]
        apart[i] = _measure_gap(seen, ks[i], random) - max(clouds)
    thin = _thin_out(ks)
    null = [
        _interpolate(ks, _sample(draw_cloud(seen, random), thin, 1, NULL_SAMPLES, starts, random, micro, MORE)[1])
        for _ in range(NULL_CLOUDS)
    ]
    table = _make_table(ks, stability, np.mean(null, axis=0), apart)
    settled = table.loc[(table["stability"] >= EXACT) & (table["excess"] >= BEYOND), "k"]
    if len(settled):
        return int(settled.iloc[-1]), table, samples
    alike = find_alike(table)
    return int(alike[np.abs(np.log(alike) - np.log(alike).mean()).argmin()]), table, samples


def find_alike(table: pd.DataFrame) -> NDArray[np.int64]:
    """Return the numbers around the best that are about as good; 1 alone if none is more stable than in a cloud.

    Which of them is the best changes from sample to sample; where they lie hardly does.
    """
    is_clear = table["excess"].max() >= UNCLEAR
    candidates = table if is_clear else table[table["k"] <= READABLE]
    ks, excess = candidates["k"].to_numpy(), candidates["excess"].to_numpy()
    best = excess.argmax()
    if ks[best] == 1:
        return ks[[best]]
    worse = (excess < excess[best] - (ALIKE if is_clear else VAGUE)) | (ks == 1)
    run = np.cumsum(worse)  # the same for neighbors none of which is worse
    return ks[~worse & (run == run[best])]


def sample_some(points: Array, k: int, seed: int) -> Samples:
    """Return samples of k clusters and of some other numbers, where k is given and needs no choice."""
    random = np.random.default_rng(seed)
    seen = points[_draw_rows(len(points), random)]
    ks = sorted({*(tried for tried in GRID[::3] if tried <= len(seen) // TEXTS_A_CLUSTER), min(k, len(seen))})
    return Samples(points, *_sample(seen, ks, 1, SAMPLES, 1, random, MICRO))


def cluster_stability(samples: Samples, labels: Labels, seed: int) -> NDArray[np.float64]:
    """Return how well each cluster recurs in samples of the texts.

    This is the mean, over the samples, of a cluster's best Jaccard index with a cluster there (Hennig 2007).

    Parameters
    ----------
    samples : Samples
        Of the same texts.
    labels : int64 array of shape (n_texts,)
        From 0, without gaps.
    seed : int
        Seed of the draw of at most 5,000 texts that are sampled.

    Returns
    -------
    float64 array of shape (n_clusters,)
        From 0 to 1; nan for a cluster none of whose texts is sampled.
    """
    rows = _draw_rows(len(labels), np.random.default_rng(seed))
    drawn_labels, k = labels[rows], int(labels.max()) + 1
    size = np.bincount(drawn_labels, minlength=k)
    jaccard = np.zeros(k)
    nearest = samples.find_nearest(samples.points[rows], k)
    width = int(nearest.max()) + 1
    for sample in nearest:
        counts = np.bincount(drawn_labels * width + sample, minlength=k * width).reshape(k, width)
        union = size[:, None] + counts.sum(axis=0) - counts
        jaccard += (counts / np.maximum(union, 1)).max(axis=1)
    return np.where(size > 0, jaccard / len(nearest), np.nan)


def project(X: Any, seed: int) -> Array:
    """Return rows as unit vectors in their 50 principal directions, not centered; float32 [n, at most 50]."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    points = normalize(X)
    if min(points.shape) > COMPONENTS:
        rows = _draw_rows(points.shape[0], np.random.default_rng(seed))
        points = TruncatedSVD(COMPONENTS, random_state=seed).fit(points[rows]).transform(points)
    dense = points if isinstance(points, np.ndarray) else points.toarray()
    return unit(np.ascontiguousarray(dense, dtype=np.float32))


def draw_cloud(points: Array, random: np.random.Generator) -> Array:
    """Return as many unit vectors from a Gaussian with the points' mean and covariance."""
    mean = points.mean(axis=0, dtype=np.float64)
    _, scales, directions = np.linalg.svd(points - mean, full_matrices=False)
    drawn = random.normal(size=(len(points), len(scales))) * (scales / np.sqrt(len(points)))
    return unit((mean + drawn @ directions).astype(np.float32))


def _draw_rows(n: int, random: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(random.choice(n, min(n, TEXTS), replace=False))


def _thin_out(ks: Sequence[int]) -> list[int]:
    """Return the small numbers; of the others, every second and the last."""
    many = [k for k in ks if k > FEW]
    return sorted({*(k for k in ks if k <= FEW), *many[::2], *many[-1:]})


def _interpolate(ks: Sequence[int], measured: dict[int, float]) -> NDArray[np.float64]:
    return np.interp(np.log(ks), np.log(list(measured)), list(measured.values()))


def _make_table(
    ks: Sequence[int], stability: NDArray[np.float64], null: NDArray[np.float64], apart: NDArray[np.float64]
) -> pd.DataFrame:
    excess = np.array([0.0, *(stability - null)])
    smooth = np.convolve(np.pad(excess, WINDOW // 2, mode="edge"), np.full(WINDOW, 1 / WINDOW), "valid")
    smooth[1:] = np.where(np.isnan(apart), smooth[1:], np.fmax(excess[1:], apart))
    smooth[0] = 0
    columns = {"k": [1, *ks], "stability": [np.nan, *stability], "null": [np.nan, *null], "excess": smooth}
    return pd.DataFrame(columns)


def _measure_gap(points: Array, k: int, random: np.random.Generator) -> float:
    """Return the margin between the nearest two centers that 95 % of the points exceed, over the mean margin.

    Margins are in cosine.
    """
    labels = cluster_spherical(points, k, EXACT_STARTS, ITERATIONS, random)
    centers = unit(np.stack([points[labels == c].sum(axis=0) for c in np.unique(labels)]))
    if len(centers) < 2:
        return 0.0
    nearest = np.sort(points @ centers.T, axis=1)
    margins = nearest[:, -1] - nearest[:, -2]
    return float(np.quantile(margins, 0.05) / max(margins.mean(), 1e-12))


def _sample(
    points: Array,
    ks: Sequence[int],
    partitions: int,
    samples: int,
    starts: int,
    random: np.random.Generator,
    n_micro: int,
    more: int = 1,
) -> tuple[dict[int, Array], dict[int, float]]:
    """Cluster bootstrap samples of the points' micro clusters; `more` times as many for up to `READABLE` clusters.

    Returns
    -------
    centers : dict of int to array
        By number of clusters, float32 [partitions * samples, k, d].
    stability : dict of int to float
        By number of clusters, the mean adjusted Rand index of two samples of one partition.
    """
    centers: dict[int, list[Array]] = {k: [] for k in ks}
    stability: dict[int, list[float]] = {k: [] for k in ks}
    readable, many = [k for k in ks if k <= READABLE], [k for k in ks if k > READABLE]
    for _ in range(partitions):
        micro = find_micro_clusters(points, n_micro, random)
        size = np.bincount(micro).astype(np.float64)
        middle = unit(sum_clusters(points, micro))
        weights = random.poisson(1, size=(samples * (more if readable else 1), len(points))).astype(np.float32)
        drawn = np.stack([unit(sum_clusters(points, micro, sample_weights)) for sample_weights in weights])
        mass = np.stack([np.bincount(micro, weights=sample_weights) for sample_weights in weights]).astype(np.float32)
        for part, count in ((readable, samples * more), (many, samples)):
            first, second = _pair_up(count)
            for k, sample_centers in cluster_samples(drawn[:count], mass[:count], part, starts, ITERATIONS, random):
                centers[k].append(sample_centers[:samples])
                cosines = middle @ sample_centers.reshape(count * k, -1).T
                labels = cosines.reshape(len(middle), count, k).argmax(axis=2).T
                stability[k].append(float(_compute_rand(labels[first], labels[second], size, k).mean()))
    return (
        {k: np.concatenate(blocks) for k, blocks in centers.items()},
        {k: float(np.mean(scores)) for k, scores in stability.items()},
    )


def _pair_up(samples: int) -> NDArray[np.int64]:
    """Return pairs of samples, each with the next few in a circle, int64 [2, pairs]."""
    steps = range(1, min(NEIGHBORS, samples - 1) + 1)
    return np.array(sorted({tuple(sorted((a, (a + step) % samples))) for a in range(samples) for step in steps})).T


def _compute_rand(a: Labels, b: Labels, size: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return the adjusted Rand index of each row of a and the same row of b, clusterings of weighted points.

    It is 1 if both have one cluster, or single points alone.
    """
    cells = np.arange(len(a))[:, None] * k**2 + a * k + b
    weights = np.broadcast_to(size, cells.shape).ravel()
    counts = np.bincount(cells.ravel(), weights=weights, minlength=len(a) * k**2).reshape(-1, k, k)
    n = size.sum()
    sizes_of = counts.reshape(len(a), -1), counts.sum(axis=2), counts.sum(axis=1)
    together, first, second = (((sizes**2).sum(axis=1) - n) / 2 for sizes in sizes_of)  # pairs of texts within clusters
    expected = first * second / max(n * (n - 1) / 2, 1)
    beyond = (first + second) / 2 - expected
    return np.where(beyond == 0, 1.0, (together - expected) / np.where(beyond == 0, 1, beyond))
