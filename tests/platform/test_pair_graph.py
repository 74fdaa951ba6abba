"""Pair tasks in the graph: from raw data to stored scores, and checks that stop what is broken."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
from typer.testing import CliRunner

from assets.common import MODELS, data_keys, model_keys
from assets.report import task_reports
from assets.used import find_used
from definitions import build_defs
from operations.launch import DagsterLauncher
from resources.benchmark import BenchmarkResource, StorageResource
from resources.tables import read_scores
from resources.tracking import TrackingResource
from tests import giccs_like
from tests.made import damage_blob
from tests.platform.conftest import PARAMS, begin_with, evaluate_tick, schedule_of, sensor_of
from traube._cli.main import app
from traube._core import paths
from traube._core.files import write_parquet
from traube._core.hashing import digest
from traube._core.progress import SILENT
from traube._pipeline.current import count_outdated, list_outdated_cells
from traube._pipeline.kinds.pairs import make_pair_cells, read_pair_scores
from traube._pipeline.params import load_params
from traube._pipeline.request import Request
from traube._reports.pages import leaderboard_page
from traube._reports.tables import NAME, leaderboard
from traube._storage import CellRow, Score, open_storage
from traube.models import load_model
from traube.tasks import load_pairs
from traube.tasks.scored_pairs import ALL
from traube.tasks.stored import Manifest, read_task

Run = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def run(cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a job's stages of a pair task, on the hand-written sample or on a card."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))
    giccs_like.write(tmp_path)
    definitions = cache(lambda task: build_defs(find_used([task]), progress=SILENT))
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions(str(MODELS.name), ["tfidf", "jaccard"])

    def execute(task: str, model: str = "") -> dg.ExecuteInProcessResult:
        job = definitions(task).resolve_job_def("evaluate" if model else "datasets")
        return job.execute_in_process(
            instance=instance,
            asset_selection=model_keys([task], ()) if model else data_keys([task]),
            raise_on_error=False,
            **({"partition_key": model} if model else {}),
        )

    return execute


def failed(result: dg.ExecuteInProcessResult) -> set[str]:
    return {check.check_name for check in result.get_asset_check_evaluations() if not check.passed}


@pytest.mark.slow
def test_an_asset_of_others_gets_its_scores(run: Run) -> None:
    assert run("giccs").success and run("giccs", "tfidf").success
    storage = open_storage(paths.home())
    table = read_scores(storage, "giccs", ["tfidf"])
    assert len(table) == len(storage.read_scores(storage.read_cells("giccs"))) > 0
    assert {*table["model"]} == {"tfidf"} and {*table["method"]} >= {"cosine", "cosine/history"}
    assert read_scores(storage, "giccs", ["jaccard"]).empty


def test_from_raw_data_to_scores_once(run: Run) -> None:
    read = run("giccs")
    assert read.success and not failed(read)
    scored = run("giccs", "tfidf")
    assert scored.success
    made = scored.asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert made["scored_now"].value == 6  # three comparisons, with and without history
    assert -1 <= float(str(made["pearson"].value)) <= 1
    again = run("giccs", "tfidf").asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert again["scored_now"].value == 0 and again["pearson"].value == made["pearson"].value
    own = run("giccs", "jaccard").asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert own["scored_now"].value == 2

    storage = open_storage(paths.home())
    assert read_task(storage, "giccs").data_version == load_pairs("giccs").data_version
    cells = storage.read_cells("giccs")
    assert len(cells) == 8 and set(cells["status"]) == {"done"} and cells["run_id"].all()
    assert storage.read_scores(cells)["level"].iloc[0] == ALL
    for command in ["provenance", "giccs", "tfidf"], ["reproduce", cells["cell_id"][0]]:
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code == 1 and "`traube pairs -t giccs` scores it" in refused.stderr, refused.output


@pytest.mark.slow
def test_the_leaderboard_shows_each_models_best_comparison(run: Run) -> None:
    run("giccs")
    for model in ("tfidf", "jaccard"):
        run("giccs", model)
    storage = open_storage(paths.home())
    assert leaderboard(storage, tasks=["words"]).empty and leaderboard(storage, metric="supervised/nmi").empty
    table = leaderboard(storage)
    assert len(table) == 8 and set(table["metric"]) == {"spearman"} and table["rank_low"].isna().all()
    best = table[table["best"]].set_index("model")
    scored = json.loads(CliRunner().invoke(app, ["pairs", "-t", "giccs", "-m", "jaccard", "--json"]).stdout)
    first = max(scored, key=lambda row: row["spearman"])
    shown = best.loc["jaccard"]
    assert shown[["mean", "low", "high"]].tolist() == [first[f"spearman{end}"] for end in ("", "_low", "_high")]
    assert shown["method"] == ("own/history" if first["history"] else "own")
    assert best.loc["tfidf", "mean"] == table.loc[table["model"] == "tfidf", "mean"].max()
    printed = CliRunner().invoke(app, ["leaderboard", "-t", "giccs"]).stdout
    assert "giccs, all: spearman x100\n" in printed and f"{100 * shown['mean']:.2f}" in printed, printed
    assert "no test says which model comes first" in " ".join(printed.split())
    # no page of a task, and no run of clusterings in MLflow, is missed
    write_parquet(storage.get_table_path(NAME), table)
    resources = {"storage": StorageResource(), "benchmark": BenchmarkResource()}
    (made,) = dg.materialize([task_reports], resources=resources).get_asset_materialization_events()
    assert "nothing is scored yet" in str(made.materialization.metadata["pages"].value)
    assert TrackingResource().find_contradictions(table) == []
    page = leaderboard_page(table)
    (heading,) = re.findall(r"<h2>.*giccs.*?, all</h2>.*?<table", page, re.DOTALL)
    assert f"{100 * shown['mean']:.2f}</td>" in page and "protocol" not in heading

    assert (table["missing"] == 0).all()
    (cell, *_) = storage.read_rows(CellRow, model="jaccard")
    damage_blob(storage, cell.blob)
    assert len(storage.verify()) == 1
    table = leaderboard(storage)
    assert table[["model", "missing"]].value_counts().to_dict() == {("tfidf", 0): 6, ("jaccard", 1): 1}


@pytest.mark.slow
def test_a_damaged_cell_is_made_again(run: Run) -> None:
    run("giccs")
    run("giccs", "jaccard")
    storage = open_storage(paths.home())
    row = storage.read_rows(CellRow, task="giccs", model="jaccard")[0]
    damage_blob(storage, row.blob)
    assert len(storage.verify()) == 1 and storage.get_cell(row.cell_id) is None
    again = run("giccs", "jaccard").asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert again["scored_now"].value == 1
    assert storage.get_cell(row.cell_id) is not None


def test_bad_pairs_are_reported_and_nothing_is_scored(run: Run, cards: Path) -> None:
    (cards / "flat.csv").write_text("a,b,score\nred moon,red sun,0.5\nold bread,new car,0.5\nred sun,red moon,0.5\n")
    (cards / "flat.yaml").write_text("pairs: flat.csv\ntext_a: a\ntext_b: b\nscore: score\n")
    result = run("flat")
    assert not result.success
    assert failed(result) == {"scores_vary", "pairs_once"}
    stopped = run("flat", "tfidf")
    assert not stopped.success
    error = next(e for e in stopped.all_events if e.is_step_failure).step_failure_data
    assert "blocking check 'scores_vary' failed" in str(error.user_failure_data and error.user_failure_data.description)


def test_missing_raw_data_is_one_line(run: Run) -> None:
    result = run("stsb_de")
    data = next(e for e in result.all_events if e.is_step_failure).step_failure_data.user_failure_data
    assert data is not None and "get it from https://" in str(data.description)


# by themselves


@pytest.fixture
def launcher(cards: Path, templates: Path, request: pytest.FixtureRequest) -> Iterator[DagsterLauncher]:
    """With a pair task in params.yaml."""
    begin_with(request, templates)
    (cards / "mine.csv").write_text("a,b,score\nred moon,red sun,0.9\nold bread,new car,0.1\nold soup,old hat,0.4\n")
    (cards / "mine.yaml").write_text("pairs: mine.csv\ntext_a: a\ntext_b: b\nscore: score\n")
    paths.params().write_text(f"{PARAMS}pair_tasks: [mine, giccs]\n")
    with DagsterLauncher(SILENT) as started:
        yield started


def stages(request: dg.RunRequest) -> set[str]:
    return {key.to_user_string() for key in request.asset_selection or []}


@pytest.mark.slow
def test_the_night_and_new_checkpoints_evaluate_pair_tasks_that_are_there(
    launcher: DagsterLauncher, tiny_bert: Path, request_for: Callable[..., Request]
) -> None:
    definitions = build_defs(progress=SILENT)
    read = evaluate_tick(sensor_of(definitions, "raw_data"), dg.build_sensor_context(launcher.instance))
    assert stages(read) == {"words/corpus", "words/splits", "mine/corpus", "mine/pairs"}  # giccs is not here
    assert launcher.datasets(["words", "mine"]) == []
    look = sensor_of(definitions, "raw_data")
    reread = evaluate_tick(look, dg.build_sensor_context(launcher.instance))
    assert "no raw data is new or has changed" in reread.skip_message

    night = schedule_of(definitions, "nightly_benchmark")
    evening = datetime(2026, 1, 1, 2, tzinfo=UTC)
    (requested,) = evaluate_tick(night, dg.build_schedule_context(launcher.instance, evening))
    of_pairs = {"mine/embeddings", "mine/pair_scores"}
    assert of_pairs < stages(requested) and "words/scores" in stages(requested)
    assert launcher.evaluate("bow", ["words", "mine"], request_for(["words"], ["bow"])) == []
    again = evaluate_tick(night, dg.build_schedule_context(launcher.instance, evening))
    assert "nothing is missing" in again.skip_message  # and MLflow knows it

    shutil.copytree(tiny_bert, paths.checkpoints() / "new")
    sensor, cursor = sensor_of(definitions, "new_checkpoints"), None
    for _ in range(2):
        ticked = evaluate_tick(sensor, dg.build_sensor_context(launcher.instance, cursor, definitions=definitions))
        cursor = ticked.cursor
    assert of_pairs < stages(ticked.run_requests[0])


def test_mlflow_holds_one_run_a_pair_task_and_model(
    launcher: DagsterLauncher, request_for: Callable[..., Request]
) -> None:
    requested = replace(request_for(["words"], ["bow"]), tasks=["mine"])
    launcher.datasets(["mine"])
    assert launcher.evaluate("bow", ["mine"], requested) == launcher.evaluate("bow", ["mine"], requested) == []
    experiment = TrackingResource().connect()
    client = experiment.client
    (run,) = client.search_runs([experiment.id])
    assert run.info.run_name == "mine x bow" and run.data.tags["traube.data_version"]
    cells = make_pair_cells(Manifest.of(load_pairs("mine")), load_model("bow"), ["cosine"])
    found = read_pair_scores(open_storage(paths.home()), [cell.cell_id for cell in cells])
    assert run.data.metrics["spearman/cosine"] == found["spearman"].item()


@pytest.mark.slow
def test_run_evaluates_the_pair_tasks_of_params_and_lists_what_no_longer_counts(
    launcher: DagsterLauncher, cards: Path, request_for: Callable[..., Request]
) -> None:
    first = CliRunner().invoke(app, ["run", "-t", "mine"])
    assert "Evaluating bow: 3 cells on mine" in first.output and "words" not in first.output, first.output
    absent = CliRunner().invoke(app, ["run", "-t", "giccs"])
    assert absent.exit_code == 1 and "giccs is unavailable" in absent.stderr
    first = CliRunner().invoke(app, ["run"])
    assert "Evaluating bow: 6 cells on words" in first.output and "giccs" in first.stderr, first.output
    assert "Nothing is missing" in CliRunner().invoke(app, ["run"]).output
    kept = set(open_storage(paths.home()).read_cells("mine")["cell_id"])
    (cards / "mine.csv").write_text("a,b,score\nred moon,red sun,0.9\nold bread,new car,0.1\nred soup,old hat,0.3\n")
    launcher.datasets(["mine"])
    launcher.evaluate("bow", ["mine"], request_for(["words"], ["bow"]))
    assert list_outdated_cells(open_storage(paths.home()), load_params().protocols) == kept


@pytest.mark.slow
def test_pairs_that_were_compared_without_being_stored_count(launcher: DagsterLauncher, tiny_bert: Path) -> None:
    """Once, only those of ingested tasks did, by models that are here, in the precision of their card."""
    folder = shutil.copytree(tiny_bert, paths.checkpoints() / "mini")
    paths.params().write_text(paths.params().read_text().replace("clusterers:", "precision: bf16\n    clusterers:"))
    compared = CliRunner().invoke(app, ["pairs", "-t", "mine", "-m", "bow", "-m", "mini"])
    assert compared.exit_code == 0, compared.output
    storage, protocols = open_storage(paths.home()), load_params().protocols
    assert len(storage.read_cells("mine")) == 2 and list_outdated_cells(storage, protocols) == set()
    run = CliRunner().invoke(app, ["run", "-t", "mine", "-m", "mini"])
    assert set(storage.read_cells("mine")["precision"]) == {"", "fp32", "bf16"}, run.output
    assert list_outdated_cells(storage, protocols) == set()
    shutil.rmtree(folder)
    assert list_outdated_cells(storage, protocols) == set()


def test_the_leaderboard_shows_pairs_of_the_weights_that_were_compared_last(launcher: DagsterLauncher) -> None:
    """A task that was compared and never read has no manifest, which would tell the present weights of a model."""
    CliRunner().invoke(app, ["pairs", "-t", "mine", "-m", "bow"])
    storage = open_storage(paths.home())
    (row,) = storage.read_rows(CellRow, model="bow")

    def save(rho: float, **about: Any) -> None:
        scores = [Score("all", "spearman", np.array([rho]))]
        storage.save_cell(replace(row, cell_id=digest([rho, about]), created="", **about), scores=scores)

    save(-1.0, fingerprint="later")
    save(np.nan, model="alike")
    table = leaderboard(storage).set_index("model")
    assert table.loc["bow", ["fingerprint", "mean", "missing", "best"]].tolist() == ["later", -1.0, 2, True]
    assert np.isnan(table.loc["alike", "mean"]) and not table.loc["alike", "best"]
    shown = CliRunner().invoke(app, ["leaderboard", "-t", "mine", "--all"]).stdout
    assert "alike" in shown and "nan" not in shown, shown
    save(1.0, model="alike", numerics={"comparison": {"numpy": "0.1"}})
    assert count_outdated(storage.read_cells()) == 0 and len(leaderboard(storage)) == 2
    save(1.0, model="older", numerics={"comparison": {"numpy": "0.1"}})
    assert count_outdated(storage.read_cells()) == 1 and len(leaderboard(storage)) == 2


@pytest.mark.slow
def test_what_only_texts_with_labels_have_is_refused_of_pairs_in_a_line(launcher: DagsterLauncher) -> None:
    assert launcher.datasets(["mine"]) == []
    for command in (["recommend", "mine"], ["compare", "bow", "tfidf", "-t", "mine"], ["report", "mine"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 1 and "`traube pairs -t mine` scores it" in result.stderr, result.output
