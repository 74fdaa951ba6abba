"""The library's own launcher and the platform's do the same work, to the digit and in the same words."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import Result

from operations.launch import DagsterLauncher
from tests.platform.conftest import word_rows, write_task
from traube._cli import platform
from traube._cli.launcher import LocalLauncher
from traube._cli.platform import Launcher
from traube._core import paths
from traube._core.progress import SILENT
from traube._pipeline.request import Request
from traube._pipeline.survey import plan
from traube._reports.tables import CSV, tables_are_current
from traube._storage import CheckRow, Storage, open_storage
from traube.tasks.stored import get_manifest

LAUNCHERS = {"platform": DagsterLauncher, "library": LocalLauncher}
Run = Callable[..., tuple[list[str], list[str], Storage]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Have one of the launchers work in a home of its own; its errors, its notes and the storage."""

    def run(name: str, work: Callable[[Launcher], list[str]], home: str = "") -> tuple[list[str], list[str], Storage]:
        for variable in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI"):
            monkeypatch.delenv(variable, raising=False)
        with monkeypatch.context() as patch:
            patch.setenv("TRAUBE_HOME", str(tmp_path / (home or name)))
            with LAUNCHERS[name](SILENT) as launcher:
                errors = work(launcher)
            return errors, launcher.notes, open_storage(paths.home())

    return run


@pytest.mark.slow
def test_numbers_are_equal(cards: Path, run: Run, request_for: Callable[..., Request]) -> None:
    request = request_for(["words"], ["bow"])

    def work(launcher: Launcher) -> list[str]:
        errors = launcher.datasets(["words"])
        return errors + launcher.evaluate("bow", ["words"], request) + launcher.publish({"words"})

    kept = {}
    for name in LAUNCHERS:
        errors, notes, storage = run(name, work)
        assert (errors, notes) == ([], [])
        assert not plan(request, storage).missing
        assert tables_are_current(storage)
        cells = storage.read_cells("words").sort_values("cell_id", ignore_index=True)
        scores = storage.read_scores(cells, replicates=True).sort_values(["cell_id", "split", "level", "metric"])
        kept[name] = (
            cells.drop(columns=["run_id", "seconds", "total_seconds", "memory", "created"]),
            scores,
            pd.read_csv(storage.get_table_path(CSV)),
        )
    for ours, theirs in zip(kept["library"], kept["platform"], strict=True):
        columns = [column for column in ours if column != "created"]
        pd.testing.assert_frame_equal(ours[columns], theirs[columns], check_exact=True)


@pytest.mark.slow
@pytest.mark.parametrize("more", ["splits: 2", "classes: [9, 12]"])
def test_a_blocking_check_stops_a_task_in_the_same_words(
    cards: Path, run: Run, request_for: Callable[..., Request], more: str
) -> None:
    write_task(cards, "wrong", word_rows(), f"declared: {{{more}}}\n")
    request = request_for(["wrong"], ["bow"])

    def work(launcher: Launcher) -> list[str]:
        return launcher.datasets(["wrong"]) + launcher.evaluate("bow", ["wrong"], request)

    said = {}
    for name in LAUNCHERS:
        errors, _, storage = run(name, work)
        assert storage.read_cells("wrong").empty
        said[name] = [re.sub("; see [^)]*", "", error) for error in errors]
    assert len(said["library"]) == 2  # when it is read, and when it is to be evaluated
    assert said["library"] == said["platform"]


def test_a_check_that_blocks_since_stops_both(cards: Path, run: Run, request_for: Callable[..., Request]) -> None:
    """Findings of the library when it read the task are known to the platform."""
    rows = [*word_rows(), word_rows()[0]]  # a text twice in its split is a warning
    write_task(cards, "twice", rows)
    request = request_for(["twice"], ["bow"])
    errors, notes, storage = run("library", lambda launcher: launcher.datasets(["twice"]))
    assert errors == []
    assert "the check 'texts_once' failed (2 rows)" in notes[0]
    (found,) = storage.read_rows(CheckRow, task="twice", name="splits/texts_once")
    assert not found.passed
    write_task(cards, "twice", rows, "blocking: [texts_once]\n")
    for name in LAUNCHERS:
        errors, _, _ = run(name, lambda launcher: launcher.evaluate("bow", ["twice"], request), home="library")
        assert len(errors) == 1
        assert "twice/splits: " in errors[0] and "'texts_once'" in errors[0]


def test_a_task_that_cannot_be_read_stops_no_other(cards: Path, run: Run) -> None:
    write_task(cards, "empty", [])
    said = {name: run(name, lambda launcher: launcher.datasets(["empty", "words"])) for name in LAUNCHERS}
    assert said["library"][0] == said["platform"][0]
    assert len(said["library"][0]) == 1
    assert get_manifest(said["library"][2], "words") == get_manifest(said["platform"][2], "words")


@pytest.mark.slow
def test_a_first_table_is_shown_while_the_rest_is_computed(
    traube: Callable[..., Result], cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the shortest texts: as soon as two models can be compared, and once all can."""
    monkeypatch.setattr(platform, "part", lambda name: None)  # as in an environment without the platform
    write_task(cards, "longer", [(f"{text} {text}", topic) for text, topic in word_rows()])
    models = ("-m", "bow", "-m", "tfidf", "-m", "lsa")
    said = traube("run", "-t", "longer", "-t", "words", *models, "--method", "none/agglomerative")
    assert said.exit_code == 0, said.output
    shown = re.findall(
        r"Evaluating (\w+): 1 cell on (\w+)|So far; (\d) model to come|^(words), topic", said.stdout, re.M
    )
    assert ["".join(one) for one in shown] == [
        *("bowwords", "tfidfwords", "1", "words", "lsawords", "words"),
        *("bowlonger", "tfidflonger", "lsalonger"),
    ]
