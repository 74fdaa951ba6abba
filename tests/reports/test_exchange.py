"""MTEB's result files: what is written is read again, and real ones are read."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa

from tests.errors import refused
from tests.made import damage_blob, store_task
from traube._core.errors import Corrupt, Malformed, Missing
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.record import Recorder
from traube._reports.exchange import Imported, export_mteb, import_mteb, imported_results
from traube._reports.mteb_results import Reason
from traube._storage import Storage, write_table
from traube._storage.catalog import CELL, _encode
from traube.models import load_model
from traube.tasks.task import Task

OWN = Protocol(reducers=("none",), clusterers=("minibatch_kmeans",), seeds=(1, 2))
METHOD = "none/minibatch_kmeans"
REAL = Path(os.environ.get("TRAUBE_RAW", "")) / "tecb_de" / "mteb_results_clustering_de_20ng.jsonl.gz"


@pytest.fixture
def scored(storage: Storage, tiny_task: Task) -> Storage:
    """A storage in which the tiny task is scored with bag of words."""
    store_task(storage, tiny_task)
    requested = cells(tiny_task, load_model("bow"), OWN)
    scores, assignments = evaluate_cells(tiny_task, load_model("bow"), requested)
    for cell in requested:
        Recorder(storage).save_clusters(cell, assignments[assignments["cell_id"] == cell.cell_id], 0.5)
        Recorder(storage).save_scores(cell, scores[scores["cell_id"] == cell.cell_id])
    return storage


def test_what_is_exported_has_mtebs_form_and_is_read_again(scored: Storage, tmp_path: Path) -> None:
    ((file, method),) = export_mteb(scored, {"own": OWN}, tmp_path / "results").items()
    assert method == METHOD
    assert file.relative_to(tmp_path / "results").parts[0] == "traube__bow"
    assert file.name == "tiny.json"
    result = json.loads(file.read_text())
    (entry,) = result["scores"]["test"]
    assert {"main_score", "hf_subset", "languages", "v_measure", "v_measure_std", "v_measures", "ami"} <= set(entry)
    assert entry["main_score"] == entry["v_measure"]
    assert result["evaluation_time"] == 1.0

    rows, skipped = import_mteb(scored, tmp_path / "results")
    measured = scored.read_scores(scored.read_cells(), ["v_measure/noise_as_cluster"])["value"].mean()
    assert rows["mean"].tolist() == [pytest.approx(measured)]
    assert rows["model"].tolist() == ["traube/bow"] and not skipped
    # to the last digit, and in the order of the splits
    (row,) = rows.to_dict("records")
    levels = entry["v_measures"].values()
    assert (row["mean"], row["sd"]) == (entry["v_measure"], entry["v_measure_std"])
    assert row["splits"] == [value for level in levels for value in level]
    with refused(Missing, "traube run --method pca/kmeans"):
        export_mteb(scored, {"own": OWN}, tmp_path, "PCA/kmeans")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "fingerprint"), [("bow", "0a"), ("../../evil", "0a"), ("/etc", ".."), ("a/../b", "../f")]
)
def test_a_models_folder_lies_in_the_results(scored: Storage, tmp_path: Path, model: str, fingerprint: str) -> None:
    """Whatever the model is called, by whoever can write to the database."""
    with scored.catalog._engine.connect() as connection, connection.begin():
        for row in scored.catalog.read_rows(CELL):
            changed = _encode(CELL, {**row, "model": model, "fingerprint": fingerprint})
            connection.execute(sa.update(CELL).where(CELL.c.cell_id == row["cell_id"]).values(**changed))
    (file,) = export_mteb(scored, {"own": OWN}, tmp_path / "in" / "results")
    assert file.is_file()
    assert len(file.relative_to(tmp_path / "in" / "results").parts) == 3
    assert ".." not in file.parts


def test_published_rows_are_replaced_by_source_and_never_among_the_measured(storage: Storage, tmp_path: Path) -> None:
    row = {"task": "X", "model": "a/b", "model_revision": "r", "dataset_revision": "d", "mteb_version": None}
    for name, score in (("one.jsonl", 0.4), ("two.jsonl", 0.5), ("one.jsonl", 0.6)):
        (tmp_path / name).write_text(json.dumps({**row, "v_measure": score, "v_measures": [score, score]}) + "\n")
        import_mteb(storage, tmp_path / name)
    kept = imported_results(storage)
    assert dict(zip(kept["source"].map(lambda p: Path(p).name), kept["mean"], strict=True)) == {
        "one.jsonl": 0.6,
        "two.jsonl": 0.5,
    }
    assert "a/b" not in set(storage.read_cells()["model"])


@pytest.mark.skipif(not REAL.is_file(), reason="needs tecb_de/ in TRAUBE_RAW: real results of MTEB's leaderboard")
def test_a_thousand_real_results_are_read(storage: Storage) -> None:
    rows, skipped = import_mteb(storage, REAL)
    assert not skipped
    assert len(rows) == 1159
    assert rows["mean"].between(0, 1).all()
    per_split = rows[rows["splits"].str.len() > 0]
    assert len(per_split) == 1025
    of_splits = per_split["splits"].map(lambda v: sum(v) / len(v))
    # four of the published results are not the mean of their own splits; all others are, to the last digit that is given
    apart = per_split[(of_splits - per_split["mean"]).abs() >= 1e-6]
    assert len(apart) == 4
    assert apart["task"].str.startswith("TwentyNewsgroups").all()


def test_a_line_that_is_no_result_is_named_and_the_others_are_read(storage: Storage, tmp_path: Path) -> None:
    """`tests/inputs` holds what else is no result."""
    sound = {"task": "X", "model": "a/b", "model_revision": "r", "dataset_revision": "d", "mteb_version": "1"}
    lines = [json.dumps({**sound, "v_measure": value}) for value in (0.5, -1)]
    (tmp_path / "x.jsonl").write_text("\n".join([lines[0], '{"task": "x"}', *lines, "{"]))
    rows, skipped = import_mteb(storage, tmp_path / "x.jsonl")
    assert rows["mean"].tolist() == [0.5]
    places = [(one.where.rpartition(" ")[2], one.reason) for one in skipped]
    assert places == [("2", Reason.OTHER_FILE), ("5", Reason.FAULT), ("3", Reason.REPEATED), ("4", Reason.FAULT)]
    (tmp_path / "none.jsonl").write_text(lines[1])
    with refused(Malformed, "none.jsonl", "line 1"):
        import_mteb(storage, tmp_path / "none.jsonl")
    assert len(imported_results(storage)) == 1


def test_a_damaged_table_of_imports_is_said_with_the_remedy(storage: Storage, tmp_path: Path) -> None:
    row = {"task": "[/b]x", "model": "a/b", "model_revision": None, "dataset_revision": "d", "mteb_version": None}
    (tmp_path / "x.jsonl").write_text(json.dumps({**row, "v_measure": 1, "v_measures": [1.0, 0]}) + "\n\n")
    assert import_mteb(storage, tmp_path / "x.jsonl")[0]["splits"].tolist() == [[1.0, 0.0]]
    (imported,) = storage.read_documents(Imported)
    damage_blob(storage, imported.files["results"])
    with refused(Corrupt, "traube run"):
        imported_results(storage)
    table = write_table(pd.DataFrame({"task": ["x"], "model": ["a/b"], "mean": [0.5]}))  # as earlier versions had fewer
    storage.save_document(Imported(key=imported.key), {"results": table})
    with refused(Corrupt, imported.key, "import them again"):
        imported_results(storage)
