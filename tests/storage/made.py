"""A small task and its cells, and everything that a catalog holds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa

from traube._storage import CellRow, Score, Storage
from traube._storage.catalog import ENTRY_TABLES, SCORE, SPLIT

SPLITS, ITEMS = 3, 8
METRICS = ("v_measure/noise_as_cluster", "v_measure/noise_dropped", "ari/noise_as_cluster")


def make_splits() -> pd.DataFrame:
    """Return a table of three test splits with two levels each, and of one that is for training."""
    rows = [
        {
            "split_set": "default",
            "split": f"s{split}",
            "level": level,
            "item": item,
            "text_id": f"t{item}",
            "part": part,
        }
        for split, part in enumerate(["test"] * SPLITS + ["train"])
        for level in ("fine", "coarse")
        for item in range(ITEMS)
    ]
    return pd.DataFrame(rows).assign(label=lambda table: [f"c{item % 3}" for item in table["item"]], query_id=None)


def save_task(storage: Storage, data_version: str = "d1") -> None:
    """Store the task `fruit`."""
    corpus = pd.DataFrame(
        {"text_id": [f"t{i}" for i in range(ITEMS)], "text": [f"apple {i}\n\x00é" for i in range(ITEMS)]}
    )
    versions = {"raw_version": "r1", "data_version": data_version}
    splits = make_splits()
    storage.save_task("fruit", "clustering", {"name": "fruit"}, versions, {"corpus": corpus, "splits": splits}, splits)


RECORD = CellRow(
    cell_id="a" * 16,
    task="fruit",
    model="bow",
    fingerprint="",
    reducer="",
    clusterer="",
    protocol="",
    split_set="default",
    data_version="d1",
    scoring_version="1",
    status="done",
    params={"kmeans": {"n_init": 10}},
    numerics={"numpy": {"version": "2"}},
    library_versions={"numpy": "2"},
    seconds=1.25,
    memory=float("nan"),
    seed=42,
)


def make_record(cell_id: str, status: str = "done", **others: Any) -> CellRow:
    """Return a cell's record."""
    return replace(RECORD, cell_id=cell_id, status=status, **others)


def make_assignments(seed: int) -> pd.DataFrame:
    """Return clusters for the task's test splits."""
    table = make_splits().query("part == 'test'")[["split", "level", "item"]].reset_index(drop=True)
    return table.assign(cluster=np.random.default_rng(seed).integers(-1, 3, len(table)))


def make_scores(seed: int) -> list[Score]:
    """Return scores; the second metric equals the first."""
    random = np.random.default_rng(seed)
    made = []
    for level in ("fine", "coarse"):
        numbers = [(random.random(SPLITS), random.random((SPLITS, 20)).astype(np.float32)) for _ in range(2)]
        made += [Score(level, metric, *numbers[i]) for metric, i in zip(METRICS, (0, 0, 1), strict=True)]
        made.append(Score(level, "clusters_found", random.integers(1, 9, SPLITS).astype(float)))
    return made


def save_cell(storage: Storage, number: int, **others: Any) -> str:
    """Store a cell that is done; return its id."""
    cell_id = f"{number:016x}"
    assert storage.save_cell(make_record(cell_id, **others), make_assignments(number), make_scores(number))
    return cell_id


def read_contents(storage: Storage) -> dict[str, Any]:
    """Return everything that the catalog of a storage holds of entries."""
    return {table.name: storage.catalog.read_rows(table) for table in (*ENTRY_TABLES.values(), SPLIT, SCORE)}


def find_orphans(storage: Storage) -> set[str]:
    """Return the blobs that the catalog does not refer to."""
    return {blob for blob, _ in storage.blobs.list()} - storage.catalog.read(storage.catalog.list_references)


def count_rows(storage: Storage, table: sa.Table) -> int:
    """Return the number of a table's rows."""
    return storage.catalog.read(lambda c: c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
