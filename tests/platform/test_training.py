"""Trainings and studies as runs: on a task of the user's own, tracked in MLflow, and found by the checkpoint sensor."""

import csv
import re
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from definitions import build_defs
from operations.launch import DagsterLauncher
from resources.tracking import TrackingResource
from tests.platform.conftest import begin_with, evaluate_tick, sensor_of, word_rows
from traube._cli.main import app
from traube._core import paths
from traube._core.progress import SILENT
from traube._pipeline.params import load_params
from traube._pipeline.request import Request
from traube._pipeline.stages import VectorCheck
from traube._storage import CheckRow, open_storage
from traube.models.checkpoints import cards as checkpoint_cards
from traube.training import TRAINERS
from traube.training.study import locate_study

RECIPE = {"layers": "1", "max_length": "16", "epochs": "4", "learning_rate": "1e-3", "evaluate_every": "40"}


@pytest.fixture
def parted(cards: Path, tiny_bert: Path, templates: Path, request: pytest.FixtureRequest) -> DagsterLauncher:
    """The words with a part each, and a tiny encoder."""
    parts = ("train", "test", "validation")
    with (cards / "parted.csv").open("w", newline="") as file:
        rows = [(text, topic, parts[i % 3]) for i, (text, topic) in enumerate(word_rows())]
        csv.writer(file).writerows([("text", "topic", "part"), *rows])
    (cards / "parted.yaml").write_text("file: parted.csv\ntext: text\nlabels: topic\npart: part\n")
    (cards / "tiny.yaml").write_text(f"model: {tiny_bert}\n")
    begin_with(request, templates)
    with DagsterLauncher(SILENT) as launcher:
        assert launcher.datasets(["parted"]) == []
        yield launcher


def runs(name: str) -> list[object]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{paths.home() / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return [run for run in client.search_runs(experiments) if run.info.run_name == name]


@pytest.mark.begin_with("read")
def test_a_training_is_a_checkpoint_that_the_sensor_finds(
    parted: DagsterLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    assert parted.train("cob", "parted", "tiny", RECIPE, unlabeled=False) == []
    name = TRAINERS["cob"].with_values(**RECIPE).name_checkpoints("parted", "tiny")
    names = {f"{name}-last", f"{name}-best"}
    assert set(checkpoint_cards()) == names
    (run,) = runs(name)
    assert {"validation_ari", "loss", "shortcut", "seconds"} <= set(run.data.metrics)
    assert {"system/cpu_utilization_percentage", "system/system_memory_usage_megabytes"} <= set(run.data.metrics)
    assert run.info.status == "FINISHED"
    client = TrackingResource().connect().client
    assert len({point.step for point in client.get_metric_history(run.info.run_id, "validation_ari")}) > 1  # a curve
    about = {"trainer": "cob", "task": "parted", "model": "tiny", "epochs": "4.0", "layers": "1"}
    assert about.items() <= run.data.params.items()
    definitions = build_defs()
    look = sensor_of(definitions, "new_checkpoints")
    first = evaluate_tick(look, dg.build_sensor_context(parted.instance, definitions=definitions))
    second = evaluate_tick(look, dg.build_sensor_context(parted.instance, first.cursor, definitions=definitions))
    assert {request.partition_key for request in second.run_requests or []} == names


def test_a_training_goes_on_without_mlflow_and_is_tracked_when_it_is_back(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = TrackingResource()
    with monkeypatch.context() as down:
        down.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        down.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with tracking.watch_training("run", "cob", "parted") as run_id:
            assert run_id == ""
    tracking.log_curve(run_id, "late", [{"step": 1, "loss": 0.5}], {"trainer": "cob"})
    (run,) = runs("late")
    assert (run.data.metrics, run.data.params) == ({"loss": 0.5}, {"trainer": "cob"})
    with pytest.raises(RuntimeError), tracking.watch_training("run", "cob", "parted"):
        raise RuntimeError
    (failed,) = runs("cob on parted")
    assert failed.info.status == "FAILED"


@pytest.mark.slow
def test_the_command_line_says_what_a_training_gained_and_left(parted: DagsterLauncher) -> None:
    values = [option for name, value in RECIPE.items() for option in ("--set", f"{name}={value}")]
    train = ["train", "triplet", "parted", "-m", "tiny", *values]
    result = CliRunner().invoke(app, [*train, "--seed", "1", "--seed", "2"])  # a training for each
    assert result.exit_code == 0, result.output
    assert len(re.findall(r"validation_ari: \S+ before, \S+ after the last step, \S+ at best", result.output)) == 2
    for seed in (1, 2):
        name = TRAINERS["triplet"].with_values(**{**RECIPE, "seed": seed}).name_checkpoints("parted", "tiny")
        assert str(paths.checkpoints() / f"{name}-last") in result.output
    assert CliRunner().invoke(app, [*train, "--seed", "1", "--set", "seed=2"]).exit_code == 1  # which of the two?


@pytest.mark.slow
def test_a_study_is_kept_and_tracked_in_mlflow(parted: DagsterLauncher) -> None:
    assert parted.tune("cob", "parted", "tiny", 2, RECIPE) == []
    assert parted.tune("cob", "parted", "tiny", 3, RECIPE) == []
    path = locate_study(paths.home() / "studies", "cob", "parted", "tiny", RECIPE)
    runs_of_study = runs(path.stem)
    artifacts = {Path(run.info.artifact_uri.removeprefix("file://")) for run in runs_of_study}
    for folder in artifacts:
        assert {p.name for p in folder.iterdir()} == {"history.html", "importances.html", "trials.csv"}
    assert "lam" in runs_of_study[0].data.params
    assert path.is_file()


def test_a_trainer_that_cannot_learn_from_a_task_says_why(parted: DagsterLauncher) -> None:
    graph = parted.definitions.resolve_asset_graph()
    after = graph.get(dg.AssetKey(["trainers", "cob_checkpoints"])).parent_keys
    assert dg.AssetKey(["parted", "splits"]) in after and dg.AssetKey(["words", "splits"]) not in after
    for started in (parted.train, lambda *requested: parted.tune(*requested[:3], 1, {})):
        (error,) = started("cob", "words", "tiny", RECIPE, False)
        assert "words has no labeled splits for training and for validation, which cob learns from" in error


@pytest.mark.slow
def test_models_trained_on_other_parts_are_not_marked(parted: DagsterLauncher) -> None:
    from traube.models.checkpoints import trained_on

    parted.train("cob", "parted", "tiny", RECIPE, unlabeled=False)
    parted.train("wwm", "parted", "tiny", {"epochs": "1", "batch": "8"}, unlabeled=False)
    reported = {name.split("__")[0]: trained_on(name) for name in checkpoint_cards()}
    assert reported == {"cob": None, "wwm": "parted"}


DEEP = """
protocol: tiny
tasks: [words]
models: [tiny]
protocols:
  tiny:
    reducers: [none]
    clusterers: [kmeans]
  trained:
    reducers: [none]
    clusterers: [kmeans, aecl]
    parameters: {aecl: {epochs: 2, stage_1: 1, frozen: true, augmentation: order}}
    seeds: [1]
sweeps:
  weights:
    protocol: trained
    clusterer: aecl
    values: {label_weight: [0.0, 5.0]}
"""


@pytest.fixture
def deep_params(cards: Path, tmp_path: Path) -> Path:
    """A params.yaml with a protocol that trains, and a sweep."""
    (tmp_path / "params.yaml").write_text(DEEP)
    return tmp_path / "params.yaml"


@pytest.mark.slow
@pytest.mark.begin_with("read")
def test_methods_that_train_have_a_stage_of_their_own_and_sweeps_compute_what_is_missing(
    deep_params: Path, parted: DagsterLauncher
) -> None:
    params, storage = load_params(), open_storage(paths.home())
    stage = dg.AssetKey(["words", "deep_clusterings"])
    requests = {n: Request(["words"], ["tiny"], n, params.chosen(n)) for n in ("tiny", "trained")}
    assert parted.evaluate("tiny", ["words"], requests["tiny"]) == []
    assert parted.instance.get_latest_materialization_event(stage) is None  # no method of it trains
    assert parted.evaluate("tiny", ["words"], requests["trained"]) == []
    event = parted.instance.get_latest_materialization_event(stage)
    assert event is not None and event.asset_materialization is not None
    reported = event.asset_materialization.metadata
    assert reported["clustered_now"].value == 1
    assert {"method", "loss", "acc"} <= {word.strip() for word in str(reported["last_epochs"].value).split("|")}
    assert set(storage.read_cells("words").query("protocol == 'trained'")["clusterer"]) == {"kmeans", "aecl"}

    for _ in range(2):
        assert parted.sweep("weights", ["words"], "tiny", []) == []
    points = storage.read_cells("words").query("protocol.str.startswith('weights')", engine="python")
    assert sorted(points["protocol"]) == ["weights", "weights.label_weight=0.0"]
    assert points["run_id"].nunique() == 1  # the second time nothing was missing
    deep_params.write_text(DEEP.replace("label_weight: [0.0, 5.0]", "augmentation: [published]"))
    (error,) = parted.sweep("weights", ["words"], "tiny", [])
    assert "weights.augmentation=published: " in error
    # as everywhere, what a check has stopped is not computed
    with pytest.MonkeyPatch.context() as patch:
        failed = [VectorCheck("finite", False, {})]
        patch.setattr("traube._pipeline.kinds.clustering.check_vectors", lambda *_: failed)
        (error,) = parted.sweep("weights", ["words"], "tiny", [7])
    assert "'finite'" in error and 7 not in set(storage.read_cells("words")["seed"])
    (version,) = {row.data_version for row in storage.read_rows(CheckRow, task="words", name="splits/items_valid")}
    storage.save(CheckRow(task="words", data_version=version, name="splits/items_valid", passed=False))
    (error,) = parted.sweep("weights", ["words"], "tiny", [7])
    assert "'items_valid'" in error and 7 not in set(storage.read_cells("words")["seed"])
    misspelled = CliRunner().invoke(app, ["sweep", "weight", "-t", "words", "-m", "tiny"])
    assert misspelled.exit_code == 1 and "unknown sweep 'weight': did you mean weights?" in misspelled.output
