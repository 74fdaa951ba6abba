"""Pairs of a split's items, same group or not, from which a similarity learns and by which it is judged.

Where labels are paths of sections (`separator`), a pair of a section and one above it may be called same or different
with equal right. Such pairs are left out, as QS3M does for training.
"""

from dataclasses import dataclass

import numpy as np

from traube._core.arrays import Bools, Ints
from traube._core.errors import Missing
from traube.tasks._splitting import SEED, make_rng
from traube.tasks._task import Split

MOST = 2**22  # of balanced pairs, each kind


@dataclass(frozen=True)
class ItemPairs:
    """Pairs of a split's items."""

    first: Ints  # [n], positions in the split (of `split.rows`, `split.labels`); first < second
    second: Ints
    same: Bools  # [n], whether both have the same label

    def __len__(self) -> int:
        return len(self.same)


def all_pairs(split: Split, *, separator: str | None = None) -> ItemPairs:
    """Return every pair of a split's items once: first those of the same group.

    Parameters
    ----------
    separator : str, optional
        Separator between the sections of labels that are paths; pairs of a section and one above it are then left
        out. By default no pair is left out.
    """
    same, different = _partners(split, separator)
    return _pairs(same.at(np.arange(same.total)), different.at(np.arange(different.total)))


def balanced_pairs(split: Split, *, seed: int = SEED, separator: str | None = None, most: int = MOST) -> ItemPairs:
    """Return as many pairs of the same group as of different ones.

    All pairs of the rarer kind are taken, at most `most`, and random ones of the other, each pair at most once. Those
    of the same group come first.

    Parameters
    ----------
    seed : int, default=SEED
        Seed of the draw, which also depends on the split's name and level.
    separator : str, optional
        As for `all_pairs`.
    """
    same, different = _partners(split, separator)
    count = min(same.total, different.total, most)
    rng = make_rng(f"pairs {split.split} {split.level}", seed)
    drawn = [kind.at(_distinct(kind.total, count, rng)) for kind in (same, different)]
    return _pairs(*drawn)


@dataclass(frozen=True)
class _Partners:
    """The pairs of one kind, computed by rank instead of stored.

    In the order of labels, the partners of the item at place p are one range, the `counts[p]` items from place
    `begins[p]` on, so that the pair of a given rank can be computed.
    """

    order: Ints  # the items in the order of their labels
    begins: Ints
    counts: Ints

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def at(self, ranks: Ints) -> tuple[Ints, Ints]:
        """Return the pairs of some ranks, below `total`: two arrays of items."""
        until = np.cumsum(self.counts)
        places = np.searchsorted(until, ranks, side="right")
        partners = self.begins[places] + ranks - (until - self.counts)[places]
        return self.order[places], self.order[partners]


def _partners(split: Split, separator: str | None) -> tuple[_Partners, _Partners]:
    """Return the pairs of the same label, and those of different ones."""
    if split.labels is None:
        raise Missing(f"split '{split.split}' ({split.level}): has no labels, so no pair is known to be the same")
    labels, codes = np.unique(split.labels.astype(str), return_inverse=True)
    paths = [tuple(label.split(separator)) if separator else (label,) for label in labels.tolist()]
    classes = sorted(range(len(paths)), key=paths.__getitem__)  # those below another path follow it
    paths = [paths[c] for c in classes]
    rank = np.argsort(classes)[codes]
    order = np.argsort(rank, kind="stable").astype(np.int64)
    sizes = np.bincount(rank, minlength=len(classes))
    ends = np.cumsum(sizes)

    last_below = list(range(len(paths)))  # of each path, the position of the last that begins with it
    for i in reversed(range(len(paths))):
        # those below are one range, and know their own last
        while (following := last_below[i] + 1) < len(paths) and paths[following][: len(paths[i])] == paths[i]:
            last_below[i] = last_below[following]

    begins, family_ends = np.arange(1, len(order) + 1), np.repeat(ends[last_below], sizes)
    same = _Partners(order, begins, np.repeat(ends, sizes) - begins)
    return same, _Partners(order, family_ends, len(order) - family_ends)


def _pairs(same: tuple[Ints, Ints], different: tuple[Ints, Ints]) -> ItemPairs:
    one, other = (np.concatenate(sides) for sides in zip(same, different, strict=True))
    is_same = np.repeat([True, False], [len(same[0]), len(different[0])])
    return ItemPairs(np.minimum(one, other), np.maximum(one, other), is_same)


def _distinct(total: int, count: int, rng: np.random.Generator) -> Ints:
    """Return `count` distinct random numbers below `total`, ascending, in memory for `count`."""
    if 2 * count > total:
        kept = np.ones(total, dtype=bool)
        kept[_distinct(total, total - count, rng)] = False
        return np.flatnonzero(kept)
    numbers = np.empty(0, dtype=np.int64)
    while len(numbers) < count:
        drawn = (rng.random(count - len(numbers)) * total).astype(np.int64)
        numbers = np.unique(np.concatenate([numbers, drawn]))
    return numbers
