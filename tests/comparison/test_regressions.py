"""What changed since the previous night, whether it is significant, and why."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.made import with_replicates
from traube.benchmark.params import Protocol
from traube.benchmark.plan import Cell
from traube.benchmark.record import record
from traube.comparison.regressions import damaged_snapshots, present, regressions, snapshot
from traube.methods import parse_method
from traube.store import Store
from traube.tasks.task import TaskCard, text_id

OWN = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1,))
METRIC = "v_measure/noise_as_cluster"
Add = Callable[..., None]


def save_task(store: Store, more: str = "") -> None:
    """Eight disjoint splits of four texts."""
    texts = [f"{s} {i}{more}" for s in range(8) for i in range(4)]
    corpus = pd.DataFrame({"text_id": [text_id(t) for t in texts], "text": texts})
    splits = pd.DataFrame(
        {
            "split_set": "default",
            "split": [f"s{i // 4}" for i in range(32)],
            "level": "coarse",
            "item": [i % 4 for i in range(32)],
            "text_id": corpus["text_id"],
            "label": [str(i % 2) for i in range(32)],
            "query_id": None,
            "part": "test",
        }
    )
    card = TaskCard(name="tiny")
    store.save_corpus("tiny", corpus, corpus[["text_id"]], "raw")
    store.complete(card, store.save_splits(card, splits))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    save_task(store)
    return store


@pytest.fixture
def add(store: Store) -> Add:
    """Stores a model's scores on eight splits."""

    def cell(mean: float, day: str, model: str = "ck", fingerprint: str = "f1", **changes: object) -> None:
        manifest = store.manifest("tiny")
        assert manifest is not None
        method = parse_method("none/kmeans")
        made = Cell("tiny", "own", model, fingerprint, method, 1, "own", "default", manifest.data_version)
        noise = np.random.default_rng([len(model), int(100 * mean)]).normal(0, 0.01, 8)
        values = mean + noise - noise.mean()
        frame = {"split": [f"s{i}" for i in range(8)], "level": "coarse", "metric": METRIC, "value": values}
        store.save_scores("tiny", made.cell_id, with_replicates(pd.DataFrame(frame)))
        store.save_cell({**record(made, "done"), "created": day, **changes})
        snapshot(store, present(store, {"own": OWN}), day)

    return cell


def changes(store: Store, day: str = "2026-01-02") -> pd.DataFrame:
    return regressions(store, {"own": OWN}, present(store, {"own": OWN}), day)[1]


def test_without_an_earlier_night_there_is_nothing_to_compare(store: Store, add: Add) -> None:
    add(0.5, "2026-01-02")
    since, found = regressions(store, {"own": OWN}, present(store, {"own": OWN}), "2026-01-02")
    assert since == ""
    assert found.empty


def test_a_night_in_which_nothing_changed_reports_nothing(store: Store, add: Add) -> None:
    add(0.5, "2026-01-01")
    snapshot(store, present(store, {"own": OWN}), "2026-01-02")
    assert changes(store).empty


@pytest.mark.parametrize(("after", "verdict"), [(0.4, "worse"), (0.6, "better"), (0.5, "no significant change")])
def test_new_weights_are_named_as_the_cause(store: Store, add: Add, after: float, verdict: str) -> None:
    add(0.5, "2026-01-01")
    add(after, "2026-01-02", fingerprint="f2")
    (row,) = changes(store).to_dict("records")
    assert row["verdict"] == verdict
    assert row["cause"] == "model weights or settings"
    assert row["difference"] == pytest.approx(after - 0.5)


def test_other_data_cannot_be_paired(store: Store, add: Add) -> None:
    add(0.5, "2026-01-01")
    save_task(store, more="!")
    add(0.6, "2026-01-02")
    (row,) = changes(store).to_dict("records")
    assert row["verdict"] == "changed; not comparable"
    assert row["cause"] == "data"


def test_new_and_gone_models_are_named(store: Store, add: Add) -> None:
    add(0.5, "2026-01-01", model="old")
    next(store.folder.glob("results/tiny/*.json")).rename(store.folder / "away.json")
    add(0.6, "2026-01-02", model="newer")
    found = changes(store).set_index("model")["verdict"].to_dict()
    assert found == {"newer": "new", "old": "gone"}


def test_libraries_are_named_with_their_versions(store: Store, add: Add) -> None:
    add(0.5, "2026-01-01", library_versions={"numpy": "1.0", "scipy": "1.0"})
    add(0.4, "2026-01-02", fingerprint="f2", library_versions={"numpy": "2.0", "scipy": "1.0"})
    (row,) = changes(store).to_dict("records")
    assert row["cause"] == "model weights or settings; libraries: numpy 1.0 -> 2.0"


def test_a_damaged_night_is_passed_over_and_named(store: Store, add: Add) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        add(0.5, day)
    assert damaged_snapshots(store) == []
    path = store.table("nights") / "2026-01-02.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    assert damaged_snapshots(store) == [path]
    assert regressions(store, {"own": OWN}, present(store, {"own": OWN}), "2026-01-03")[0] == "2026-01-01"
