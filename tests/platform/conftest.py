"""A small task of the user's own, and a benchmark that asks for it."""

from __future__ import annotations

import csv
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

from tests.conftest import without_servers
from traube._core import paths

if TYPE_CHECKING:
    import dagster as dg
    from typer.testing import Result

    from operations.launch import DagsterLauncher
    from traube._pipeline.plan import Plan
    from traube._pipeline.request import Request
    from traube._storage import Storage

    Traube = Callable[..., Result]

TOPICS = {
    "fruit": ["apple", "pear", "plum", "cherry", "grape", "peach", "quince", "fig", "melon", "berry"],
    "tools": ["hammer", "saw", "drill", "wrench", "chisel", "plane", "file", "clamp", "anvil", "screw"],
    "birds": ["owl", "robin", "swift", "crane", "heron", "stork", "finch", "raven", "eagle", "wren"],
}
PLACES = {"HOME": "home", "CHECKPOINTS": "home/checkpoints", "CARDS": "cards", "PARAMS": "params.yaml"}
PARAMS = """
protocol: tiny
tasks: [words]
models: [bow]
protocols:
  tiny:
    reducers: [none, pca]
    clusterers: [minibatch_kmeans, agglomerative, hdbscan]
"""


def write_task(folder: Path, name: str, rows: list[tuple[str, str]], more: str = "") -> None:
    """A csv of texts and labels, and its card."""
    with (folder / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "topic"), *rows])
    (folder / f"{name}.yaml").write_text(f"file: {name}.csv\ntext: text\nlabels: topic\n{more}")


def write_benchmark(folder: Path) -> None:
    """The cards folder with the task `words`, and a params.yaml that asks for it."""
    (folder / "cards").mkdir()
    write_task(folder / "cards", "words", word_rows())
    (folder / "params.yaml").write_text(PARAMS)


def word_rows() -> list[tuple[str, str]]:
    """Sixty texts of three words, on three topics."""
    return [
        (" ".join(words[(i + j * (1 + i // 10)) % 10] for j in range(3)) + f" {topic}", topic)
        for topic, words in TOPICS.items()
        for i in range(20)
    ]


def sensor_of(definitions: dg.Definitions, name: str) -> Any:
    """A sensor, to be called with a context."""
    return next(sensor for sensor in definitions.sensors or [] if sensor.name == name)


def schedule_of(definitions: dg.Definitions, name: str) -> Any:
    """A schedule, to be called with a context."""
    return next(schedule for schedule in definitions.schedules or [] if schedule.name == name)


def evaluate_tick(definition: Any, context: Any) -> Any:
    """Evaluate a sensor or schedule, and close its context.

    Until it is closed, the instance that it opens is the one by which Dagster loads definitions, in later tests too.
    """
    with context:
        return definition(context)


def metadata_of(launcher: DagsterLauncher, *key: str) -> dict[str, Any]:
    """Return what an asset's last materialization says, by name."""
    import dagster as dg

    event = launcher.instance.get_latest_materialization_event(dg.AssetKey(key))
    assert event is not None and event.asset_materialization is not None
    return {name: entry.value for name, entry in event.asset_materialization.metadata.items()}


@pytest.fixture(autouse=True)
def closed_instances() -> Iterator[None]:
    """Fail a test that leaves an instance of Dagster open, in place of one that comes after it."""
    from dagster._core.storage.defs_state.base import DefsStateStorage

    yield
    assert DefsStateStorage.get() is None


@pytest.fixture(scope="package", autouse=True)
def known_databases() -> Iterator[None]:
    """Read the migrations of databases once, and keep their engines, which hold no connection.

    Dagster makes a database for each run, for which alembic reads all its scripts, and an engine for each event, which
    compiles all its statements again.
    """
    from alembic.script import ScriptDirectory
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage
    from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage

    read, scripts, engines = ScriptDirectory.from_config, dict[str | None, ScriptDirectory](), dict[str, Any]()

    def from_config(config: Any) -> ScriptDirectory:
        place = config.get_alembic_option("script_location")
        if place not in scripts:
            scripts[place] = read(config)
        return scripts[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", from_config)
        for module in (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):

            def create_engine(url: str, create: Callable[..., Any] = module.create_engine, **options: Any) -> Any:
                if url not in engines:
                    engines[url] = create(url, **options)
                return engines[url]

            patch.setattr(module, "create_engine", create_engine)
        yield


@pytest.fixture(autouse=True)
def few_papers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each publication make one table of one paper: all 44 take ten times as long as the rest."""
    if not request.node.get_closest_marker("all_papers"):
        publish_one_table(monkeypatch)


def publish_one_table(patch: pytest.MonkeyPatch) -> None:
    import assets.used
    import traube._cli.launcher
    from traube._reports.papers import papers

    german = papers()["german"]
    few = {"german": replace(german, tables=german.tables[1:2], figures=())}
    for module in (assets.used, traube._cli.launcher):
        patch.setattr(module, "papers", lambda: few)


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cards folder, with the task `words`; and a params.yaml that asks for it."""
    write_benchmark(tmp_path)
    for name in ("CARDS", "PARAMS"):
        monkeypatch.setenv(f"TRAUBE_{name}", str(tmp_path / PLACES[name]))
    return tmp_path / "cards"


def make_templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the fixture `templates`."""
    from operations.launch import DagsterLauncher
    from resources.experiment import connect, default_uri
    from traube._core.progress import SILENT
    from traube._pipeline.params import load_params
    from traube._pipeline.request import Request

    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "templates"
    with FileLock(f"{folder}.lock"), pytest.MonkeyPatch.context() as patch:
        if folder.exists():
            return folder
        made = tmp_path_factory.mktemp("made")
        write_benchmark(made)
        for name in ("HOME", "CHECKPOINTS", "CARDS", "PARAMS"):
            patch.setenv(f"TRAUBE_{name}", str(made / PLACES[name]))
        without_servers(patch)
        publish_one_table(patch)
        connect(default_uri())
        with DagsterLauncher(SILENT) as launcher:
            requested = Request(["words"], ["bow"], "tiny", load_params().chosen("tiny"))
            steps: dict[str, Callable[[], list[str]]] = {
                "new": list,
                "read": lambda: launcher.datasets(["words"]),
                "evaluated": lambda: launcher.evaluate("bow", ["words"], requested),
                "published": launcher.publish,
                "challenged": launcher.publish,
            }
            for name, step in steps.items():
                assert step() == []
                shutil.copytree(made / "home", made / "templates" / name, symlinks=True)
        (made / "made_in").write_text(str(made / "home"))
        (made / "made_in").rename(made / "templates" / "made_in")
        (made / "templates").rename(folder)
    return folder


def begin_with(request: pytest.FixtureRequest, templates: Path) -> None:
    """Make TRAUBE_HOME a copy of the one of the `templates` that `@pytest.mark.begin_with` names, or of `new`."""
    marker = request.node.get_closest_marker("begin_with")
    copy_template(templates, marker.args[0] if marker else "new", paths.home())


def copy_template(templates: Path, template: str, home: Path) -> None:
    """Make a home as one of the `templates`."""
    made_in = (templates / "made_in").read_text()
    shutil.copytree(templates / template, home, symlinks=True, dirs_exist_ok=True)
    with closing(sqlite3.connect(home / "mlflow.db")) as database, database:  # MLflow keeps absolute paths
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for _, column, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
                if "CHAR" in kind:
                    change = f"UPDATE {table} SET {column} = replace({column}, ?, ?) WHERE {column} LIKE ?"
                    database.execute(change, (made_in, str(home), f"%{made_in}%"))


@pytest.fixture
def traube(cards: Path, templates: Path, request: pytest.FixtureRequest) -> Traube:
    """Call the command, in a new home or in what `@pytest.mark.begin_with` names of the `templates`; its result."""
    from typer.testing import CliRunner

    from traube._cli.main import app

    begin_with(request, templates)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def launcher(cards: Path, templates: Path, request: pytest.FixtureRequest) -> Iterator[DagsterLauncher]:
    """A launcher in a new home, or in what `@pytest.mark.begin_with` names of the `templates`."""
    from operations.launch import DagsterLauncher
    from traube._core.progress import SILENT

    begin_with(request, templates)
    with DagsterLauncher(SILENT) as launcher:
        yield launcher


@pytest.fixture
def request_for() -> Callable[..., Request]:
    """Make a request of tasks and models under the protocol `tiny`."""
    from traube._pipeline.params import load_params
    from traube._pipeline.request import Request

    def make(tasks: list[str], models: list[str]) -> Request:
        return Request(tasks, models, "tiny", load_params().chosen("tiny"))

    return make


@pytest.fixture
def storage() -> Storage:
    from traube._storage import open_storage

    return open_storage(paths.home())


@pytest.fixture
def planned(storage: Storage, request_for: Callable[..., Request]) -> Callable[..., Plan]:
    from traube._pipeline.survey import plan

    return lambda tasks, models=("bow",): plan(request_for(list(tasks), list(models)), storage)
