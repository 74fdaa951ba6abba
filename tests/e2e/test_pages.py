"""`traube dev` in a real browser: its user looks at the pages of the UIs; pages of somebody else's, opened in the same
browser, try to delete his runs, and nothing happens.

With TRAUBE_SCREENSHOTS=<folder> the pages of the UIs are kept as pictures.
"""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import dagster as dg
import psutil
import pytest

from tests.e2e.conftest import NEEDS_BROWSER, TRAUBE, Running, belongs, environment_in
from tests.servers import respond, serve
from tests.waiting import wait_for
from traube._pipeline.executors.loky import IDLE_SECONDS

pytestmark = [pytest.mark.e2e, NEEDS_BROWSER]
ATTACKS = Path(__file__).with_name("attacks.html")


def list_workers(running: Running) -> list[psutil.Process]:
    """The processes that work for runs; they shall end with these."""
    processes = (process for process in psutil.process_iter(["cmdline"]) if belongs(process, running.home.parent))
    return [process for process in processes if "loky" in " ".join(process.info["cmdline"] or ())]


@pytest.fixture
def see(browser: Any) -> Callable[..., str]:
    """Open a page and wait until it shows some words; gives all it shows, and keep a picture if TRAUBE_SCREENSHOTS is set."""

    def look(address: str, *words: str, click: str = "", picture: str = "") -> str:
        browser.get(address)
        if click:
            xpath = f"//*[text()[contains(., '{click}')]]"
            wait_for(lambda: browser.find_elements("xpath", xpath), f"showing {click}")[0].click()

        def shown() -> str:
            text = str(browser.execute_script("return document.body.innerText"))
            return text if all(word in text for word in words) else ""

        try:
            text = str(wait_for(shown, f"showing {words}"))
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
    see(f"{running.dagster}/asset-groups", "words", "holes", "trainer_wwm", picture="graph")
    of_trainer = f"{running.dagster}/locations/definitions/asset-groups/trainer_wwm/list"
    see(of_trainer, "wwm_checkpoints")  # the graph holds what is in view alone
    of_task = f"{running.dagster}/locations/definitions/asset-groups/words/lineage"
    see(of_task, "corpus", "splits", "embeddings", "scores", "leaderboard", picture="task")


def test_runs_of_the_command_line_stand_among_those_of_their_job_and_can_be_repeated(
    running: Running, see: Callable[..., str]
) -> None:
    known = dagster_runs(running)  # of `traube run`, before the servers were started
    see(f"{running.dagster}/overview/activity/timeline", "evaluate", "publish", picture="overview")
    see(f"{running.dagster}/locations/definitions/jobs/evaluate/runs", known[-1][:8], "Success", picture="job")
    see(f"{running.dagster}/runs/{known[-1]}", "words__scores", click="Re-execute all", picture="run")
    (again,) = wait_for(lambda: {*dagster_runs(running)} - {*known}, "the run that repeats it")
    with dg.DagsterInstance.from_config(str(running.home / "dagster")) as instance:
        repeated = instance.get_run_by_id(again)
        assert repeated and repeated.parent_run_id == known[-1]
        wait_for(lambda: instance.get_run_by_id(again).status == dg.DagsterRunStatus.SUCCESS, "its end")  # type: ignore[union-attr]


def ask(running: Running, query: str) -> dict[str, Any]:
    """Dagster's answer in GraphQL, as its pages ask."""
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{running.dagster}/graphql", json.dumps({"query": query}).encode(), headers)) as answered:
        return dict(json.load(answered)["data"])


MATERIALIZE = """
mutation { launchRun(executionParams: {
  selector: {repositoryLocationName: "definitions", repositoryName: "__repository__", jobName: "__ASSET_JOB",
             assetSelection: [{path: ["holes", "embeddings"]}]},
  executionMetadata: {tags: [{key: "dagster/partition", value: "bow"}]}
}) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }
"""


BACKFILL = """
mutation { launchPartitionBackfill(backfillParams: {
  assetSelection: [{path: ["holes", "embeddings"]}], partitionNames: ["tfidf"]
}) { __typename ... on PythonError { message } } }
"""


def test_every_failed_run_raises_an_alert(running: Running) -> None:
    def summaries() -> set[str]:
        file = running.home / "alerts.jsonl"
        return {json.loads(line)["summary"] for line in file.read_text().splitlines()} if file.exists() else set()

    known = summaries()
    trained = [TRAUBE, "train", "wwm", "words", "-m", "bow"]  # which is no encoder
    assert subprocess.run(trained, env=environment_in(running.home.parent), capture_output=True).returncode == 1
    assert ask(running, MATERIALIZE)["launchRun"]["__typename"] == "LaunchRunSuccess"  # what the page's button does
    assert ask(running, BACKFILL)["launchPartitionBackfill"]["__typename"] == "LaunchBackfillSuccess"  # by the daemon
    # the task `holes` is broken: one alert, whichever of its models fails first
    of_task = {"materialization of bow failed", "materialization of tfidf failed"}
    wait_for(lambda: "train of words failed" in summaries() - known, "the alert of the training")
    wait_for(lambda: (summaries() - known) & of_task, "the alert of the broken task")


def test_tonights_tick_can_be_tried_and_starts_nothing(running: Running, browser: Any, see: Callable[..., str]) -> None:
    """The steps of docs/how-to/automation.md."""
    known = dagster_runs(running)
    address = f"{running.dagster}/locations/definitions/schedules/nightly_benchmark"
    see(address, "Select an evaluation time", click="Preview tick result")
    browser.find_element("xpath", "//*[text()='Continue']").click()
    body = "return document.body.innerText"
    text = str(wait_for(lambda: "Try again" in (text := browser.execute_script(body)) and text, "the result"))
    assert "nothing is missing" in text
    assert dagster_runs(running) == known


def test_scores_are_shown_and_plotted_across_models(running: Running, browser: Any, see: Callable[..., str]) -> None:
    see(f"{running.dagster}/assets/words/scores?view=overview", "best_topic", "mlflow")
    see(f"{running.dagster}/assets/words/scores?view=overview", "best_topic", click="Plots", picture="scores")
    assert wait_for(lambda: browser.find_elements("css selector", "canvas"), "drawing the plot")


CHECKS = """
{ assetNodeOrError(assetKey: {path: ["holes", "corpus"]}) { ... on AssetNode {
    assetChecksOrError { ... on AssetChecks { checks { name canExecuteIndividually } } } } } }
"""


def test_a_failed_check_shows_its_offending_rows_and_can_run_again(
    running: Running, browser: Any, see: Callable[..., str]
) -> None:
    checks = ask(running, CHECKS)["assetNodeOrError"]["assetChecksOrError"]["checks"]
    assert {check["name"]: check["canExecuteIndividually"] for check in checks}["no_mojibake"] == "CAN_EXECUTE"
    address = f"{running.dagster}/assets/holes/corpus?view=checks&checkDetail=no_mojibake"
    see(address, "no_mojibake", "offending_rows", "Failed")  # it may run again: raw data is looked at by itself
    link = browser.find_element("xpath", "//a[contains(@href, '/traube/quality/')]").get_attribute("href")
    with urlopen(link) as data_docs:
        assert "Expectation" in data_docs.read().decode()
    see(address, "row", "text_id", click="Show Markdown", picture="check")


UNFINISHED = (
    "{ runsOrError(filter: {statuses: [QUEUED, STARTING, STARTED, CANCELING]}) { ... on Runs { results { id } } } }"
)


def test_a_checkpoint_put_there_gets_its_row_with_nothing_clicked(
    running: Running, tiny_bert: Path, see: Callable[..., str]
) -> None:
    shutil.copytree(tiny_bert, running.checkpoints / "fresh")
    board = running.home / "tables" / "leaderboard.csv"
    wait_for(lambda: "fresh" in board.read_text(), "the row on the leaderboard")
    see(f"{running.dagster}/locations/definitions/sensors/new_checkpoints", "1 run requested", picture="sensor")
    wait_for(lambda: not ask(running, UNFINISHED)["runsOrError"]["results"], "the end of all runs")
    assert len(ask(running, "{ runsOrError { ... on Runs { results { id } } } }")["runsOrError"]["results"]) >= 6
    # idle workers would end by themselves, but later
    wait_for(lambda: not list_workers(running), "the end of their workers", IDLE_SECONDS / 4)


def test_mlflow_shows_the_champion_and_compares_runs(running: Running, browser: Any, see: Callable[..., str]) -> None:
    from mlflow import MlflowClient

    see(f"{running.mlflow}/#/models/traube-words", "champion", "Version 1", "All of words", picture="registry")
    link = browser.find_element("xpath", "//a[text()='All of words']").get_attribute("href")
    for address in (link, link.replace(running.mlflow, running.dagster)):
        with urlopen(address) as page:  # nothing but `traube run` ran before
            assert "minibatch_kmeans" in page.read().decode()
    client = MlflowClient(f"sqlite:///{running.home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("traube")
    runs = client.search_runs([experiment.experiment_id], "tags.`traube.task` = 'words'")
    parents = [
        run.info.run_id for run in runs if "mlflow.parentRunId" not in run.data.tags and "traube.model" in run.data.tags
    ]
    ids = ",".join(f'"{run}"' for run in parents)
    address = f'{running.mlflow}/#/compare-runs?runs=[{ids}]&experiments=["{experiment.experiment_id}"]'
    see(address, "best/topic", "tfidf", picture="compare")


def test_the_printed_link_shows_runs_and_the_registry_to_a_fresh_browser(running: Running, fresh_browser: Any) -> None:
    (link,) = re.findall(r"MLflow: (\S+)", (running.home.parent / "dev.log").read_text())
    fresh_browser.get(link)

    def shown() -> bool:
        text = str(fresh_browser.execute_script("return document.body.innerText"))
        return all(words in text for words in ("words x bow", "words x tfidf", "Model registry"))

    wait_for(shown, "runs, and the registry in the sidebar")


def test_the_assistant_of_mlflow_is_switched_off(running: Running) -> None:
    with pytest.raises(HTTPError, match="403"):
        urlopen(f"{running.mlflow}/ajax-api/3.0/mlflow/assistant/config")


@pytest.fixture
def somebodys_port(running: Running, dagster_run: str, mlflow_run: str) -> Iterator[int]:
    """A web server of somebody else's, each of whose pages tries everything."""
    target = {
        "graphql": f"{running.dagster}/graphql",
        "mlflow": running.mlflow,
        "query": deletion(dagster_run),
        "body": json.dumps({"run_id": mlflow_run}),
    }
    page = (ATTACKS.read_text() % json.dumps(target).replace("\\", "\\\\")).encode()
    headers = {"Content-Type": "text/html; charset=utf-8"}
    with serve(lambda request: respond(request, body=page, headers=headers)) as url:
        yield int(url.rpartition(":")[2])


def deletion(run: str) -> str:
    return f'mutation {{ deletePipelineRun(runId: "{run}") {{ __typename }} }}'


def dagster_runs(running: Running) -> list[str]:
    with dg.DagsterInstance.from_config(str(running.home / "dagster")) as instance:
        return [run.run_id for run in instance.get_runs(dg.RunsFilter(job_name="evaluate"))]


def mlflow_runs(running: Running) -> list[str]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{running.home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("traube")
    return [run.info.run_id for run in client.search_runs([experiment.experiment_id])]


@pytest.fixture
def dagster_run(running: Running) -> str:
    return dagster_runs(running)[0]


@pytest.fixture
def mlflow_run(running: Running) -> str:
    return mlflow_runs(running)[0]


@pytest.mark.parametrize("name", ["evil.example", "localhost", "127.0.0.1"])
def test_a_page_of_somebody_elses_changes_nothing(
    running: Running, browser: Any, somebodys_port: int, dagster_run: str, mlflow_run: str, name: str
) -> None:
    browser.get(f"http://{name}:{somebodys_port}/")
    wait_for(lambda: browser.title == "tried", "trying everything")
    outcomes = browser.execute_script("return outcomes")
    assert outcomes["socket"] == "refused"
    assert outcomes["json"] == outcomes["mlflow"] == "failed"
    browser.get(f"{running.dagster}/graphql?query={quote(deletion(dagster_run))}")  # a link that somebody follows
    assert dagster_run in dagster_runs(running), outcomes
    assert mlflow_run in mlflow_runs(running), outcomes


def test_a_name_of_somebody_elses_that_leads_here_shows_nothing(running: Running, browser: Any) -> None:
    for address in (running.dagster, running.mlflow):
        browser.get(address.replace("127.0.0.1", "evil.example"))
        wait_for(lambda: "refused: this is 127.0.0.1" in browser.page_source, "refusing")


def test_the_users_own_page_queries_changes_and_listens(running: Running, browser: Any, dagster_run: str) -> None:
    browser.get(f"{running.dagster}/runs")
    answer = browser.execute_async_script(
        """
        const [query, done] = arguments
        const socket = new WebSocket(location.origin.replace("http", "ws") + "/graphql", "graphql-ws")
        const opened = new Promise(done => { socket.onopen = () => done(true); socket.onerror = () => done(false) })
        const headers = {"Content-Type": "application/json"}
        fetch("/graphql", {method: "POST", headers, body: JSON.stringify({query})})
          .then(async response => done({socket: await opened, ...await response.json()}))
        """,
        deletion(dagster_run),
    )
    assert answer == {"socket": True, "data": {"deletePipelineRun": {"__typename": "DeletePipelineRunSuccess"}}}
    assert dagster_run not in dagster_runs(running)
