"""Statistics of a whole table at once: equal to the last digit to those of each row by itself."""

import numpy as np
import pandas as pd
import pytest

from traube._reports.tables import summary
from traube.comparison.jackknife import Sample, compute_intervals
from traube.comparison.samples import make_samples
from traube.metrics import GROUPS

METRIC = "v_measure/noise_as_cluster"
KEYS = ["task", "family", "protocol", "model", "method", "fingerprint", "data_version"]


def table(rng: np.random.Generator, groups: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells and scores: methods with one seed or many, tasks with one split or many, one level or two; some without replicates,
    some with a cell that lacks a split.
    """
    cells, scores = [], []
    for i in range(groups):
        task, model = f"t{i % 5}", f"m{i // 5 % 7}"
        about = {"task": task, "family": "f", "protocol": "p", "model": model, "method": f"r/{i // 35}"}
        seeds = int(rng.choice([1, 1, 2, 3, 5, 9, 12]))
        splits = (1, 3, 8, 17, 40)[i % 5]
        for seed in range(seeds):
            cell = f"{rng.integers(1 << 60):015x}"
            created = f"2026-01-{1 + int(rng.integers(28)):02d}"
            cells.append({**about, "cell_id": cell, "seed": None if seeds == 1 and i % 3 else seed, "created": created})
            for level in ("coarse", "fine")[: 1 + i % 2]:
                for split in range(splits - (seed > 0 and i % 11 == 0 and splits > 1)):
                    value = rng.normal(0.5, 0.2)
                    replicates = None if i % 13 == 0 else np.float32(rng.normal(value, 0.01, GROUPS))
                    scores.append((cell, f"s{split}", level, METRIC, value, replicates))
    columns = ["cell_id", "split", "level", "metric", "value", "replicates"]
    frame = pd.DataFrame(cells).assign(status="done", reason="", fingerprint="f", data_version="d")
    parts = frame["method"].str.split("/", expand=True)
    return frame.assign(reducer=parts[0], clusterer=parts[1]), pd.DataFrame(scores, columns=columns)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_table_of_statistics_is_that_of_its_rows(seed: int) -> None:
    cells, scores = table(np.random.default_rng(seed), 150)
    found = summary(cells, scores, {}).set_index(["task", "model", "method", "level"])
    joined = cells.merge(scores, on="cell_id")
    for (task, model, method, level), rows in joined.groupby(["task", "model", "method", "level"], sort=False):
        row = found.loc[(task, model, method, level)]
        sample = Sample.of(rows, seeded=bool(rows["seed"].notna().any()))
        by_seed = rows.groupby("cell_id")["value"].agg(lambda v: v.mean(skipna=False)).to_numpy()
        spread = by_seed if len(sample.values) == 1 else sample.values[:, 0]
        assert np.array_equal(row["mean"], sample.mean, equal_nan=True)
        assert np.array_equal(row["sd"], spread.std() if len(spread) > 1 else np.nan, equal_nan=True)
        assert (row["splits"], row["seeds"]) == (len(sample.values), len(by_seed))
        assert row["created"] == rows["created"].max()
        if not row["best"]:  # the best one's interval has its choice in it
            assert np.array_equal(row[["low", "high"]].to_numpy(float), compute_intervals([sample])[0], equal_nan=True)


@pytest.mark.parametrize("seed", range(2))
def test_samples_that_are_made_at_once_are_those_made_one_by_one(seed: int) -> None:
    cells, scores = table(np.random.default_rng(seed), 60)
    rows = cells.merge(scores, on="cell_id")
    groups = rows.groupby(["task", "model", "method", "level"], sort=False)
    seeded = (groups["seed"].count() > 0).tolist()
    shuffled = np.random.default_rng(seed).permutation(len(rows))  # no longer a grid: each goes the plain way
    codes = groups.ngroup().to_numpy()
    made = make_samples(rows, codes, seeded)
    assert len(make_samples(rows.iloc[shuffled], codes[shuffled], seeded)) == len(made)
    for row, (_, own), is_seeded in zip(made, groups, seeded, strict=True):
        sample = Sample.of(own, is_seeded)
        assert row.sample.splits == sample.splits
        assert np.array_equal(row.sample.values, sample.values, equal_nan=True)
        assert np.array_equal([row.sample.noise, row.sample.noise_df], [sample.noise, sample.noise_df], equal_nan=True)


def test_cells_that_only_together_have_every_split_are_no_grid() -> None:
    """The first cell has both splits, the others one each: four rows, which look like two cells of two splits."""
    columns = ["cell_id", "split", "level", "value", "replicates"]
    rows = [("a", "s0", 0.2), ("a", "s1", 0.4), ("b", "s0", 0.6), ("c", "s1", 0.8)]
    apart = pd.DataFrame([(cell, split, "class", value, None) for cell, split, value in rows], columns=columns)
    (row,) = make_samples(apart, np.zeros(4, dtype=np.int64), [True])
    assert row.cells == 3 and np.isnan(row.sample.values[:, 0]).all()  # no split has a score in all three
    (grid,) = make_samples(apart.assign(cell_id=list("aabb")), np.zeros(4, dtype=np.int64), [True])
    assert grid.cells == 2 and np.array_equal(grid.sample.values[:, 0], [(0.2 + 0.6) / 2, (0.4 + 0.8) / 2])


def test_a_cell_without_a_score_on_one_level_has_no_mean_over_levels() -> None:
    columns = ["cell_id", "split", "level", "value", "replicates"]
    rows = [("a", "coarse", 0.2), ("a", "fine", 0.4), ("b", "coarse", 0.5), ("b", "fine", 0.9)]
    scores = pd.DataFrame([(cell, "s", level, value, None) for cell, level, value in rows], columns=columns)
    (whole,) = make_samples(scores, np.zeros(4, dtype=np.int64), [True])
    assert whole.mean == pytest.approx(0.5) and whole.sd == pytest.approx(0.2)  # of .3 and .7
    (partial,) = make_samples(scores.assign(value=[np.nan, 0.4, 0.5, 0.9]), np.zeros(4, dtype=np.int64), [True])
    assert np.isnan([partial.mean, partial.sd]).all()


def test_intervals_at_once_are_those_of_each_sample() -> None:
    rng = np.random.default_rng(0)
    samples = []
    for i in range(600):
        n = int(rng.choice([1, 2, 7, 8, 9, 28]))
        values = rng.normal(0.5, 0.1, (n, 1)) + rng.normal(0, 0.02 * (i % 3), (n, 1 + GROUPS))
        samples.append(Sample(tuple(map(str, range(n))), values, float(rng.choice([0.0, np.nan, 1e-4])), 2.0))
    alone = np.array([compute_intervals([sample])[0] for sample in samples])
    assert np.array_equal(compute_intervals(samples), alone, equal_nan=True)
    assert np.isfinite(alone).any(axis=0).all() and np.isnan(alone).any()
