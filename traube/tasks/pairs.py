"""Pairs of a split's items, same group or not: what a similarity learns from and is judged by.

`all_pairs` gives every pair, `balanced_pairs` all of the same group and as many random others.
Neither holds more pairs than it gives: items are put in the order of their labels, in which the
partners of each item are one range, so that the pair of a given rank can be computed.

Where labels are paths of sections (`separator`), a pair of a section and one above it may be called
same or different with equal right. Such pairs are left out, as QS3M does for training.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traube.core.errors import TraubeError
from traube.tasks.splitting import SEED, generator
from traube.tasks.task import Split

MOST = 2**22  # of balanced pairs, each kind

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Pairs of a split's items.

    Attributes
    ----------
    first, second : int64 [n], positions in the split (of `split.rows`, `split.labels`);
        first < second
    same : bool [n], whether both have the same label
    """

    first: Ints
    second: Ints
    same: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.same)


def all_pairs(split: Split, *, separator: str | None = None) -> Pairs:
    """Return every pair of a split's items once: first those of the same group.

    Parameters
    ----------
    separator : what stands between the sections of labels that are paths; pairs of a section and
        one above it are then left out. None: no pair is

    Raises
    ------
    TraubeError
        If the split has no labels.
    """
    same, different = _same(split, separator), _different(split, separator)
    return _joined(_pairs(kind, np.arange(kind.total), kind is same) for kind in (same, different))


def balanced_pairs(split: Split, *, seed: int = SEED, separator: str | None = None, most: int = MOST) -> Pairs:
    """As many pairs of the same group as of different ones: all of the rarer kind, at most `most`,
    and random ones of the other, each pair at most once. First those of the same group.

    Parameters
    ----------
    seed : of the draw, which depends on the split's name and level besides
    separator : as for `all_pairs`

    Raises
    ------
    TraubeError
        If the split has no labels.
    """
    same, different = _same(split, separator), _different(split, separator)
    count = min(same.total, different.total, most)
    rng = generator(f"pairs {split.split} {split.level}", seed)
    return _joined(_pairs(kind, _distinct(kind.total, count, rng), kind is same) for kind in (same, different))


@dataclass(frozen=True)
class _Partners:
    """The pairs of one kind. The item at place p in the order of labels is paired with the `counts[p]`
    items from place `begins[p]` on.

    Attributes
    ----------
    order : int64 [n], the items in the order of their labels
    begins, counts : int64 [n]
    """

    order: Ints
    begins: Ints
    counts: Ints

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def at(self, ranks: Ints) -> tuple[Ints, Ints]:
        """The pairs of some ranks, below `total`: two arrays of items."""
        until = np.cumsum(self.counts)
        places = np.searchsorted(until, ranks, side="right")
        partners = self.begins[places] + ranks - (until - self.counts)[places]
        return self.order[places], self.order[partners]


def _same(split: Split, separator: str | None) -> _Partners:
    order, ends, _ = _by_label(split, separator)
    begins = np.arange(1, len(order) + 1)
    return _Partners(order, begins, ends - begins)


def _different(split: Split, separator: str | None) -> _Partners:
    order, _, family_ends = _by_label(split, separator)
    return _Partners(order, family_ends, len(order) - family_ends)


def _by_label(split: Split, separator: str | None) -> tuple[Ints, Ints, Ints]:
    """The items in the order of their labels; and for each place, where its label ends, and where
    the last label below it does. Paths are ordered so that those below another follow it.
    """
    if split.labels is None:
        raise TraubeError(f"split '{split.split}' ({split.level}): has no labels, so no pair is known to be the same")
    labels, codes = np.unique(split.labels.astype(str), return_inverse=True)
    paths = [tuple(label.split(separator)) if separator else (label,) for label in labels.tolist()]
    classes = sorted(range(len(paths)), key=paths.__getitem__)
    rank = np.argsort(classes)[codes]
    sizes = np.bincount(rank, minlength=len(classes))
    ends = np.cumsum(sizes)
    family_ends = ends[_last_below([paths[c] for c in classes])]
    return np.argsort(rank, kind="stable").astype(np.int64), np.repeat(ends, sizes), np.repeat(family_ends, sizes)


def _last_below(paths: list[tuple[str, ...]]) -> list[int]:
    """For each of some sorted paths, the position of the last that begins with it."""
    last = list(range(len(paths)))
    for i in reversed(range(len(paths))):
        # those below are one range, and know their own last
        while (following := last[i] + 1) < len(paths) and paths[following][: len(paths[i])] == paths[i]:
            last[i] = last[following]
    return last


def _pairs(kind: _Partners, ranks: Ints, same: bool) -> Pairs:
    one, other = kind.at(ranks)
    return Pairs(np.minimum(one, other), np.maximum(one, other), np.full(len(ranks), same))


def _joined(halves: Iterable[Pairs]) -> Pairs:
    return Pairs(*map(np.concatenate, zip(*((half.first, half.second, half.same) for half in halves), strict=True)))


def _distinct(total: int, count: int, rng: np.random.Generator) -> Ints:
    """`count` random numbers below `total`, ascending, none twice; in memory for `count`."""
    if 2 * count > total:
        kept = np.ones(total, dtype=bool)
        kept[_distinct(total, total - count, rng)] = False
        return np.flatnonzero(kept)
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:
        drawn = (rng.random(count - len(found)) * total).astype(np.int64)
        found = np.unique(np.concatenate([found, drawn]))
    return found
