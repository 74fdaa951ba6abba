"""The samples of a whole table, made at once: `Sample.of` for each group of thousands would take most of a leaderboard's time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube.metrics import GROUPS
from traube.metrics.significance import Array, Sample

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """One sample a group, and what a table says besides.

    Attributes
    ----------
    samples : as `Sample.of` makes them
    sd : float64 [groups], population standard deviation over splits, or over cells where there is one split; nan of one number
    cells : int64 [groups], number of cells
    """

    samples: list[Sample]
    sd: Array
    cells: Codes


def samples_of(scores: pd.DataFrame, groups: Codes, seeded: Sequence[bool]) -> Samples:
    """The samples of many groups of scores.

    Parameters
    ----------
    scores : cell_id, split, level, value, replicates; a group holds one metric at one level
    groups : int64 [rows], the group of each row: 0, 1, 2, ..., each at least once
    seeded : by group, whether its method draws random numbers
    """
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(len(seeded) + 1))
    values = _values(scores)[order]
    cells = np.unique(scores["cell_id"].to_numpy(dtype=object)[order], return_inverse=True)[1]
    splits, names = pd.factorize(scores["split"].to_numpy(dtype=object)[order])
    shapes = _shapes(starts, cells, splits)
    samples: list[Sample | None] = [None] * len(seeded)
    sd, number = np.full(len(seeded), np.nan), np.zeros(len(seeded), dtype=np.int64)
    for shape in dict.fromkeys(shapes):
        members = [i for i, own in enumerate(shapes) if own == shape]
        if shape is None:
            for i in members:
                rows = scores.iloc[order[starts[i] : starts[i + 1]]]
                samples[i] = sample = Sample.of(rows, seeded[i])
                sd[i], number[i] = _spread(rows, sample), rows["cell_id"].nunique()
            continue
        place = starts[members][:, None] + np.arange(shape[0] * shape[1])
        block = values[place].reshape(len(members), *shape, 1 + GROUPS)
        made, sd[members] = _of_block(block, cells[place[:, :: shape[1]]], np.array(seeded)[members])
        number[members] = shape[0]
        for i, (mean, noise) in zip(members, made, strict=True):
            own = tuple(map(str, names[splits[starts[i] : starts[i] + shape[1]]]))
            samples[i] = Sample(own, mean, float(noise), max(shape[0] - 1.0, 1.0))
    return Samples([sample for sample in samples if sample is not None], sd, number)


def _values(scores: pd.DataFrame) -> Array:
    """float64 [rows, 1 + GROUPS], nan where there are no replicates."""
    none = np.full(GROUPS, np.nan)
    values = np.empty((len(scores), 1 + GROUPS))
    values[:, 0] = scores["value"]
    values[:, 1:] = [none if r is None else r for r in scores["replicates"]] or np.empty((0, GROUPS))
    return values


def _shapes(starts: Codes, cells: Codes, splits: Codes) -> list[tuple[int, int] | None]:
    """(cells, splits) of each group whose rows are a grid: cell after cell, each with the same splits in the same order."""
    shapes: list[tuple[int, int] | None] = []
    for first, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        own, of_split = cells[first:end], splits[first:end]
        ends = np.flatnonzero(own[1:] != own[:-1])
        n = int(ends[0]) + 1 if len(ends) else end - first
        seeds, rest = divmod(end - first, n)
        grid = not rest and len(set(own[::n].tolist())) == seeds == len(ends) + 1
        names = of_split[:n].tolist()
        shapes.append((seeds, n) if grid and of_split.tolist() == names * seeds and len(set(names)) == n else None)
    return shapes


def _of_block(block: Array, cells: Codes, seeded: NDArray[np.bool_]) -> tuple[list[tuple[Array, float]], Array]:
    """Means over seeds and variances of the mean, and standard deviations, from [groups, seeds, splits, 1 + GROUPS].

    Each reduction runs along the axis, and in the order, in which `Sample.of` runs it: sums are equal to the last digit.
    """
    _, seeds, n, _ = block.shape
    means = block.mean(axis=1)
    first = np.ascontiguousarray(block[:, :, 0, 0])
    noise = first.var(axis=1, ddof=1) / seeds if seeds > 1 else np.where(seeded, np.nan, 0.0)
    by_cell = np.take_along_axis(first, np.argsort(cells, axis=1), axis=1)
    spread = np.ascontiguousarray(by_cell if n == 1 else means[:, :, 0])
    sd = spread.std(axis=1) if spread.shape[1] > 1 else np.full(len(block), np.nan)
    return list(zip(means, noise, strict=True)), sd


def _spread(rows: pd.DataFrame, sample: Sample) -> float:
    if len(sample.values) > 1:
        return float(sample.values[:, 0].std())
    by_cell = rows.groupby("cell_id")["value"].agg(lambda v: v.mean(skipna=False)).to_numpy()
    return float(by_cell.std()) if len(by_cell) > 1 else float("nan")
