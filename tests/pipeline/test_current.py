"""Everything ever computed is kept; what counts is what the benchmark asks for now."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.made import save_scored, store_task, with_replicates
from traube._pipeline.current import count_outdated, current_cells
from traube._pipeline.kinds.clustering import ClusteringCell
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import record
from traube._reports.provenance import changed_since, trace_provenance
from traube._storage import CellRow, Storage, open_storage
from traube.components import parse_method
from traube.models import load_model
from traube.models.base import fingerprint_on
from traube.tasks.stored import complete_task, get_manifest
from traube.tasks.task import Task

PAPER = Protocol(reducers=("none",), clusterers=("kmeans",), seeds=(1, 2))
Add = Callable[..., str]


@pytest.fixture
def storage(tmp_path: Path, tiny_task: Task) -> Storage:
    storage = open_storage(tmp_path)
    store_task(storage, tiny_task)
    return storage


@pytest.fixture
def add(storage: Storage, tiny_task: Task) -> Add:
    """Stores a cell of the model bow; returns its id."""
    manifest = get_manifest(storage, "tiny")
    assert manifest is not None
    present = fingerprint_on(load_model("bow"), manifest.corpus_version)

    def cell(
        method: str = "none/kmeans",
        seed: int | None = 1,
        fingerprint: str = present,
        data_version: str = manifest.data_version,
        created: str = "2026-01-01",
        parameters: dict[str, dict[str, int]] | None = None,
        **changes: Any,
    ) -> str:
        chosen = parse_method(method, parameters)
        made = ClusteringCell("tiny", "own", "bow", fingerprint, chosen, seed, "paper", "default", data_version)
        values = {"split": ["s"], "level": ["coarse"], "metric": ["v_measure/noise_as_cluster"], "value": [0.5]}
        scores = with_replicates(pd.DataFrame(values))
        save_scored(storage, replace(record(made, "done"), created=created, **changes), scores)
        return made.cell_id

    return cell


def test_the_protocols_own_cells_count_and_others_do_not_change_its_numbers(storage: Storage, add: Add) -> None:
    own = {add(seed=1), add(seed=2)}
    besides = {add(seed=7), add(method="none/agglomerative", seed=None)}
    assert set(current_cells(storage, {"paper": PAPER})["cell_id"]) == own
    counted = current_cells(storage, {"paper": PAPER}, own_choice=True)
    assert set(counted["protocol"]) == {"paper"}
    assert set(counted.loc[counted["own_choice"], "cell_id"]) == besides
    assert set(counted.loc[~counted["own_choice"], "cell_id"]) == own


def test_other_parameters_are_no_seeds(storage: Storage, add: Add) -> None:
    add()
    now = add(parameters={"kmeans": {"n_init": 20}}, created="2026-01-02")
    changed = PAPER.model_copy(update={"parameters": {"kmeans": {"n_init": 20}}})
    assert current_cells(storage, {"paper": changed})["cell_id"].tolist() == [now]


def test_a_task_has_parameters_of_its_own_in_a_protocol(storage: Storage, add: Add, tiny_task: Task) -> None:
    add()
    own = add(parameters={"kmeans": {"n_init": 20}})
    special = PAPER.model_copy(update={"parameters_of": {"tiny": {"kmeans": {"n_init": 20}}}})
    assert current_cells(storage, {"paper": special})["cell_id"].tolist() == [own]
    (row,) = storage.read_rows(CellRow, cell_id=own)
    changes = {kind: changed_since(storage, {"paper": p}, row) for kind, p in (("own", special), ("none", PAPER))}
    assert changes["own"] == [] and [*map(str, changes["none"])] == ["the method's parameters in params.yaml"]
    named = [parse_method("none/kmeans"), parse_method("none/kmeans", {"kmeans": {"n_init": 3}})]
    requested = cells(tiny_task, load_model("bow"), special, methods=named, seeds=[1])
    # named as the protocol has it, it is as the protocol has it for this task; what is another one stays
    assert [cell.method.clusterer_params["n_init"] for cell in requested] == [20, 3]


def test_cells_of_older_code_do_not_count(storage: Storage, add: Add) -> None:
    add(code_version="0")
    assert current_cells(storage, {"paper": PAPER}).empty


@pytest.mark.parametrize(
    "numerics",
    [
        {},
        {"model": {"scikit-learn": "0.1"}},
        {"clusterer": {"version": "1", "numpy": "1.0", "scipy": "1.0", "scikit-learn": "1.0"}},
        {"reducer": {"version": "0"}},
    ],
)
def test_cells_of_other_libraries_or_of_none_that_are_known_do_not_count(
    storage: Storage, add: Add, numerics: dict[str, dict[str, str]]
) -> None:
    present = add()
    record = storage.get_cell(present)
    assert record is not None
    add(seed=2, numerics={**record.numerics, **numerics} if numerics else {})
    assert current_cells(storage, {"paper": PAPER})["cell_id"].tolist() == [present]
    assert count_outdated(storage.read_cells()) == 1


def test_cells_of_another_number_of_clusters_do_not_count(storage: Storage, tiny_task: Task, add: Add) -> None:
    before = add()
    card = tiny_task.card.model_copy(update={"clusters": 9})
    manifest = get_manifest(storage, "tiny")
    assert manifest is not None
    complete_task(storage, card)
    now = add(seed=2, clusters=9)
    assert current_cells(storage, {"paper": PAPER})["cell_id"].tolist() == [now]
    complete_task(storage, tiny_task.card)
    assert current_cells(storage, {"paper": PAPER})["cell_id"].tolist() == [before]


def test_going_back_to_an_earlier_setting_shows_its_number_again(storage: Storage, add: Add) -> None:
    present = add(created="2026-01-01")
    add(fingerprint="another prompt", created="2026-01-02")
    assert current_cells(storage, {"paper": PAPER})["cell_id"].tolist() == [present]


def test_after_a_failed_reading_the_last_data_counts_and_not_the_best(storage: Storage, add: Add) -> None:
    add(data_version="older", created="2026-01-01")
    last = add(created="2026-01-02")
    storage.set_task_state("tiny", "ingested")
    assert current_cells(storage, {"paper": PAPER})["cell_id"].tolist() == [last]


class Raw:
    """Return the source of the task `tiny`."""

    def __init__(self, version: str = "raw", absent: str | None = None) -> None:
        self.version, self.absent = version, absent

    def raw_version(self) -> str:
        return self.version

    def missing(self) -> str | None:
        return self.absent


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what lies below the task's data."""

    def put(**values: str) -> None:
        monkeypatch.setattr("traube._reports.provenance.get_source", lambda task: Raw(**values))

    put()
    return put


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"version": "other"}, "the raw data or its card, which has not been read again"),
        ({"absent": "tiny.csv is not there"}, "the raw data is gone: tiny.csv is not there"),
    ],
)
def test_explain_knows_of_raw_data_that_has_not_been_read_again(
    storage: Storage, add: Add, raw: Callable[..., None], there: dict[str, str], said: str
) -> None:
    add()
    raw(**there)
    (row,) = trace_provenance(storage, {"paper": PAPER}, "tiny", "bow")
    assert row["changed_since"] == [said]


@pytest.mark.usefixtures("raw")
def test_explain_says_what_has_changed_since(storage: Storage, add: Add) -> None:
    add()
    (row,) = trace_provenance(storage, {"paper": PAPER}, "tiny", "bow")
    assert row["changed_since"] == []
    assert row["seed"] == 1
    assert row["scores"] == {"coarse v_measure/noise_as_cluster": 0.5}
    changed = PAPER.model_copy(update={"parameters": {"kmeans": {"n_init": 20}}})
    (row,) = trace_provenance(storage, {"paper": changed}, "tiny", "bow")
    assert row["changed_since"] == ["the method's parameters in params.yaml"]


@pytest.mark.usefixtures("raw")
def test_explain_names_each_version_that_is_another_now(storage: Storage, add: Add) -> None:
    add(fingerprint="f0", data_version="d0", library_versions={"numpy": "1.0"})
    (row,) = trace_provenance(storage, {"paper": PAPER}, "tiny", "bow")
    data, model, numpy = row["changed_since"]
    assert data.startswith("data version d0 -> ")
    assert model.startswith("model fingerprint f0 -> ")
    assert numpy.startswith("numpy 1.0 -> ")
