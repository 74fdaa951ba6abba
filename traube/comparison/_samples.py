"""The samples of a whole table at once: `Sample.of` for each of thousands would take most of a leaderboard's time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traube.comparison._jackknife import Array, Sample, stack_values
from traube.metrics import GROUPS

Codes = NDArray[np.int64]
Shape = tuple[int, int]  # cells, splits


@dataclass(frozen=True)
class Row:
    """A group's sample, with the values that a table shows of it."""

    sample: Sample
    mean: float  # over splits
    sd: float  # population standard deviation over splits, or over cells where there is one split; nan of one number
    cells: int  # how many


def make_samples(scores: pd.DataFrame, groups: Codes, seeded: Sequence[bool]) -> list[Row]:
    """Return the samples of many groups of scores, each as `Sample.of` makes it.

    Parameters
    ----------
    scores : DataFrame
        Columns cell_id, split, level, value and replicates, of one metric in each group.
    groups : ndarray of shape (rows,), int64
        The group of each row: 0, 1, 2, ..., each at least once.
    seeded : sequence of bool
        By group, whether its method draws random numbers.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(len(seeded) + 1))
    values = stack_values(scores)[order]
    cells = pd.factorize(scores["cell_id"].to_numpy(dtype=object)[order], sort=True)[0]
    splits, names = pd.factorize(scores["split"].to_numpy(dtype=object)[order])
    members: dict[Shape | None, list[int]] = {}
    for i, shape in enumerate(_find_shapes(starts, cells, splits)):
        members.setdefault(shape, []).append(i)
    rows: dict[int, Row] = {}
    for shape, indices in members.items():
        if shape is None:
            rows |= {i: _make_row(scores.iloc[order[starts[i] : starts[i + 1]]], seeded[i]) for i in indices}
            continue
        place = starts[indices][:, None] + np.arange(shape[0] * shape[1])
        block = values[place].reshape(len(indices), *shape, 1 + GROUPS)
        of_split = [tuple(map(str, row)) for row in names[splits[place[:, : shape[1]]]]]
        made = _make_rows(block, of_split, cells[place[:, :: shape[1]]], np.array(seeded)[indices])
        rows |= dict(zip(indices, made, strict=True))
    return [rows[i] for i in range(len(seeded))]


def _make_row(scores: pd.DataFrame, seeded: bool) -> Row:
    """Make the row of a group whose scores are no grid, or of several levels."""
    sample = Sample.of(scores, seeded)
    by_cell = scores.groupby("cell_id")["value"].agg(lambda v: v.mean(skipna=False)).to_numpy()
    spread = by_cell if len(sample.values) == 1 else sample.values[:, 0]
    return Row(sample, sample.mean, float(spread.std()) if len(spread) > 1 else np.nan, len(by_cell))


def _make_rows(
    block: Array, splits: Sequence[tuple[str, ...]], cells: Codes, seeded: NDArray[np.bool_]
) -> Iterator[Row]:
    """Yield the rows of groups that are grids of one shape, from [groups, seeds, splits, 1 + GROUPS].

    Each reduction runs along the axis, and in the order, in which `_make_row` runs it: results are
    equal to the last digit.
    """
    _, seeds, n, _ = block.shape
    values = block.mean(axis=1)
    scores, first = np.ascontiguousarray(values[:, :, 0]), np.ascontiguousarray(block[:, :, 0, 0])
    noise = first.var(axis=1, ddof=1) / seeds if seeds > 1 else np.where(seeded, np.nan, 0.0)
    spread = np.take_along_axis(first, np.argsort(cells, axis=1), axis=1) if n == 1 else scores
    sd = spread.std(axis=1) if spread.shape[1] > 1 else np.full(len(block), np.nan)
    columns = splits, values, noise.tolist(), scores.mean(axis=1).tolist(), sd.tolist()
    for names, group_values, group_noise, mean, group_sd in zip(*columns, strict=True):
        yield Row(Sample(names, group_values, group_noise, max(seeds - 1.0, 1.0)), mean, group_sd, seeds)


def _find_shapes(starts: Codes, cells: Codes, splits: Codes) -> list[Shape | None]:
    """Return (cells, splits) of each group whose rows are a grid: cell after cell, each with the same splits in order."""
    shapes: list[Shape | None] = []
    for first, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        of_cell, of_split = cells[first:end], splits[first:end]
        ends = np.flatnonzero(of_cell[1:] != of_cell[:-1])
        n = int(ends[0]) + 1 if len(ends) else end - first
        seeds, rest = divmod(end - first, n)
        grid = not rest and len(set(of_cell[::n].tolist())) == seeds == len(ends) + 1
        names = of_split[:n].tolist()
        shapes.append((seeds, n) if grid and of_split.tolist() == names * seeds and len(set(names)) == n else None)
    return shapes
