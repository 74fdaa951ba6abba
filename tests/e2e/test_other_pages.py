"""While `traube dev` runs, its user opens a page of somebody else's in a real browser: the page tries
to delete his runs, and nothing happens. His own pages can.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import dagster as dg
import pytest

from tests.e2e.conftest import NEEDS_BROWSER, Running, wait_for

pytestmark = [pytest.mark.e2e, NEEDS_BROWSER]

PAGE = """<!doctype html><title>trying</title><body><script>
const TARGET = JSON.parse('%s')
const {graphql, mlflow, query} = TARGET
const json = JSON.stringify({query})
const asked = `${graphql}?query=${encodeURIComponent(query)}`
const soon = promise => Promise.race([promise, new Promise(done => setTimeout(done, 3000, "no answer"))])
const form = (method, enctype, action, name, value) => new Promise(done => {
  const frame = document.createElement("iframe")
  frame.name = `frame${document.querySelectorAll("iframe").length}`
  document.body.append(frame)
  const made = document.body.appendChild(document.createElement("form"))
  Object.assign(made, {method, enctype, action, target: frame.name})
  const field = made.appendChild(document.createElement("textarea"))
  Object.assign(field, {name, value})
  frame.onload = () => done("loaded")
  made.submit()
})
const shown = (tag, src) => new Promise(done => {
  const made = document.createElement(tag)
  made.onload = () => done("loaded")
  made.onerror = () => done("failed")
  made.src = src
  document.body.append(made)
})
const sent = (url, body, type, mode, method = "POST") =>
  fetch(url, {method, mode, body, headers: type ? {"Content-Type": type} : {}}).then(r => r.type, () => "failed")
const socket = () => new Promise(done => {
  const made = new WebSocket(graphql.replace("http", "ws"), "graphql-ws")
  made.onopen = () => {
    made.send(JSON.stringify({type: "connection_init"}))
    made.send(JSON.stringify({type: "start", id: "1", payload: {query}}))
    setTimeout(done, 1000, "opened")
  }
  made.onerror = () => done("refused")
})
const attacks = {
  image: () => shown("img", asked),
  script: () => shown("script", asked),
  frame: () => shown("iframe", asked),
  get: () => sent(asked, undefined, "", "no-cors", "GET"),
  link: () => form("get", "", graphql, "query", query),
  plain: () => form("post", "text/plain", graphql, json.slice(0, -1) + ', "x": "', '"}'),
  urlencoded: () => form("post", "application/x-www-form-urlencoded", graphql, "query", query),
  multipart: () => form("post", "multipart/form-data", asked, "query", query),
  post: () => sent(asked, "", "", "no-cors"),
  text: () => sent(graphql, json, "text/plain", "no-cors"),
  disguised: () => sent(graphql, json, "text/plain; application/json", "no-cors"),
  json: () => sent(graphql, json, "application/json", "cors"),
  beacon: () => navigator.sendBeacon(asked, new Blob([json], {type: "text/plain"})),
  socket,
  mlflow: () => sent(`${mlflow}/api/2.0/mlflow/runs/delete`, TARGET.body, "application/json", "cors"),
  mlflow_text: () => sent(`${mlflow}/ajax-api/2.0/mlflow/runs/delete`, TARGET.body, "text/plain", "no-cors"),
}
const outcomes = {};
(async () => {
  for (const [name, attack] of Object.entries(attacks)) outcomes[name] = await soon(attack())
  document.title = "tried"
})()
</script>"""


@pytest.fixture
def somebodys_port(running: Running, dagster_run: str, mlflow_run: str) -> Iterator[int]:
    """A web server of somebody else's, each of whose pages tries everything."""
    target = {
        "graphql": f"{running.dagster}/graphql",
        "mlflow": running.mlflow,
        "query": deletion(dagster_run),
        "body": json.dumps({"run_id": mlflow_run}),
    }
    page = (PAGE % json.dumps(target).replace("\\", "\\\\")).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


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
    wait_for(lambda: browser.title == "tried", "trying everything", 120)
    outcomes = browser.execute_script("return outcomes")
    assert outcomes["socket"] == "refused"
    assert outcomes["json"] == outcomes["mlflow"] == "failed"
    browser.get(f"{running.dagster}/graphql?query={quote(deletion(dagster_run))}")  # a link that somebody follows
    assert dagster_run in dagster_runs(running), outcomes
    assert mlflow_run in mlflow_runs(running), outcomes


def test_a_name_of_somebody_elses_that_leads_here_shows_nothing(running: Running, browser: Any) -> None:
    for address in (running.dagster, running.mlflow):
        browser.get(address.replace("127.0.0.1", "evil.example"))
        assert "refused: this is 127.0.0.1" in browser.page_source


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
