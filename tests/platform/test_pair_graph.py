"""Pair tasks in the graph: from raw data to stored scores, and checks that stop what is broken."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from assets.common import MODELS, data_keys, model_keys
from definitions import build_defs
from operations.launch import Launcher
from resources.tracking import TrackingResource
from tests import giccs_like
from tests.platform.conftest import PARAMS, schedule_of, sensor_of
from traube.benchmark.params import load_params
from traube.benchmark.plan import Request
from traube.cli.main import app
from traube.engine.pair_cells import pair_cells
from traube.engine.pair_scores import ALL
from traube.engine.progress import SILENT
from traube.foundation import paths
from traube.models import load_model
from traube.report.unused import unused
from traube.store import Store
from traube.store.pairs import PairStore
from traube.tasks import load_pairs

Run = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def run(cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a job's stages of a pair task, on the hand-written sample or on a card."""
    monkeypatch.setenv("TRAUBE_RAW", str(tmp_path))
    giccs_like.write(tmp_path)
    definitions = cache(lambda: build_defs(progress=SILENT))
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions(str(MODELS.name), ["tfidf", "jaccard"])

    def execute(task: str, model: str = "") -> dg.ExecuteInProcessResult:
        job = definitions().resolve_job_def("evaluate" if model else "datasets")
        return job.execute_in_process(
            instance=instance,
            asset_selection=model_keys([task], ()) if model else data_keys([task]),
            raise_on_error=False,
            **({"partition_key": model} if model else {}),
        )

    return execute


def failed(result: dg.ExecuteInProcessResult) -> set[str]:
    return {check.check_name for check in result.get_asset_check_evaluations() if not check.passed}


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

    store = PairStore.of(Store(paths.home() / "store"))
    task = store.task("giccs")
    assert task is not None and task.data_version == load_pairs("giccs").data_version
    records = list((store.folder / "results" / "giccs").glob("*.json"))
    assert len(records) == 8
    record = store.cell("giccs", records[0].stem)
    assert record is not None and record["run_id"] and record["scores"][0]["group"] == ALL
    assert len(store.alike("giccs", records[0].stem)) == 40  # kept, so that a metric can be added


def test_a_damaged_cell_is_made_again(run: Run) -> None:
    run("giccs")
    run("giccs", "jaccard")
    store = PairStore.of(Store(paths.home() / "store"))
    broken = next((store.folder / "results" / "giccs").glob("*.parquet"))
    content = bytearray(broken.read_bytes())
    content[len(content) // 2] ^= 0xFF
    broken.write_bytes(content)
    assert store.cell("giccs", broken.stem) is None
    again = run("giccs", "jaccard").asset_materializations_for_node("giccs__pair_scores")[0].metadata
    assert again["scored_now"].value == 1
    assert store.cell("giccs", broken.stem) is not None


def test_bad_pairs_are_told_and_nothing_is_scored(run: Run, cards: Path) -> None:
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
def launcher(cards: Path) -> Iterator[Launcher]:
    """With a pair task in params.yaml."""
    (cards / "mine.csv").write_text("a,b,score\nred moon,red sun,0.9\nold bread,new car,0.1\nold soup,old hat,0.4\n")
    (cards / "mine.yaml").write_text("pairs: mine.csv\ntext_a: a\ntext_b: b\nscore: score\n")
    paths.params().write_text(f"{PARAMS}pair_tasks: [mine, giccs]\n")
    with Launcher(SILENT) as started:
        yield started


def stages(request: dg.RunRequest) -> set[str]:
    return {key.to_user_string() for key in request.asset_selection or []}


def test_the_night_and_new_checkpoints_evaluate_pair_tasks_that_are_there(
    launcher: Launcher, tiny_bert: Path, request_for: Callable[..., Request]
) -> None:
    definitions = build_defs(progress=SILENT)
    read = sensor_of(definitions, "raw_data")(dg.build_sensor_context(launcher.instance))
    assert stages(read) == {"words/corpus", "words/splits", "mine/corpus", "mine/pairs"}  # giccs is not here
    assert launcher.datasets(["words", "mine"]) == []
    look = sensor_of(definitions, "raw_data")
    assert "as its raw data is" in look(dg.build_sensor_context(launcher.instance)).skip_message

    night = schedule_of(definitions, "nightly_benchmark")
    context = dg.build_schedule_context(launcher.instance, datetime(2026, 1, 1, 2, tzinfo=UTC))
    (asked,) = night(context)
    of_pairs = {"mine/embeddings", "mine/pair_scores"}
    assert of_pairs < stages(asked) and "words/scores" in stages(asked)
    assert launcher.evaluate("bow", ["words", "mine"], request_for(["words"], ["bow"])) == []
    assert "nothing is missing" in night(context).skip_message  # and MLflow knows it

    shutil.copytree(tiny_bert, paths.checkpoints() / "new")
    sensor, cursor = sensor_of(definitions, "new_checkpoints"), None
    for _ in range(2):
        ticked = sensor(dg.build_sensor_context(launcher.instance, cursor, definitions=definitions))
        cursor = ticked.cursor
    assert of_pairs < stages(ticked.run_requests[0])


def test_mlflow_holds_one_run_a_pair_task_and_model(launcher: Launcher, request_for: Callable[..., Request]) -> None:
    asked = replace(request_for(["words"], ["bow"]), pair_tasks=("mine",))
    launcher.datasets(["mine"])
    assert launcher.evaluate("bow", ["mine"], asked) == launcher.evaluate("bow", ["mine"], asked) == []
    client, experiment = TrackingResource().client()
    (run,) = client.search_runs([experiment])
    assert run.info.run_name == "mine x bow" and run.data.tags["traube.data_version"]
    store = PairStore.of(Store(paths.home() / "store"))
    found = store.scores(pair_cells(load_pairs("mine"), load_model("bow"), ["cosine"]))
    assert run.data.metrics["spearman/cosine"] == found["spearman"].item()


def test_run_evaluates_the_pair_tasks_of_params_and_clean_removes_what_no_longer_counts(
    launcher: Launcher, cards: Path, request_for: Callable[..., Request]
) -> None:
    first = CliRunner().invoke(app, ["run", "-t", "mine"])
    assert "Evaluating bow on the pairs of mine" in first.output and "words" not in first.output, first.output
    absent = CliRunner().invoke(app, ["run", "-t", "giccs"])
    assert absent.exit_code == 1 and "giccs is unavailable" in absent.stderr
    first = CliRunner().invoke(app, ["run"])
    assert "Evaluating bow: 6 cells on words" in first.output and "giccs" in first.stderr, first.output
    assert "Nothing is missing" in CliRunner().invoke(app, ["run"]).output
    results = PairStore.of(Store(paths.home() / "store")).folder / "results" / "mine"
    kept = {path.name for path in results.iterdir()}
    (cards / "mine.csv").write_text("a,b,score\nred moon,red sun,0.9\nold bread,new car,0.1\nred soup,old hat,0.3\n")
    launcher.datasets(["mine"])
    launcher.evaluate("bow", ["mine"], request_for(["words"], ["bow"]))
    (results / "half.parquet").write_bytes(b"its record was never written")
    then = time.time() - 24 * 3600
    for path in results.iterdir():
        os.utime(path, (then, then))

    def listed(outdated: bool) -> set[str]:
        found = unused(paths.home(), load_params(), outdated)
        return {entry.path.name for entry in found if entry.path.parent == results}

    assert listed(outdated=False) == {"half.parquet"}
    assert listed(outdated=True) == {"half.parquet", *kept}
