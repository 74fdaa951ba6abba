"""A small task of the user's own, and a benchmark that asks for it."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from operations.launch import Launcher
from traube.benchmark.params import load_params
from traube.benchmark.plan import Plan, Request, plan
from traube.engine import workers
from traube.engine.progress import SILENT
from traube.foundation import paths
from traube.store import Store

TOPICS = {
    "fruit": ["apple", "pear", "plum", "cherry", "grape", "peach", "quince", "fig", "melon", "berry"],
    "tools": ["hammer", "saw", "drill", "wrench", "chisel", "plane", "file", "clamp", "anvil", "screw"],
    "birds": ["owl", "robin", "swift", "crane", "heron", "stork", "finch", "raven", "eagle", "wren"],
}
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


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cards folder, with the task `words`; and a params.yaml that asks for it."""
    folder = tmp_path / "cards"
    folder.mkdir()
    write_task(folder, "words", word_rows())
    (tmp_path / "params.yaml").write_text(PARAMS)
    monkeypatch.setenv("TRAUBE_CARDS", str(folder))
    monkeypatch.setenv("TRAUBE_PARAMS", str(tmp_path / "params.yaml"))
    return folder


@pytest.fixture
def launcher(cards: Path) -> Iterator[Launcher]:
    with Launcher(SILENT) as launcher:
        yield launcher


@pytest.fixture
def request_for() -> Callable[..., Request]:
    """What is asked for: tasks and models under the protocol `tiny`."""

    def make(tasks: list[str], models: list[str]) -> Request:
        return Request(tasks, models, "tiny", load_params().chosen("tiny"))

    return make


@pytest.fixture
def store() -> Store:
    return Store(paths.home() / "store")


@pytest.fixture
def planned(store: Store, request_for: Callable[..., Request]) -> Callable[..., Plan]:
    return lambda tasks, models=("bow",): plan(request_for(list(tasks), list(models)), store)


@pytest.fixture(scope="session", autouse=True)
def _keep_workers() -> Iterator[None]:
    """A command ends its worker processes early, for it ends itself; here others follow, which need them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "dismiss", lambda: None)
        yield
    workers.stop()
