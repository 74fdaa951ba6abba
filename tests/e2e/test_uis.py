"""The real UIs in a real browser, against `traube dev`: what a person would look at in the morning.

With TRAUBE_SCREENSHOTS=<folder> the pages are kept as pictures.
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import NEEDS_BROWSER, Running, wait_for

pytestmark = [pytest.mark.e2e, NEEDS_BROWSER]


@pytest.fixture
def see(browser: Any) -> Callable[..., str]:
    """Open a page and wait until it shows some words; gives all it shows, and keeps a picture if asked to."""

    def look(address: str, *words: str, click: str = "", picture: str = "") -> str:
        browser.get(address)
        if click:
            xpath = f"//*[text()[contains(., '{click}')]]"
            wait_for(lambda: browser.find_elements("xpath", xpath), f"showing {click}", 60)[0].click()

        def shown() -> str:
            text = str(browser.execute_script("return document.body.innerText"))
            return text if all(word in text for word in words) else ""

        try:
            text = str(wait_for(shown, f"showing {words}", 60))
        except AssertionError as error:
            raise AssertionError(
                f"{error}; shown: {browser.execute_script('return document.body.innerText')}"
            ) from None
        folder = os.environ.get("TRAUBE_SCREENSHOTS")
        if folder and picture:
            time.sleep(3)  # charts move in
            browser.save_screenshot(str(Path(folder) / f"{picture}.png"))
        return text

    return look


def test_the_graph_shows_tasks_by_group_and_what_follows_them(running: Running, see: Callable[..., str]) -> None:
    text = see(f"{running.dagster}/asset-groups", "leaderboard", "registry", "report", "pydocs", picture="graph")
    assert "own" in text


def test_scores_are_shown_and_plotted_across_models(running: Running, browser: Any, see: Callable[..., str]) -> None:
    see(f"{running.dagster}/assets/words/scores?view=overview", "best_topic", "mlflow")
    see(f"{running.dagster}/assets/words/scores?view=overview", "best_topic", click="Plots", picture="scores")
    assert wait_for(lambda: browser.find_elements("css selector", "canvas"), "drawing the plot", 60)


def test_a_failed_check_shows_its_offending_rows(running: Running, see: Callable[..., str]) -> None:
    address = f"{running.dagster}/assets/holes/corpus?view=checks&checkDetail=texts_present"
    see(address, "texts_present", "offending_rows", "Failed")  # it may run again: raw data is looked at by itself
    see(address, "row", "text_id", click="Show Markdown", picture="check")


def test_a_checkpoint_put_there_gets_its_row_with_nothing_clicked(
    running: Running, tiny_bert: Path, see: Callable[..., str]
) -> None:
    shutil.copytree(tiny_bert, running.checkpoints / "fresh")
    board = running.home / "store" / "tables" / "leaderboard.csv"
    wait_for(lambda: "fresh" in board.read_text(), "the row on the leaderboard")
    see(f"{running.dagster}/locations/definitions/sensors/new_checkpoints", "1 run requested", picture="sensor")


def test_mlflow_shows_the_champion_and_compares_runs(running: Running, see: Callable[..., str]) -> None:
    from mlflow import MlflowClient

    see(f"{running.mlflow}/#/models/traube-words", "champion", "Version 1", picture="registry")
    client = MlflowClient(f"sqlite:///{running.home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("traube")
    runs = client.search_runs([experiment.experiment_id], "tags.`traube.task` = 'words'")
    parents = [
        run.info.run_id for run in runs if "mlflow.parentRunId" not in run.data.tags and "traube.model" in run.data.tags
    ]
    ids = ",".join(f'"{run}"' for run in parents)
    address = f'{running.mlflow}/#/compare-runs?runs=[{ids}]&experiments=["{experiment.experiment_id}"]'
    see(address, "best/topic", "tfidf", picture="compare")
