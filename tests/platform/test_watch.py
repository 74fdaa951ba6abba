"""Watched models become checkpoints; nothing is watched by default, and the hub is left alone when offline."""

import shutil
from pathlib import Path

import dagster as dg
import pytest

from definitions import build_defs
from resources.experiment import connect, default_uri
from tests.errors import refused
from tests.platform.conftest import PARAMS, evaluate_tick, sensor_of
from traube._core import paths
from traube._core.cards import list_names, list_watched
from traube._core.errors import Malformed, Unsafe
from traube.models import checkpoints, load_model


def tick() -> str | dg.RunRequest:
    """Return the runs that the sensor requests, or why it requests none."""
    result = evaluate_tick(sensor_of(build_defs(), "watched_models"), dg.build_sensor_context())
    return str(result.skip_message) if isinstance(result, dg.SkipReason) else result.run_requests[0]


def fetch(request: str | dg.RunRequest) -> dg.ExecuteInProcessResult:
    assert isinstance(request, dg.RunRequest)
    job = build_defs().resolve_job_def("fetch")
    return job.execute_in_process(run_config=request.run_config, raise_on_error=False)


def test_nothing_is_watched_by_default(cards: Path) -> None:
    assert tick() == "nothing is watched"


def test_the_hub_is_left_alone_when_offline(cards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths.params().write_text(PARAMS + "watch: {hub: [org/model]}\n")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert tick() == "nothing is watched"


def test_a_new_version_of_a_registered_model_becomes_a_checkpoint(cards: Path, tiny_bert: Path) -> None:
    import mlflow

    paths.params().write_text(PARAMS + "watch: {mlflow: [my-encoder]}\n")
    experiment = connect(default_uri())
    client = experiment.client
    run = client.create_run(experiment.id)
    mlflow.set_tracking_uri(default_uri())
    client.log_artifacts(run.info.run_id, str(tiny_bert), "model")
    client.create_registered_model("my-encoder")
    assert tick() == "nothing new"
    client.create_model_version("my-encoder", f"{run.info.artifact_uri}/model", run.info.run_id)
    assert fetch(tick()).success
    assert list(checkpoints.cards()) == ["my-encoder-v1"]
    assert load_model("my-encoder-v1").encode(["the cat"]).shape == (1, 32)
    assert tick() == "nothing new"


def test_a_model_that_cannot_be_had_is_reported_and_requested_again(
    cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dg.RetryPolicy, "calculate_delay", lambda *_: 0)
    paths.params().write_text(PARAMS + "watch: {mlflow: [empty]}\n")
    experiment = connect(default_uri())
    client = experiment.client
    run = client.create_run(experiment.id)
    (tmp_path / "readme.txt").write_text("no model")
    client.log_artifact(run.info.run_id, str(tmp_path / "readme.txt"), "model")
    client.create_registered_model("empty")
    client.create_model_version("empty", f"{run.info.artifact_uri}/model", run.info.run_id)
    failed = fetch(tick())
    error = failed.get_step_failure_events()[0].step_failure_data.error
    assert error is not None and error.cause is not None
    assert "config.json" in error.cause.message
    assert checkpoints.folders() == []
    assert isinstance(tick(), dg.RunRequest)


def test_a_model_in_a_watched_folder_becomes_a_checkpoint_and_so_do_its_new_contents(
    cards: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    team = tmp_path / "team"
    paths.params().write_text(PARAMS + f"watch: {{folders: ['{team}']}}\n")
    sensor = sensor_of(build_defs(), "watched_models")
    cursor: str | None = None

    def look() -> str | dg.RunRequest:
        nonlocal cursor
        with dg.build_sensor_context(cursor=cursor) as context:
            result = sensor(context)
            cursor = context.cursor
        return str(result.skip_message) if isinstance(result, dg.SkipReason) else result.run_requests[0]

    assert str(team) in str(look())  # the folder is not there yet
    shutil.copytree(tiny_bert, team / "Run 7")
    (team / "half").mkdir()  # no configuration yet
    assert "waiting until it is quiet" in str(look())
    assert fetch(look()).success
    (first,) = checkpoints.cards()
    assert first.startswith("run-7-") and load_model(first).encode(["the cat"]).shape == (1, 32)
    assert look() == "nothing new"
    (team / "Run 7" / "README.md").write_text("trained for longer")
    look()
    assert fetch(look()).success
    assert len(checkpoints.cards()) == 2


def test_a_component_names_a_watched_folder(cards: Path, tiny_bert: Path, tmp_path: Path) -> None:
    component = paths.cards() / "team" / "defs.yaml"
    component.parent.mkdir()
    component.write_text("type: operations.components.TraubeFolder\nattributes:\n  path: models\n")
    assert list_watched() == [component.parent / "models"]
    assert "team" not in list_names()  # it is no card of a task or a model
    (component.parent / "models").mkdir()
    assert tick() == "nothing new"
    component.write_text("type: operations.components.TraubeFolder\nattributes: {}\n")
    with refused(Malformed, component, "path"):
        list_watched()


def test_a_link_in_a_watched_folder_that_leads_out_is_no_way_in(cards: Path, tiny_bert: Path, tmp_path: Path) -> None:
    paths.params().write_text(PARAMS + f"watch: {{folders: ['{tmp_path / 'team'}']}}\n")
    shutil.copytree(tiny_bert, tmp_path / "team" / "run")
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "team" / "run" / "notes.txt").symlink_to(tmp_path / "secret")
    folder = tmp_path / "team" / "run"
    wanted = {"source": "folder", "name": str(folder), "version": checkpoints.state(folder)}
    assert build_defs().resolve_job_def("fetch").execute_in_process({"ops": {"download": {"config": wanted}}}).success
    (copied,) = checkpoints.folders()
    with refused(Unsafe, copied.name):
        checkpoints.check(copied)
