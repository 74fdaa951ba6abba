"""Layers of clusters, each nested in the one before, around an existing clustering.

Two texts belong together as often as samples put them into one cluster (evidence accumulation, Fred and Jain 2005).
Average linkage of micro clusters by that measure is a tree: above the given clusters it merges them, below it splits them.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from traube.components._spherical import Array, Labels, find_micro_clusters, renumber, sum_clusters, unit
from traube.components._stability import MICRO, TEXTS_A_CLUSTER, Samples

STEPS = (1 / 9, 1 / 3, 2 / 3, 5 / 3, 3.0)  # of a layer's clusters to the given ones
WINDOW = 1.32  # a layer is cut where the tree is most stable within this factor
FEWEST = 3  # clusters of a layer
SMALLEST, SHARE = 4, 1 / 800  # texts of a cluster that is counted, and of all texts


def find_layers(labels: Labels, samples: Samples, seed: int) -> list[Labels]:
    """Return layers around a clustering, from the coarsest to the finest, the clustering itself among them.

    Parameters
    ----------
    labels : int64 array of shape (n_texts,)
        From 0, without gaps.
    samples : Samples
        Of the same texts.
    seed : int
        Of the micro clusters.

    Returns
    -------
    list of int64 arrays of shape (n_texts,)
        Every cluster of a layer lies within one cluster of the layer before. Layers have about a ninth, a third, two
        thirds, five thirds and three times as many clusters as the given one, where the texts allow it.
    """
    k = int(labels.max()) + 1
    if k < 2:
        return [labels]
    tree = _Tree(labels, samples, np.random.default_rng(seed))
    layers = {k: labels}
    for step in STEPS:
        target = step * k
        if FEWEST <= target <= len(labels) / TEXTS_A_CLUSTER:
            cut = tree.merge(target) if target < k else tree.split(target, layers[max(layers)])
            layers.setdefault(int(cut.max()) + 1, cut)
    return [layers[number] for number in sorted(layers)]


class _Tree:
    """Average linkage of atoms: an atom is the intersection of a micro cluster and a given cluster."""

    def __init__(self, labels: Labels, samples: Samples, random: np.random.Generator) -> None:
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import squareform

        self.labels, self.points, k = labels, samples.points, int(labels.max()) + 1
        micro = find_micro_clusters(self.points, MICRO, random)
        pairs, atoms = np.unique(micro * k + labels, return_inverse=True)
        together = _find_together(unit(sum_clusters(self.points, micro)), samples)[np.ix_(pairs // k, pairs // k)]
        # atoms of different clusters are further apart than any of one: these are merged first
        apart = 1 - together + ((pairs % k)[:, None] != pairs % k)
        np.fill_diagonal(apart, 0)
        self.atoms: Labels = atoms.astype(np.int64)
        self.merges = linkage(squareform(np.maximum(apart, 0), checks=False), "average")
        self.least = max(SMALLEST, round(len(labels) * SHARE))
        self.counts = self._count_clusters()

    def _count_clusters(self) -> NDArray[np.int64]:
        """Return how many clusters have enough texts after each number of merges, int64 [atoms]."""
        sizes = [*np.bincount(self.atoms).tolist()]
        counts = [sum(size >= self.least for size in sizes)]
        for first, second in self.merges[:, :2].astype(int):
            a, b = sizes[first], sizes[second]
            sizes.append(a + b)
            counts.append(counts[-1] + (a + b >= self.least) - (a >= self.least) - (b >= self.least))
        return np.array(counts)

    def merge(self, target: float) -> Labels:
        """Return the longest-lived clusters that merge the given ones into about so many."""
        k = int(self.labels.max()) + 1
        merged = np.arange(len(self.counts)) >= len(self.counts) - k  # as many merges as leave the given clusters
        layer = self._cut(target, merged & (self.counts < k))
        return self.labels if layer is None else layer

    def split(self, target: float, above: Labels) -> Labels:
        """Return the longest-lived clusters that split the given ones, and those of the layer above, into about so many."""
        k, many = int(self.labels.max()) + 1, np.arange(len(self.counts)) >= self.counts.argmax()
        layer = self._cut(target, many & (self.counts > k))  # before the largest count, most atoms are alone
        return above if layer is None else self._without_crumbs(layer, above)

    def _cut(self, target: float, allowed: NDArray[np.bool_]) -> Labels | None:
        from scipy.cluster.hierarchy import fcluster

        heights = self.merges[:, 2]
        life = np.diff(np.concatenate([[0], heights, heights[-1:]]))
        near = allowed & (self.counts >= target / WINDOW) & (self.counts <= target * WINDOW)
        if not near.any():
            return None
        merges = np.flatnonzero(near)[life[near].argmax()]
        return renumber(fcluster(self.merges, len(self.counts) - merges, "maxclust")[self.atoms])

    def _without_crumbs(self, labels: Labels, above: Labels) -> Labels:
        """Nest clusters in the layer above; the texts of one that is too small join the nearest one beside it."""
        pairs, labels = np.unique(above * (int(labels.max()) + 1) + labels, return_inverse=True)
        size, middle = np.bincount(labels), unit(sum_clusters(self.points, labels))
        parent = np.empty(len(pairs), dtype=np.int64)
        parent[labels] = above
        largest = np.zeros(int(above.max()) + 1, dtype=np.int64)
        np.maximum.at(largest, parent, size)
        kept = (size >= self.least) | (size == largest[parent])
        joined = labels.copy()
        for crumb in np.flatnonzero(~kept):
            rows, others = np.flatnonzero(labels == crumb), np.flatnonzero(kept & (parent == parent[crumb]))
            joined[rows] = others[(self.points[rows] @ middle[others].T).argmax(axis=1)]
        return renumber(joined)


def _find_together(points: Array, samples: Samples) -> NDArray[np.float32]:
    """Return the share of all samples that put two points into one cluster, float32 [m, m]."""
    ones, starts = np.ones(len(points), np.float32), np.arange(len(points) + 1)
    clusterings = [labels for k in samples.centers for labels in samples.find_nearest(points, k)]
    member = sparse.hstack([sparse.csr_matrix((ones, labels, starts)) for labels in clusterings], format="csr")
    return np.asarray((member @ member.T).toarray() / len(clusterings))
