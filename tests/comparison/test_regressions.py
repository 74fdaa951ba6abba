"""Changes since the previous night: which, whether they are significant, and their cause."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.made import damage_blob, save_scored, store_task, with_replicates
from traube._core.files import write_parquet
from traube._pipeline.changes import ChangeKind
from traube._pipeline.kinds.clustering import ClusteringCell
from traube._pipeline.params import Protocol
from traube._pipeline.record import record
from traube._reports.pages import leaderboard_page
from traube._reports.tables import leaderboard
from traube._storage import Storage, open_storage
from traube.comparison.regressions import (
    CAUSES,
    CHANGES,
    Night,
    _find_causes,
    find_regressions,
    read_changes,
    save_snapshot,
    select_counting_cells,
)
from traube.components import parse_method
from traube.tasks.stored import get_manifest
from traube.tasks.task import Task, TaskCard, text_id

OWN = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1,))
METRIC = "v_measure/noise_as_cluster"
Add = Callable[..., None]


def save_task(storage: Storage, more: str = "") -> None:
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
    store_task(storage, Task(TaskCard(name="tiny"), corpus, splits))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    storage = open_storage(tmp_path)
    save_task(storage)
    return storage


def add_cell(
    storage: Storage, mean: float, day: str, model: str = "ck", fingerprint: str = "f1", **changes: Any
) -> None:
    """Store a model's scores on the eight splits, and what counts on that day."""
    manifest = get_manifest(storage, "tiny")
    assert manifest is not None
    method = parse_method("none/kmeans")
    made = ClusteringCell("tiny", "own", model, fingerprint, method, 1, "own", "default", manifest.data_version)
    noise = np.random.default_rng([len(model), int(100 * mean)]).normal(0, 0.01, 8)
    values = mean + noise - noise.mean()
    frame = {"split": [f"s{i}" for i in range(8)], "level": "coarse", "metric": METRIC, "value": values}
    scores = with_replicates(pd.DataFrame(frame))
    save_scored(storage, replace(record(made, "done"), created=day, **changes), scores)
    save_snapshot(storage, select_counting_cells(storage, {"own": OWN}), day)


@pytest.fixture
def add(storage: Storage) -> Add:
    return partial(add_cell, storage)


def changes(storage: Storage, day: str = "2026-01-02") -> pd.DataFrame:
    return find_regressions(storage, {"own": OWN}, select_counting_cells(storage, {"own": OWN}), day)[1]


def test_without_an_earlier_night_there_is_nothing_to_compare(storage: Storage, add: Add) -> None:
    add(0.5, "2026-01-02")
    since, found = find_regressions(storage, {"own": OWN}, select_counting_cells(storage, {"own": OWN}), "2026-01-02")
    assert since == ""
    assert found.empty


def test_a_night_in_which_nothing_changed_reports_nothing(storage: Storage, add: Add) -> None:
    add(0.5, "2026-01-01")
    save_snapshot(storage, select_counting_cells(storage, {"own": OWN}), "2026-01-02")
    assert changes(storage).empty


@pytest.mark.parametrize(("after", "verdict"), [(0.4, "worse"), (0.6, "better"), (0.5, "no significant change")])
def test_new_weights_are_named_as_the_cause(storage: Storage, add: Add, after: float, verdict: str) -> None:
    add(0.5, "2026-01-01")
    add(after, "2026-01-02", fingerprint="f2")
    (row,) = changes(storage).to_dict("records")
    assert row["verdict"] == verdict
    assert row["cause"] == "model weights or settings"
    assert row["difference"] == pytest.approx(after - 0.5)
    assert row["comparisons"] == 1


def test_what_changed_is_tested_as_one_family_and_kept_with_its_size(storage: Storage, add: Add) -> None:
    for mean, day, fingerprint in ((0.5, "2026-01-01", "f1"), (0.4, "2026-01-02", "f2")):
        for model in ("ck", "other"):
            add(mean, day, model=model, fingerprint=fingerprint)
    found, table = changes(storage), leaderboard(storage, protocols={"own": OWN})
    assert found["comparisons"].tolist() == [2, 2]
    assert read_changes(storage).empty
    write_parquet(storage.get_table_path(CHANGES), found.assign(since="2026-01-01"))
    page = leaderboard_page(table, read_changes(storage))
    assert "2 comparisons" in page and "worse" in page


def test_other_data_cannot_be_paired(storage: Storage, add: Add) -> None:
    add(0.5, "2026-01-01")
    save_task(storage, more="!")
    add(0.6, "2026-01-02")
    (row,) = changes(storage).to_dict("records")
    assert row["verdict"] == "changed; not comparable"
    assert row["cause"] == "data"


def test_new_and_gone_models_are_named(storage: Storage, add: Add) -> None:
    add(0.5, "2026-01-01", model="old")
    add(0.6, "2026-01-02", model="newer")
    counting = select_counting_cells(storage, {"own": OWN}).query("model != 'old'")
    found = find_regressions(storage, {"own": OWN}, counting, "2026-01-02")[1].set_index("model")["verdict"].to_dict()
    assert found == {"newer": "new", "old": "gone"}


def test_libraries_are_named_with_their_versions(storage: Storage, add: Add) -> None:
    add(0.5, "2026-01-01", library_versions={"numpy": "1.0", "scipy": "1.0"})
    add(0.4, "2026-01-02", fingerprint="f2", library_versions={"numpy": "2.0", "scipy": "1.0"})
    (row,) = changes(storage).to_dict("records")
    assert row["cause"] == "model weights or settings; libraries: numpy 1.0 -> 2.0"


@pytest.mark.parametrize(
    ("numpy", "named"), [("1.0", [ChangeKind.NUMERICS]), ("2.0", [ChangeKind.LIBRARY])], ids=["alone", "with a library"]
)
def test_numerics_are_named_where_no_library_says_it_already(numpy: str, named: list[ChangeKind]) -> None:
    def cells(version: str, threads: str) -> pd.DataFrame:
        same = dict.fromkeys(CAUSES, "same")
        return pd.DataFrame([{**same, "library_versions": json.dumps({"numpy": version}), "numerics": threads}])

    causes = _find_causes(cells("1.0", "one"), cells(numpy, "two"))
    assert [cause.kind for cause in causes] == named


def test_a_corrupt_night_is_passed_over_and_named(storage: Storage, add: Add) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        add(0.5, day)
        add(0.5, day, model=day)
    (night,) = storage.read_documents(Night, "2026-01-02")
    damage_blob(storage, night.files["cells"])
    since, _ = find_regressions(storage, {"own": OWN}, select_counting_cells(storage, {"own": OWN}), "2026-01-03")
    assert since == "2026-01-01"
    (line,) = storage.verify()
    assert night.files["cells"] in line
