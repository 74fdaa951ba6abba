"""New checkpoints: each content is evaluated once, when it is whole; a bad folder is reported and stops no other."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import dagster as dg
import pandas as pd
import pytest
import torch
from mlflow.entities import ViewType
from safetensors.torch import load_file, save_file
from transformers import BertTokenizerFast
from typer.testing import CliRunner

from assets.common import MODELS
from definitions import build_defs
from operations.launch import DagsterLauncher, align
from resources.alerts import read_alerts
from resources.registry import RegistryResource
from resources.tracking import TrackingResource
from tests.errors import Refusal, check_error, refused
from tests.made import Mark
from tests.platform.conftest import TOPICS, evaluate_tick, sensor_of
from traube._cli.main import app
from traube._core import paths
from traube._core.errors import Conflict, Invalid, Missing, Unsafe
from traube._grouping import served as serving
from traube._pipeline import forgotten
from traube._pipeline.params import load_params
from traube._pipeline.request import Request, make_request
from traube._reports.tables import leaderboard
from traube._storage import open_storage, unused
from traube.comparison.regressions import Night
from traube.models import checkpoints, load_model
from traube.models.checkpoints import request_again

Tick = Callable[..., dg.SensorResult]
pytestmark = pytest.mark.begin_with("read")


@pytest.fixture
def tick(launcher: DagsterLauncher) -> Tick:
    """One look of the sensor, which goes on where the last one ended: on the same instance, with its cursor.

    It may begin with another cursor, or as the last one did (`is_repeated`).
    """
    definitions = build_defs()
    sensor = sensor_of(definitions, "new_checkpoints")
    cursors: list[str | None] = [None, None]  # with which the last look began and ended

    def look(is_repeated: bool = False, **cursor: str | None) -> dg.SensorResult:
        begin = cursors[0] if is_repeated else cursor.get("cursor", cursors[1])
        result = evaluate_tick(sensor, dg.build_sensor_context(launcher.instance, begin, definitions=definitions))
        assert isinstance(result, dg.SensorResult)
        cursors[:] = begin, result.cursor
        return result

    return look


@pytest.fixture
def drop(tiny_bert: Path) -> Callable[[str], Path]:
    """Copy an encoder into checkpoints/."""
    return lambda name: Path(shutil.copytree(tiny_bert, paths.checkpoints() / name))


def requested(result: dg.SensorResult) -> list[str | None]:
    return [request.partition_key for request in result.run_requests or []]


def request_of(result: dg.SensorResult) -> dg.RunRequest:
    (request,) = result.run_requests or []
    return request


def said(result: dg.SensorResult) -> str:
    assert isinstance(result.skip_reason, dg.SkipReason)
    return str(result.skip_reason.skip_message)


def scale_weights(folder: Path) -> None:
    """Change the content of a checkpoint."""
    weights = load_file(folder / "model.safetensors")
    scaled = {name: tensor * 1.5 for name, tensor in weights.items()}
    save_file(scaled, folder / "model.safetensors", {"format": "pt"})


def test_a_quiet_folder_becomes_a_partition_and_a_run_and_only_once(
    tick: Tick, drop: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(tick()) == "nothing new"
    drop("cob__words__a")
    assert "waiting until it is quiet" in said(tick())
    logged = capsys.readouterr().err
    assert "waiting until it is quiet" in logged and "WARNING" not in logged
    result = tick()
    request = request_of(result)
    assert request.partition_key == "cob__words__a"
    assert result.dynamic_partitions_requests[0].partition_keys == ["cob__words__a"]
    assert str(request.run_key).startswith(f"cob__words__a@{load_model('cob__words__a').fingerprint}#1 ")
    assert {key.path[1] for key in request.asset_selection or []} == {"embeddings", "clusterings", "scores"}
    assert [said(tick()) for _ in range(3)] == ["nothing new"] * 3


def serve_elsewhere(files: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Load a stored model by MLflow alone, with the home of a user who has only that."""
    code = f"import mlflow; mlflow.pyfunc.load_model({str(files)!r}).predict(['a text'])"
    given = {name: value for name, value in os.environ.items() if not name.startswith("TRAUBE_")}
    environment = {**given, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_requested_run_scores_the_checkpoint(
    tick: Tick, drop: Callable[[str], Path], launcher: DagsterLauncher, tmp_path: Path
) -> None:
    drop("mine-v1.5")
    tick()
    request = request_of(tick())
    launcher.instance.add_dynamic_partitions(str(MODELS.name), ["mine-v1.5"])
    job = build_defs().resolve_job_def("evaluate")
    done = job.execute_in_process(
        instance=launcher.instance, partition_key=request.partition_key, asset_selection=request.asset_selection
    )
    assert done.success
    launcher.publish()
    board = (paths.home() / "tables" / "leaderboard.csv").read_text()
    assert "mine-v1.5" in board
    experiment = TrackingResource().connect()
    of_model = "tags.`traube.model` = 'mine-v1.5'"
    models = experiment.client.search_logged_models([experiment.id], of_model)
    assert [model.name for model in models] == ["words-mine-v1-5"]  # MLflow takes no dots
    (version,) = experiment.client.search_model_versions(f"name = 'traube-words' and {of_model}")
    files = Path(urlsplit(version.source).path)
    assert (files / "artifacts" / "served").is_dir() and not [*files.glob("artifacts/*/model.safetensors")]
    assert not (files / "MLmodel").exists()  # nor code: it is numbers, and pinned weights
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAUBE_HOME", str(tmp_path / ".traube"))
        with refused(Missing, tmp_path / ".traube"):
            serving.load(files / "artifacts" / "served")
    RegistryResource().promote("words", str(version.version))
    weights = files / "artifacts" / "weights" / "model.safetensors"
    (pinned,) = paths.home().glob("weights/*/model.safetensors")
    assert weights.samefile(pinned)  # it takes no room
    served = serve_elsewhere(files, tmp_path)  # where the checkpoint is not
    assert served.returncode == 0, served.stderr
    assert not (tmp_path / ".traube").exists()  # serving leaves nothing behind
    assert RegistryResource().load_champion("words").predict(["a text"]) is not None


def test_the_partition_of_a_model_that_is_gone_is_deleted(
    drop: Callable[[str], Path], launcher: DagsterLauncher
) -> None:
    def partitions() -> set[str]:
        align(launcher.instance)
        return set(launcher.instance.get_dynamic_partitions(str(MODELS.name)))

    folder = drop("mine")
    launcher.instance.add_dynamic_partitions(str(MODELS.name), ["tfidf"])  # requested, and not of the benchmark
    assert partitions() == {"bow", "mine", "tfidf"}
    shutil.rmtree(folder)
    assert partitions() == {"bow", "tfidf"}


@pytest.fixture
def evaluate(launcher: DagsterLauncher) -> Callable[[str], None]:
    """Score a checkpoint that the sensor has requested."""

    def run(name: str) -> None:
        launcher.instance.add_dynamic_partitions(str(MODELS.name), [name])
        errors = launcher.evaluate(name, ["words"], replace(make_request(load_params()), models=[name]))
        assert errors == []

    return run


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_a_deleted_checkpoint_is_forgotten_where_params_say_so(
    tick: Tick, drop: Callable[[str], Path], evaluate: Callable[[str], None], launcher: DagsterLauncher, kept: bool
) -> None:
    paths.params().write_text(paths.params().read_text() + f"\nkeep: {{deleted_checkpoints: {str(kept).lower()}}}\n")
    folder = drop("mine")
    tick()
    tick()
    evaluate("mine")
    shutil.rmtree(folder)
    result, storage = tick(), open_storage(paths.home())
    board = leaderboard(storage, protocols=load_params().protocols)
    deleted = [name for request in result.dynamic_partitions_requests or [] for name in request.partition_keys]
    assert deleted == ([] if kept else ["mine"])
    assert ("mine" in {*board["model"]}) is kept and len(storage.read_cells("words")) > 0
    drop("mine")  # it comes back as it was: whoever puts it there wants it
    tick()
    assert requested(tick()) == ([] if kept else ["mine"])


@pytest.mark.slow
def test_a_night_cleans_up_after_a_forgotten_checkpoint(
    tick: Tick,
    drop: Callable[[str], Path],
    evaluate: Callable[[str], None],
    launcher: DagsterLauncher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that is stored of it goes, in MLflow and Dagster too; the others are as they were."""
    drop("mine")
    tick()
    tick()
    evaluate("mine")
    evaluate("bow")
    launcher.publish()
    storage, tracking = open_storage(paths.home()), TrackingResource()

    def is_ranked(model: str) -> bool:
        condition = f"tags.`traube.model` = '{model}' AND tags.`traube.kind` = 'task'"
        (run,) = tracking.connect().find_runs(condition).values()
        return any(tag.startswith("traube.rank/") for tag in run.data.tags)

    assert is_ranked("mine") and is_ranked("bow")
    assert CliRunner().invoke(app, ["forget", "mine", "mine"]).exit_code == 0
    launcher.publish()
    assert not is_ranked("mine") and is_ranked("bow")
    board = pd.read_parquet(storage.get_table_path("leaderboard.parquet"))
    assert {*board["model"]} == {"bow"}
    evaluated = launcher.instance.get_runs(dg.RunsFilter(tags={"dagster/partition": "mine"}))
    clean = launcher.definitions.resolve_job_def("clean")
    assert clean.execute_in_process(instance=launcher.instance).success
    assert tracking.connect().find_ids("tags.`traube.model` = 'mine'")  # it may be called back within a day
    monkeypatch.setattr(forgotten, "datetime", SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(days=2)))
    monkeypatch.setattr(unused, "time", SimpleNamespace(time=lambda: time.time() + 2 * 86_400))
    for night in storage.read_documents(Night):  # what nightly runs are compared with is kept as long as these
        storage.remove_document(night)
    assert clean.execute_in_process(instance=launcher.instance).success
    assert "mine" not in {*storage.read_cells()["model"]}
    experiment = tracking.connect()
    assert experiment.find_ids("tags.`traube.model` = 'bow'")
    assert not experiment.client.search_runs([experiment.id], "tags.`traube.model` = 'mine'", ViewType.ALL)
    assert not launcher.instance.get_runs(dg.RunsFilter(tags={"dagster/partition": "mine"}))
    assert evaluated and not [path for run in evaluated for path in paths.home().rglob(f"{run.run_id}*")]
    launcher.publish()
    assert pd.read_parquet(storage.get_table_path("leaderboard.parquet"))["mean"].equals(board["mean"])


def test_touched_is_not_changed_and_changed_is_evaluated_again(tick: Tick, drop: Callable[[str], Path]) -> None:
    folder = drop("mine")
    tick()
    first = request_of(tick())
    os.utime(folder / "config.json")
    assert [requested(tick()) for _ in range(2)] == [[], []]
    scale_weights(folder)
    assert requested(tick()) == []
    assert request_of(tick()).run_key != first.run_key


def test_a_content_that_comes_back_is_evaluated_again(tick: Tick, drop: Callable[[str], Path]) -> None:
    """Put contents A, B and A. Dagster drops a run whose key it has seen, and saves a cursor together with the runs."""
    weights = drop("mine") / "model.safetensors"
    first = load_file(weights)
    other = {name: tensor * 1.5 for name, tensor in first.items()}
    keys, fingerprints = [], []
    for content in (first, other, first):
        save_file(content, weights, {"format": "pt"})
        assert requested(tick()) == []
        request = request_of(tick())
        # whoever crashed before the cursor was saved starts no second run
        assert request_of(tick(is_repeated=True)).run_key == request.run_key
        keys.append(request.run_key)
        fingerprints.append(request.tags["traube/fingerprint"])
        os.utime(weights)
        assert [requested(tick()) for _ in range(3)] == [[], [], []]
    assert len(set(keys)) == 3
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]


@pytest.mark.slow
def test_pages_show_the_content_that_came_back(
    tick: Tick,
    drop: Callable[[str], Path],
    launcher: DagsterLauncher,
    request_for: Callable[..., Request],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Put contents A, which knows the words of the topics, B, which knows nothing, and A, whose cells are stored."""
    monkeypatch.setattr("resources.benchmark._load_model", load_model)  # as in runs, which have a process each
    weights = drop("mine") / "model.safetensors"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *TOPICS]
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(weights.parent)
    first = load_file(weights)
    shown = []
    for content in (first, {name: torch.zeros_like(tensor) for name, tensor in first.items()}, first):
        save_file(content, weights, {"format": "pt"})
        tick()
        assert requested(tick()) == ["mine"]
        assert launcher.evaluate("mine", ["words"], request_for(["words"], ["mine"])) == []
        assert launcher.publish() == []
        published = pd.read_csv(paths.home() / "tables" / "leaderboard.csv")
        stored = leaderboard(open_storage(paths.home()), tasks=["words"])
        best = [t[(t["model"] == "mine") & t["best"].astype(bool)].iloc[0] for t in (published, stored)]
        assert [row["fingerprint"] for row in best] == [load_model("mine").fingerprint] * 2
        assert best[0]["mean"] == pytest.approx(best[1]["mean"])
        shown.append(best[0]["mean"])
    assert shown[0] == shown[2] > shown[1]


def test_a_sensor_whose_cursor_was_reset_drops_no_content(tick: Tick, drop: Callable[[str], Path]) -> None:
    drop("mine")
    tick()
    request = request_of(tick())
    tick(cursor=None)
    assert request_of(tick()).run_key != request.run_key
    assert requested(tick()) == []


@pytest.mark.parametrize("state", ["same", "changed"])
def test_the_cursor_of_an_earlier_version_goes_on(tick: Tick, drop: Callable[[str], Path], state: str) -> None:
    folder = drop("mine")
    tick()
    entry = json.loads(str(tick().cursor))["mine"]
    earlier = {name: entry[name] for name in ("state", "settled", "fingerprint", "attempt")}
    if state == "changed":
        scale_weights(folder)
    runs = [requested(tick(cursor=json.dumps({"mine": earlier}))), requested(tick())]
    assert runs == [[], ["mine"] if state == "changed" else []]


def test_a_failed_evaluation_can_be_requested_again(tick: Tick, drop: Callable[[str], Path]) -> None:
    drop("mine")
    tick()
    keys = [request_of(tick()).run_key]
    assert requested(tick()) == []
    request_again("mine")
    keys.append(request_of(tick()).run_key)
    assert requested(tick()) == []
    (paths.home() / checkpoints.ATTEMPTS).write_bytes(b"{")  # a damaged count begins again
    tick()
    request_again("mine")
    keys.append(request_of(tick()).run_key)
    assert len({*keys}) == 3


def test_a_folder_that_was_away_is_known_again(tick: Tick, drop: Callable[[str], Path], tmp_path: Path) -> None:
    folder = drop("mine")
    tick()
    assert requested(tick()) == ["mine"]
    shutil.move(folder, tmp_path / "away")
    tick()
    shutil.move(tmp_path / "away", folder)
    assert [requested(tick()) for _ in range(3)] == [[], [], []]


def test_what_is_still_being_copied_is_waited_for(tick: Tick, drop: Callable[[str], Path]) -> None:
    folder = drop("mine")
    (folder / "model.safetensors").rename(folder / "model.safetensors.tmp")
    tick()
    assert "model.safetensors.tmp is being written" in said(tick())
    (folder / "model.safetensors.tmp").rename(folder / "model.safetensors")
    tick()
    assert requested(tick()) == ["mine"]


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def nan_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    name = next(n for n, t in weights.items() if t.is_floating_point())
    weights[name].view(-1)[0] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "refusal"),
    [
        (no_weights, (Missing, "model.safetensors")),
        (lambda folder: (folder / "vocab.txt").symlink_to("/etc/hostname"), (Unsafe, "vocab.txt")),
        (lambda folder: folder.rename(folder.with_name("a..b")), (Invalid, "a..b")),
        (lambda folder: folder.rename(folder.with_name("minilm")), (Conflict, "minilm")),
    ],
    ids=["no weights", "a link that leads out", "a bad name", "the name of a model of the catalogue"],
)
def test_a_bad_folder_is_reported_once_and_blocks_no_other(
    tick: Tick, drop: Callable[[str], Path], damage: Callable[[Path], object], refusal: Refusal
) -> None:
    damage(drop("bad"))
    drop("good")
    tick()
    assert requested(tick()) == ["good"]
    (error,) = checkpoints.errors().values()
    check_error(error, *refusal)
    assert said(tick()) == "nothing new"
    (alert,) = read_alerts()  # though another folder was fine
    assert str(error) in alert["details"][0]


def test_a_bad_folder_is_named_in_the_tick(tick: Tick, drop: Callable[[str], Path]) -> None:
    no_weights(drop("bad"))
    tick()
    assert "refused: model 'bad'" in said(tick())
    assert said(tick()) == "nothing new"


def test_doctor_names_a_bad_folder(drop: Callable[[str], Path], cards: Path) -> None:
    from operations.doctor import examine

    nan_weights(drop("bad"))
    drop("good")
    found = {f.check: f for f in examine()}
    assert found["checkpoint bad"].status == "wrong"
    assert "NaN or infinity" in found["checkpoint bad"].finding
    assert found["checkpoints"].finding.startswith("1 usable")


@pytest.mark.begin_with("new")
def test_nothing_is_requested_before_a_task_has_been_read(
    launcher: DagsterLauncher, drop: Callable[[str], Path]
) -> None:
    drop("mine")
    context = dg.build_sensor_context(launcher.instance)
    result = evaluate_tick(sensor_of(build_defs(), "new_checkpoints"), context)
    assert isinstance(result, dg.SkipReason) and "words" in str(result.skip_message)


def test_a_link_is_refused_without_being_walked(tick: Tick, drop: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    for i in range(50):
        (tmp_path / "outside" / f"{i}.tmp").touch()  # walked, it would count as unfinished
    drop("good")
    (paths.checkpoints() / "link").symlink_to(tmp_path / "outside")
    tick()
    assert requested(tick()) == ["good"]
    assert "leads out" in str(checkpoints.errors()[paths.checkpoints() / "link"])


def test_the_sensor_reports_a_hostile_folder_and_runs_nothing_of_it(
    tick: Tick, drop: Callable[[str], Path], tmp_path: Path
) -> None:
    """A class that loads pickles, and settings that allow it: found eighteen seconds after they were dropped."""
    folder = drop("theirs")
    torch.save({"x": Mark(tmp_path / "MARK")}, folder / "pytorch_model.bin")
    (folder / "sentence_bert_config.json").write_text(
        '{"model_args": {"use_safetensors": false, "weights_only": false}}'
    )
    kind = "sentence_transformers.sparse_encoder.modules.MLMTransformer"
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))
    drop("mine")
    tick()
    assert requested(tick()) == ["mine"]
    assert type(checkpoints.errors()[folder]) is Unsafe
    assert not (tmp_path / "MARK").exists()
