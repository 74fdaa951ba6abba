"""The registry: the champion moves only for one that is better, or when a person says so; and it can be served."""

import asyncio
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import ANY

import dagster as dg
import pandas as pd
import pytest
from dagster._core.loader import LoadingContextForTest

import traube
from assets.common import NIGHT
from assets.registry import KEY
from operations.launch import DagsterLauncher
from resources.alerts import SILENT, read_alerts
from resources.experiment import default_uri
from resources.registry import RegistryResource
from resources.removal import remove_runs
from tests.cli.conftest import call
from tests.errors import refused
from tests.platform.conftest import metadata_of, word_rows, write_task
from traube._core import paths
from traube._core.errors import Missing, Unknown
from traube._pipeline.params import load_params
from traube._pipeline.request import Request
from traube._storage import CellRow, Storage, open_storage
from traube.comparison import promotion
from traube.comparison.candidates import candidates, main_metric
from traube.comparison.champions import Champions, read_champions
from traube.comparison.promotion import Decision, Why
from traube.comparison.regressions import Night
from traube.comparison.standings import compare_candidates
from traube.models.pins import Pin
from traube.tasks.stored import get_card, read_task

MakeRequest = Callable[..., Request]
EVIL = b"raise SystemExit('somebody else')"
REGRESSIONS = dg.AssetKey("regressions")
pytestmark = pytest.mark.begin_with("challenged")


def version_of(alias: str) -> dict[str, str]:
    """The tags of the champion or the challenger of `words`; empty where there is none."""
    return RegistryResource().find_version("words", alias) or {}


def read_report() -> str:
    return (paths.home() / "report" / "index.html").read_text(encoding="utf-8")


def test_the_first_clustering_of_a_task_becomes_champion(launcher: DagsterLauncher) -> None:
    held = version_of("champion")
    assert (held["version"], held["model"], held["decision"]) == ("1", "bow", "first")
    assert float(held["score"]) > 0.5


@pytest.mark.slow
@pytest.mark.begin_with("evaluated")
@pytest.mark.parametrize("ends", ["all are scored", "the night ends"])
def test_the_first_champion_is_not_whoever_is_done_first(
    launcher: DagsterLauncher, request_for: MakeRequest, ends: str
) -> None:
    """The champion of a new task is chosen among all models of the benchmark; a night that ends chooses among those there are."""
    paths.params().write_text(paths.params().read_text().replace("[bow]", "[bow, tfidf]"))
    launcher.publish()
    held = version_of("challenger")
    assert held["decision"] == "hold" and "tfidf" in held["reason"]
    assert version_of("champion") == {}
    publish, night = launcher.definitions.resolve_job_def("publish"), {NIGHT: "2026-01-01"}
    if ends == "all are scored":
        launcher.evaluate("tfidf", ["words"], request_for(["words"], ["tfidf"]))
        launcher.publish()
    else:
        evaluate = launcher.definitions.resolve_job_def("evaluate")
        begun = launcher.instance.create_run_for_job(evaluate, status=dg.DagsterRunStatus.STARTED, tags=night)
        only = {"instance": launcher.instance, "tags": night, "asset_selection": [KEY]}
        assert publish.execute_in_process(**only).success and version_of("champion") == {}
        launcher.instance.report_run_failed(begun)
        assert publish.execute_in_process(**only).success
    assert version_of("champion")["decision"] == "first"


@pytest.mark.slow
def test_checks_hold_where_two_publications_overlap(launcher: DagsterLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publication of the daemon begins after one of the command line, and ends before it."""
    read, daemon = RegistryResource.note_champions, iter([launcher.definitions.resolve_job_def("publish")])

    def publish_meanwhile(resource: RegistryResource) -> Champions:
        for job in daemon:
            assert job.execute_in_process(instance=launcher.instance, asset_selection=[KEY, REGRESSIONS]).success
        return read(resource)

    monkeypatch.setattr(RegistryResource, "note_champions", publish_meanwhile)
    assert launcher.publish() == []
    checks = [dg.AssetCheckKey(KEY, "champion_of_words"), dg.AssetCheckKey(REGRESSIONS, "none_worse")]
    latest = launcher.instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    for key, record in latest.items():
        assert asyncio.run(record.targets_latest_materialization(LoadingContextForTest(launcher.instance))), key


@pytest.mark.slow
def test_publishing_again_registers_nothing_twice(launcher: DagsterLauncher) -> None:
    launcher.publish()
    client = RegistryResource().client()
    versions = client.search_model_versions("name = 'traube-words'")
    assert sorted(int(v.version) for v in versions) == [1, 2]  # champion, and the best of the rest
    held = version_of("challenger")
    assert held["decision"] in ("keep", "hold") and held["reason"]


@pytest.mark.slow
def test_a_promotion_says_what_it_is_about_to_do_and_asks(launcher: DagsterLauncher) -> None:
    (row,) = RegistryResource().read_champions().now
    assert row.score is not None and row.challenger_score is not None
    shown = " ".join(call("champions").output.split())
    assert "words" in shown and f"{row.score:.2f}" in shown and f"{row.challenger_score:.2f}" in shown
    assert json.loads(call("champions", "--json").output)[0]["reason"] == row.reason
    refused = call("promote", "words", stdin="n\n")
    assert refused.exit_code == 1 and version_of("champion")["version"] == "1"
    about = f"version 1, {row.model} with {row.method}: {row.score:.2f} -> version 2,"
    assert about in refused.output and row.reason in refused.output
    assert call("promote", "words", "--yes").exit_code == 0
    assert version_of("champion")["version"] == "2"


@pytest.mark.slow
def test_a_challenger_is_its_numbers_until_it_is_promoted_or_requested(launcher: DagsterLauncher) -> None:
    """Each night has another one, and the code of each would be a copy."""
    served = RegistryResource()

    def is_whole(number: str) -> bool:
        version = served.client().get_model_version("traube-words", number)
        folder = Path(version.source.removeprefix("file://"))
        assert (folder / "artifacts" / "served" / "served.json").is_file()
        return {"MLmodel", "served_model.py", "code"} <= {path.name for path in folder.iterdir()}

    assert is_whole("1") and not is_whole("2")
    assert served.load_champion("words", "2").predict(["apple pear fruit"]).shape[0] == 1
    done = call("promote", "words", "--only-artifact")
    assert done.exit_code == 0 and "models:/traube-words/2" in done.output
    assert is_whole("2") and version_of("champion")["version"] == "1"


@pytest.mark.slow
def test_what_a_person_decided_stands_wherever_the_champion_is_shown(launcher: DagsterLauncher) -> None:
    """Beside what the tests said against it: no surface claims that they chose it."""
    served = RegistryResource()
    tested = version_of("challenger")["reason"]
    done = call("promote", "words", "--yes")
    assert "Downloading" not in done.output + done.stderr
    champion = version_of("champion")
    day = champion["by_hand"]
    assert (champion["decision"], champion["since"][:10]) == ("by hand", day)
    assert champion["reason"] == f"promoted by hand on {day}; before: {tested}"
    model = served.client().get_registered_model("traube-words")
    assert f"chosen by hand on {day}" in model.description and "paired tests" not in model.description
    version = served.client().get_model_version("traube-words", "2")
    assert version.description.endswith(f"; made champion by hand on {day}")
    (noted,) = json.loads(call("champions", "--json").output)
    assert (noted["by_hand"], noted["chosen"]) == (day, champion["reason"])
    launcher.publish()
    page = read_report()
    assert f"{day}, by hand" in page and f"promoted by hand on {day}" in page
    served.rollback("words")
    restored = version_of("champion")["reason"]
    assert restored.startswith(f"restored by hand on {day}; before: ")
    served.promote("words", "2")
    assert version_of("champion") == {**champion, "since": ANY}  # of the tests' words, no more
    served.renew("words", "1")  # a person's choice goes on with new data
    renewed = version_of("champion")
    assert (renewed["decision"], renewed["by_hand"]) == ("renewed", day) and "chosen by hand" in renewed["reason"]


@pytest.mark.slow
def test_of_challengers_the_newest_stay_and_what_a_person_tagged(launcher: DagsterLauncher) -> None:
    """Each night's challenger is another one: the registry would grow without end."""
    served = RegistryResource()
    client, name = served.client(), "traube-words"
    source = client.get_model_version(name, "2")
    for _ in range(4):  # that nobody serves any more
        client.create_model_version(name, source.source, source.run_id, tags={"traube.key": "of no pin"})
    client.set_model_version_tag(name, "4", "traube.keep", "the one of the talk")
    client.set_model_version_tag(name, "5", "traube.rejected", "rolled back")

    def numbers() -> list[int]:
        return sorted(int(version.version) for version in client.search_model_versions(f"name = '{name}'"))

    served.forget_challengers("words", 2)
    assert numbers() == [1, 2, 4, 5, 6]  # champion, challenger, both tagged, and the newest of the others
    served.forget_challengers("words", 1)
    assert numbers() == [1, 2, 4, 5]
    assert Path(source.source.removeprefix("file://")).exists()  # the challenger's own files
    files = Path(client.get_model_version(name, "1").source.removeprefix("file://"))
    served.promote("words")
    served.forget_challengers("words", 1)
    assert numbers() == [1, 2, 4, 5]  # a champion that was
    client.set_registered_model_tag(name, "traube.champions", '["2"]')  # as if the first one had only challenged
    served.forget_challengers("words", 1)
    assert numbers() == [2, 4, 5]
    assert remove_runs([]) == 1 and not files.exists()


@pytest.mark.slow
def test_each_task_of_the_benchmark_has_a_check_of_its_champion(launcher: DagsterLauncher) -> None:
    """Dagster, the report and the command show the same: the library notes what the registry holds."""
    (noted,) = read_champions(open_storage(paths.home())).now
    assert noted == RegistryResource().read_champions().now[0]
    executions = launcher.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(KEY, "champion_of_words"), limit=1
    )
    evaluation = executions[0].event.dagster_event.asset_check_evaluation_data  # type: ignore[union-attr]
    assert evaluation.passed and noted.reason in (evaluation.description or "")
    metadata = {name: value.value for name, value in evaluation.metadata.items()}
    assert noted.score is not None
    assert (metadata["score"], metadata["measure"]) == (round(noted.score, 2), noted.measure)
    table = metadata_of(launcher, *KEY.path)["champions"]
    assert f" {noted.score:.2f} " in table and "nan" not in table and "None" not in table
    page = read_report()
    assert "Champions" in page and noted.measure in page and f"{noted.score:.2f}" in page


@pytest.mark.slow
def test_champions_go_on_where_the_registry_is_new(
    launcher: DagsterLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the results has no history of MLflow: nobody is crowned there without a test, not even if he is better."""
    served = RegistryResource()
    served.promote("words")  # the second best, by hand
    before = served.note_champions().now[0]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'new.db'}")
    launcher.publish()
    (after,) = RegistryResource().read_champions().now
    assert (after.model, after.method, after.version) == (before.model, before.method, "1")
    launcher.publish()
    (after,) = RegistryResource().read_champions().now
    assert (after.model, after.method) == (before.model, before.method) and after.challenger and after.reason


def test_mlflow_says_what_its_entries_are(launcher: DagsterLauncher) -> None:
    client = RegistryResource().client()
    experiments = {experiment.name: experiment for experiment in client.search_experiments()}
    about = [experiments[name].tags.get("mlflow.note.content") for name in ("traube", "traube-serving")]
    assert all(about)
    model = client.get_registered_model("traube-words")
    versions = client.search_model_versions("name = 'traube-words'")
    assert model.description and all(version.description for version in versions)
    assert not [tag for version in versions for tag, value in version.tags.items() if value == ""]
    runs = client.search_runs([experiments["traube"].experiment_id])
    assert not [run for run in runs if "traube.serves" in run.data.tags]
    for name in ("traube", "traube-serving"):
        logged = client.search_logged_models([experiments[name].experiment_id])
        assert len({model.name for model in logged}) == len(logged) or name == "traube-serving"


def test_people_promote_and_roll_back(launcher: DagsterLauncher) -> None:
    registry = RegistryResource()
    assert registry.promote("words") == "2"
    assert version_of("champion")["version"] == "2"
    assert version_of("challenger") == {}
    assert registry.rollback("words") == "1"
    assert version_of("champion")["version"] == "1"
    (row,) = registry.read_champions().now
    assert (row.task, row.model, row.version, row.measure[:5]) == ("words", "bow", "1", "topic")
    board = pd.read_parquet(open_storage(paths.home()).get_table_path("leaderboard.parquet"))
    assert row.score == pytest.approx(100 * board.loc[board["method"] == row.method, "mean"].iloc[0])
    assert row.challenger == ""  # the version that was rolled back is none
    with refused(Missing, "traube-words"):
        registry.rollback("words")
    with refused(Unknown, "9", 1, 2):
        registry.promote("words", "9")
    for change in (registry.promote, registry.rollback):
        with refused(Unknown, "traube run -t wrods", "words"):
            change("wrods")


@pytest.mark.slow
def test_the_champion_serves_new_texts_on_another_machine(launcher: DagsterLauncher, tmp_path: Path) -> None:
    code = """
import mlflow, pandas as pd
folder = mlflow.artifacts.download_artifacts("models:/traube-words@champion")
print(folder)
print(*open(f"{folder}/requirements.txt").read().split())
model = mlflow.pyfunc.load_model(folder)
import traube
print(traube.__file__)
texts = ["apple pear fruit", "owl robin birds", "plum cherry fruit"]
assert model.predict(pd.DataFrame({"text": texts})).equals(model.predict(texts))
print([(spec.name, spec.type.name) for spec in model.metadata.signature.outputs])
print(model.predict(texts).to_json(orient="records"))
"""
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": default_uri(),
        "TRAUBE_HOME": str(tmp_path / "elsewhere"),
        "PYTHONDONTWRITEBYTECODE": "1",  # what is loaded where it lies would be compiled beside it, with its path
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    folder, requirements, package, types, predicted = done.stdout.splitlines()[-5:]
    assert types == "[('cluster', 'long'), ('distance', 'double'), ('words', 'string'), ('fits', 'boolean')]"
    assert all(re.fullmatch(r"[\w.-]+==[\w.!-]+", line) and "traube" not in line for line in requirements.split())
    assert not Path(package).is_relative_to(paths.PROJECT)  # Traube itself comes with what is served
    texts = read_task(open_storage(paths.home()), "words").texts
    of_here = [text.encode() for text in (*texts, str(tmp_path), str(paths.home()), str(paths.PROJECT))]
    for path in (path for path in Path(folder).rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert not [text for text in of_here if text in content], path
    fruit, bird, other = json.loads(predicted)
    assert fruit["cluster"] == other["cluster"] != bird["cluster"]
    assert "birds" in bird["words"]
    assert bird["distance"] >= 0
    # and on the command line
    (tmp_path / "new.txt").write_text("apple pear fruit\nowl robin birds\nplum cherry fruit")
    result = call("cluster", str(tmp_path / "new.txt"), "--champion", "words", "--json")
    assert result.exit_code == 0, result.output
    groups = {(group["group"], group["texts"]) for group in json.loads(result.stdout)["groups"]}
    assert groups == {(fruit["cluster"], 2), (bird["cluster"], 1)}


@pytest.mark.begin_with("published")
def test_a_champion_whose_files_are_damaged_is_named_where_it_lies(launcher: DagsterLauncher, tmp_path: Path) -> None:
    (stored,) = paths.home().rglob("served.json")
    stored.write_text(stored.read_text().replace('"words": {', '"more": 1, "words": {'))
    (tmp_path / "new.txt").write_text("apple pear fruit\nowl robin birds")
    result = call("cluster", str(tmp_path / "new.txt"), "--champion", "words")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert f"{stored}: corrupt (more: " in result.stderr


@pytest.mark.begin_with("published")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("why", "tags", "command"),
    [
        (Why.BETTER, {}, "rollback words"),
        (Why.BETTER, dict([SILENT]), ""),
        (Why.TOO_LITTLE, {}, ""),
        (Why.NOT_APPROVED, {}, "promote words"),
    ],
    ids=["better", "better, tagged to be silent", "too little better", "not approved"],
)
def test_a_new_champion_or_one_to_approve_raises_one_alert_and_a_kept_one_none(
    launcher: DagsterLauncher,
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
    why: Why,
    tags: dict[str, str],
    command: str,
) -> None:
    params = load_params()
    metric = main_metric(get_card(storage, "words"), params.chosen())
    old, new = candidates(storage, "words", params.protocol, params.chosen(), metric)[:2]
    verdict = compare_candidates(storage, new, old, comparisons=1, level=params.promotion.level)
    decision = Decision("words", why, params.promotion, new, old, verdict)
    monkeypatch.setattr(promotion, "judge", lambda *_: [decision])  # scores of one split can promote nothing
    publish = launcher.definitions.resolve_job_def("publish")
    for _ in range(2):
        publish.execute_in_process(instance=launcher.instance, asset_selection=[KEY], tags=tags)
    alerts = [(alert["advice"].partition("traube ")[2], alert["details"][0]) for alert in read_alerts()]
    assert (version_of("champion")["version"] == "2") == (why is Why.BETTER)
    assert alerts == ([(command, f"{old.name} -> {new.name}")] if command else [])


def test_the_cells_of_what_is_served_are_never_removed(launcher: DagsterLauncher, storage: Storage) -> None:
    for night in storage.read_documents(Night):  # nightly runs pin cells too
        storage.remove_document(night)
    pinned = [cell for pin in storage.read_documents(Pin) for cell in pin.cells]
    rows = storage.read_rows(CellRow)
    assert pinned and storage.remove(rows) == len(rows) - len(pinned)
    assert sorted(row.cell_id for row in storage.read_rows(CellRow)) == sorted(pinned)


@pytest.mark.slow
def test_compare_says_who_is_better_or_why_it_cannot(launcher: DagsterLauncher, request_for: MakeRequest) -> None:
    launcher.evaluate("tfidf", ["words"], request_for(["words"], ["tfidf"]))
    result = call("compare", "bow", "tfidf", "--json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)
    assert (row["task"], row["a"]["model"]) == ("words", "bow")
    # one split and one seed: what a seed does is not known, unless the methods have none
    verdict = row["verdict"]
    assert verdict["splits"] == 1 and verdict["comparisons"] == 1
    assert verdict["answer"].startswith("undecided") == (verdict["undecided"] == "one_seed")
    twice = call("compare", "bow", "tfidf", "--json", "-t", "words", "-t", "words")
    assert json.loads(twice.stdout) == [row]  # one task, one table


@pytest.mark.slow
def test_a_champion_is_served_from_new_data_once_it_is_scored_on_it(
    launcher: DagsterLauncher, cards: Path, request_for: MakeRequest
) -> None:
    before = version_of("champion")
    write_task(cards, "words", [*word_rows(), ("apple plum fig fruit", "fruit")])
    launcher.datasets(["words"])
    launcher.publish()  # nothing is scored yet
    assert version_of("champion") == before
    launcher.evaluate("bow", ["words"], request_for(["words"], ["bow"]))
    launcher.publish()
    after = version_of("champion")
    assert (after["model"], after["method"]) == (before["model"], before["method"])
    assert after["data_version"] != before["data_version"]
    assert after["decision"] == "renewed"
    launcher.publish()
    assert version_of("champion")["version"] == after["version"]
    with refused(Missing, "traube-words"):
        RegistryResource().rollback("words")


@pytest.mark.slow
def test_what_a_person_rolled_back_stays_back(launcher: DagsterLauncher) -> None:
    registry = RegistryResource()
    registry.promote("words")
    registry.rollback("words")
    launcher.publish()
    assert version_of("champion")["version"] == "1" and version_of("challenger").get("version") != "2"


@pytest.mark.begin_with("published")
@pytest.mark.slow
def test_a_restored_champion_is_served_by_the_code_of_this_installation(
    launcher: DagsterLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To another path, from an archive into which somebody has put code and a page."""
    archive = tmp_path / "backup.tar"
    assert call("backup", str(archive)).exit_code == 0
    with tarfile.open(archive, "a") as opened:
        (served,) = {name.partition("/artifacts/")[0] for name in opened.getnames() if name.endswith("served.json")}
        assert not [name for name in opened.getnames() if name.endswith((".py", "MLmodel", ".html"))]
        for name in (f"{served}/artifacts/python_model.py", f"{served}/artifacts/MLmodel", "data/report/index.html"):
            member = tarfile.TarInfo(name)
            member.size = len(EVIL)
            opened.addfile(member, io.BytesIO(EVIL))
    predicted = RegistryResource().load_champion("words").predict(["apple pear fruit"])
    board = call("leaderboard", "--format", "json").stdout
    monkeypatch.setenv("TRAUBE_HOME", str(tmp_path / "new"))
    monkeypatch.setenv("TRAUBE_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    restored = call("restore", str(archive))
    assert restored.exit_code == 0, restored.output
    assert call("leaderboard", "--format", "json").stdout == board
    registry = RegistryResource(uri=default_uri())
    pd.testing.assert_frame_equal(registry.load_champion("words").predict(["apple pear fruit"]), predicted)
    folder = tmp_path / "new" / f"{served}/artifacts".removeprefix("data/")
    assert (folder / "MLmodel").is_file()
    assert (folder / "code" / "traube" / "__init__.py").read_bytes() == Path(traube.__file__).read_bytes()
    written = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert tmp_path / "new" / "report" / "index.html" in written  # made again
    assert not [path for path in written if EVIL in path.read_bytes()]


def test_a_champion_whose_files_are_gone_is_named(launcher: DagsterLauncher, tmp_path: Path) -> None:
    shutil.rmtree(paths.home() / "mlartifacts")
    (tmp_path / "new.txt").write_text("owl robin swift\n")
    served = call("cluster", str(tmp_path / "new.txt"), "--champion", "words")
    assert served.exit_code == 1 and "mlartifacts" in "".join(served.stderr.split())
