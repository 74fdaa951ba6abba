"""Cost of storing and reading the cells of a large benchmark: 20,250 cells of 270 checkpoints.

Each cell has 36 metrics on 28 splits, a third of them of their own (the noise policies agree), with
20 replicates of each value, and assignments of 28 x 500 texts. Times are wall and CPU seconds of
this process. `TRAUBE_DATABASE` and `TRAUBE_BLOBS` are respected.
"""

import argparse
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from traube._storage import Score, Storage
from traube._storage.storage import CELL_COLUMNS

MODELS, METHODS, GROUPS, POLICIES = 270, 75, 20, ("noise_as_cluster", "noise_dropped", "noise_as_singletons")


def main() -> None:
    """Write, read, look for what is missing, and make the catalog again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=MODELS * METHODS)
    parser.add_argument("--splits", type=int, default=28)
    parser.add_argument("--texts", type=int, default=500, help="of a split")
    parser.add_argument("--folder", type=Path, help="where to write; read only, if it holds the cells already")
    parser.add_argument("--rebuild", action="store_true", help="make the catalog again, too")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="traube-catalog-") as temporary:
        folder = arguments.folder or Path(temporary)
        storage = Storage(folder)
        if not storage.read_rows("task"):
            with measured(f"write {arguments.cells:,} cells", arguments.cells):
                write(storage, arguments.cells, arguments.splits, arguments.texts)
        read(storage)
        if arguments.rebuild:
            with measured("make the catalog again"):
                storage.rebuild()
        sizes = {name: sum(f.stat().st_size for f in (folder / name).rglob("*")) for name in ("blobs", ".")}
        print(f"{sizes['blobs'] / 1e6:,.0f} MB of blobs, {(sizes['.'] - sizes['blobs']) / 1e6:,.0f} MB of catalog")


def write(storage: Storage, cells: int, splits: int, texts: int) -> None:
    """Store a task and its cells, as runs do: one after the other."""
    names = np.repeat([f"split{i}" for i in range(splits)], texts)
    table = pd.DataFrame(
        {"split_set": "default", "split": names, "level": "fine", "item": np.tile(np.arange(texts), splits)}
    )
    full = table.assign(text_id="", label="a", query_id=None, part="test")
    storage.save_task("blurbs", "clustering", {}, {"data_version": "d"}, {}, full)
    random = np.random.default_rng(0)
    known = {
        "task": "blurbs",
        "split_set": "default",
        "data_version": "d",
        "status": "done",
        "reason": "",
        "seconds": 1.0,
    }
    empty = {column: "" for column in CELL_COLUMNS if column != "created"}
    empty |= dict.fromkeys(("clusters", "texts", "memory", "total_seconds"))
    for number in range(cells):
        model, method = divmod(number, METHODS)
        method_of = {
            "reducer": f"r{method // 10}",
            "clusterer": f"c{method % 10}",
            "params": {"c": {"n_init": method}},
            "seed": 42,
        }
        scores = []
        for metric in range(12):
            numbers = random.random(splits), random.random((splits, GROUPS)).astype(np.float32)
            scores += [Score("fine", f"metric{metric}/{policy}", *numbers) for policy in POLICIES]
        assignments = table[["split", "level", "item"]].assign(cluster=random.integers(0, 20, len(table)))
        record = {**empty, **known, **method_of, "cell_id": f"{number * 7919:016x}", "model": f"model{model}"}
        storage.save_cell(record, {"assignments": assignments}, scores)


def read(storage: Storage) -> None:
    """Read what a leaderboard, a comparison and a plan need."""
    with measured("read the records"):
        cells = storage.read_cells("blurbs")
    for _ in range(2):
        with measured(f"aggregate one metric of {len(cells):,} cells, with replicates"):
            means = []
            for chunk in storage.iterate_scores(cells["cell_id"], ["metric3/noise_dropped"]):
                means.append(np.stack([score.values for _, score in chunk]).mean(axis=1))
                np.stack([np.asarray(score.replicates) for _, score in chunk]).mean(axis=1)
    assert sum(map(len, means)) == len(cells)
    with measured("read one metric as a table, without replicates"):
        storage.read_scores(cells, ["metric3/noise_dropped"])


@contextmanager
def measured(what: str, count: int = 0) -> Iterator[None]:
    """Print what something took."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    each = f", {1000 * cpu / count:.2f} CPU ms each" if count else ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {wall:.2f} s, {cpu:.2f} CPU s{each}; peak {peak:,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
