"""Seeded drawing of splits: the same names, seed and number of records give the same splits on every machine."""

import numpy as np
import pandas as pd

from traube._core.arrays import Ints
from traube.tasks.task import make_split

SEED = 42
SMALLEST = 0.1  # share of the records that a random split holds


def make_rng(name: str, seed: int = SEED) -> np.random.Generator:
    """Return a random generator that depends on a name and a seed only: a new split leaves the others as they are."""
    return np.random.default_rng([seed, *name.encode()])


def shuffle(n: int, rng: np.random.Generator) -> Ints:
    """Return the numbers 0 to n - 1 in random order.

    Sorting uniform numbers, because NumPy may change how `permutation` and `choice` use the stream, and a benchmark's
    splits must not change with them.
    """
    return np.argsort(rng.random(n), kind="stable").astype(np.int64)


def draw_fraction(n: int, rng: np.random.Generator) -> Ints:
    """Return at least a tenth (uniform) of the numbers 0 to n - 1, without replacement, in random order."""
    size = int(np.ceil(n * (SMALLEST + (1 - SMALLEST) * rng.random())))
    return shuffle(n, rng)[:size]


def draw_fractions(records: pd.DataFrame, count: int, level: str, *, prefix: str) -> list[pd.DataFrame]:
    """Draw `count` splits `<prefix>_00`, ...: each a random share of the records, labeled by their column `level`."""
    names = [f"{prefix}_{i:02d}" for i in range(count)]
    rows = [draw_fraction(len(records), make_rng(name)) for name in names]
    return [make_split(records.iloc[r], name, level, label=level) for name, r in zip(names, rows, strict=True)]


def split_whole(records: pd.DataFrame, name: str, level: str) -> pd.DataFrame:
    """Return all records, shuffled, as one split.

    An order that follows the labels would favor order-sensitive clusterers.
    """
    return make_split(records.iloc[shuffle(len(records), make_rng(name))], name, level, label=level)


def split_by_value(records: pd.DataFrame, column: str, level: str) -> pd.DataFrame:
    """Return the records of each value of a column, in each subset, as one split."""
    groups = records.groupby([column, "part"], sort=False)
    splits = [make_split(rows, name, level, label=level, subset=subset) for (name, subset), rows in groups]
    return pd.concat(splits, ignore_index=True)
