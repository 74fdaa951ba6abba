"""Nobody but the user drives the servers: what a browser says of the page that asks decides."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from operations.guard import Guard
from operations.servers import ASSISTANT, with_pages

PORT = 3000
OURS = f"http://127.0.0.1:{PORT}"
JSON = {"Content-Type": "application/json"}
DELETE = {"query": 'mutation { deletePipelineRun(runId: "1") { __typename } }'}
reached: list[str] = []


async def page(request: Request) -> PlainTextResponse:
    reached.append(request.method)
    return PlainTextResponse("done")


async def talk(websocket: WebSocket) -> None:
    reached.append("websocket")
    await websocket.accept()
    await websocket.send_text("done")
    await websocket.close()


METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
ROUTES = [WebSocketRoute("/graphql", talk), Route("/{path:path}", page, methods=METHODS)]


@pytest.fixture(autouse=True)
def nothing_reached() -> None:
    reached.clear()


def client(address: str = OURS) -> TestClient:
    return TestClient(Guard(Starlette(routes=ROUTES), PORT), base_url=address)


def connect(origin: str, address: str = OURS) -> str:
    """Return what a page of some origin receives over a WebSocket."""
    headers = {"Origin": origin, **of_site("same-origin", "websocket", "websocket")}
    url = f"{address.replace('http', 'ws')}/graphql"
    with client(address).websocket_connect(url, headers=headers) as socket:
        return socket.receive_text()


def of_site(site: str, mode: str = "cors", dest: str = "empty") -> dict[str, str]:
    """Return the headers by which browsers describe a request and the page that makes it."""
    return {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}


# what the user's own pages and programs do


@pytest.mark.parametrize("address", [OURS, f"http://localhost:{PORT}"])
def test_the_ui_queries_and_changes_things(address: str) -> None:
    headers = {**JSON, **of_site("same-origin"), "Origin": address}
    assert client(address).post("/graphql", json=DELETE, headers=headers).status_code == 200
    assert client(address).get("/runs", headers=of_site("none", "navigate", "document")).status_code == 200
    assert connect(address, address) == "done"
    assert reached == ["POST", "GET", "websocket"]


def test_a_program_without_any_page_is_served() -> None:
    assert client().get("/graphql", headers={"Accept": "text/html"}).status_code == 200
    assert client().post("/graphql", json=DELETE).status_code == 200
    assert client().delete("/api/2.0/mlflow-artifacts/artifacts/x").status_code == 200
    assert client().post("/x", content="{}", headers={"Content-Type": "application/json; charset=utf-8"}).is_success


def test_a_link_in_another_page_opens_the_ui() -> None:
    assert client().get("/runs/1", headers=of_site("cross-site", "navigate", "document")).status_code == 200


def test_what_is_switched_off_answers_nobody() -> None:
    """MLflow's assistant runs commands for whoever is on this machine."""
    closed = TestClient(Guard(Starlette(routes=ROUTES), PORT, closed=ASSISTANT), base_url=OURS)
    for method in METHODS:
        answer = closed.request(method, "/ajax-api/3.0/mlflow/assistant/message", headers=JSON)
        assert answer.status_code == 403
    assert reached == []
    assert closed.get("/ajax-api/3.0/mlflow/server-info").status_code == 200


# what other pages do


@pytest.mark.parametrize(
    "host",
    ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:3001", f"localhost.evil.example:{PORT}", ""],
)
def test_a_name_of_somebody_elses_that_leads_here_is_refused(host: str) -> None:
    answer = client().get("/", headers={"Host": host})
    assert answer.status_code == 403
    assert answer.text.startswith("refused: this is 127.0.0.1:3000 or localhost:3000") and answer.text.count("\n") == 1
    assert reached == []


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://127.0.0.1:8888",
        "https://127.0.0.1:3000",
        f"http://evil.example, {OURS}",
    ],
)
def test_another_page_is_refused(origin: str) -> None:
    assert client().post("/graphql", json=DELETE, headers={"Origin": origin}).status_code == 403
    assert client().get("/", headers={"Origin": origin}).status_code == 403
    with pytest.raises(WebSocketDisconnect):
        connect(origin)
    assert reached == []


@pytest.mark.parametrize(
    "said",
    [
        of_site("cross-site", "no-cors", "image"),
        of_site("same-site", "no-cors", "empty"),  # another port of this machine
        of_site("cross-site", "navigate", "iframe"),  # a frame in which somebody clicks what he does not see
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_pages_show_no_part_of_the_ui(said: dict[str, str]) -> None:
    assert client().get("/runs", headers=said).status_code == 403
    assert reached == []


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain; application/json", ""],
)
def test_a_form_changes_nothing_even_where_a_browser_says_nothing_of_its_page(kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    assert client().post("/graphql", content=b'{"query": "mutation {}"}', headers=headers).status_code == 403
    assert client().post("/graphql", params=DELETE, headers=headers).status_code == 403
    assert reached == []


def test_an_address_changes_nothing() -> None:
    image = of_site("same-origin", "no-cors", "image")
    link = of_site("cross-site", "navigate", "document")
    for headers in (image, link, {}):
        assert client().get("/graphql", params=DELETE, headers=headers).status_code == 403
    assert client().get("/%67raphql", params=DELETE).status_code == 403
    assert reached == []


# any mixture

SOUND: dict[str, st.SearchStrategy[Any]] = {
    "host": st.sampled_from(["127.0.0.1:3000", "localhost:3000"]),
    "origin": st.sampled_from([None, OURS, "http://localhost:3000"]),
    "sec-fetch-site": st.sampled_from([None, "same-origin", "none"]),
    "sec-fetch-mode": st.sampled_from([None, "cors", "navigate", "no-cors", "websocket"]),
    "sec-fetch-dest": st.sampled_from([None, "empty", "document", "iframe", "image"]),
    "content-type": st.sampled_from(["application/json", "application/json;charset=UTF-8"]),
}
FOREIGN = {
    "host": ["evil.example:3000", "127.0.0.1:3001", None],
    "origin": ["null", "http://evil.example", "http://localhost:3001", "http://127.0.0.1"],
    "sec-fetch-site": ["cross-site", "same-site", "anything else"],
    "content-type": ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None],
}


def refusal(headers: dict[str, str | None], kind: str, method: str) -> str:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items() if value is not None]
    scope = {"type": kind, "method": method, "path": "/graphql", "query_string": b"", "headers": pairs}
    return Guard(Starlette(), PORT).refusal(scope)


@given(st.fixed_dictionaries(SOUND), st.sampled_from(["http", "websocket"]), st.sampled_from(["GET", "POST", "PUT"]))
def test_always_what_is_ours_in_every_header_is_served(headers: dict[str, str | None], kind: str, method: str) -> None:
    assert refusal(headers, kind, method) == ""


@given(st.data(), st.fixed_dictionaries(SOUND), st.sampled_from(["http", "websocket"]))
def test_always_one_foreign_header_is_enough_to_be_refused(
    data: st.DataObject, headers: dict[str, str | None], kind: str
) -> None:
    headers = headers | data.draw(
        st.fixed_dictionaries({}, optional={n: st.sampled_from(v) for n, v in FOREIGN.items()})
    )
    name = data.draw(st.sampled_from([n for n in FOREIGN if kind == "http" or n != "content-type"]))
    headers[name] = data.draw(st.sampled_from(FOREIGN[name]))
    assert refusal(headers, kind, "POST")


@given(st.data(), st.sampled_from(["host", "origin", "sec-fetch-site"]))
def test_always_a_header_given_twice_is_refused(data: st.DataObject, name: str) -> None:
    values = [data.draw(SOUND[name].filter(bool)), data.draw(SOUND[name].filter(bool))]
    pairs = [(name.encode(), value.encode()) for value in values]
    pairs += [(b"host", b"127.0.0.1:3000")] if name != "host" else []
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": pairs}
    assert Guard(Starlette(), PORT).refusal(scope)


def test_reports_are_served_beside_the_ui_and_nothing_else_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "words.html").write_text("the page of words")
    (tmp_path / "report" / "words.html.lock").write_text("a lock")
    (tmp_path / "quality" / "validations" / "latest").mkdir(parents=True)
    (tmp_path / "quality" / "validations" / "latest" / "index.html").write_text("what checks found")
    (tmp_path / "mlflow.db").write_text("a secret")
    app = Guard(with_pages(Starlette(routes=ROUTES), tmp_path), PORT)
    with TestClient(app, base_url=OURS) as user:
        assert user.get("/traube/words.html").text == "the page of words"
        docs = user.get("/traube/quality/validations/latest/index.html")
        assert (docs.text, docs.headers["Content-Security-Policy"]) == ("what checks found", "sandbox")
        assert "Content-Security-Policy" not in user.get("/traube/words.html").headers
        assert "`traube report TASK` makes" in user.get("/traube/other.html").text
        assert user.get("/traube/words.html.lock").status_code == 404
        for way_out in ("/traube/../mlflow.db", "/traube/%2e%2e/mlflow.db", "/traube/..%2fmlflow.db"):
            assert "secret" not in user.get(way_out).text
        assert user.get("/runs").text == "done"
        other = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}
        assert user.get("/traube/words.html", headers=other).status_code == 403


def test_a_home_without_reports_has_no_pages_yet(tmp_path: Path) -> None:
    app = Guard(with_pages(Starlette(routes=ROUTES), tmp_path), PORT)
    with TestClient(app, base_url=OURS) as user:
        for path in ("/traube/", "/traube/words.html", "/traube/x"):
            assert user.get(path).status_code == 404
        (tmp_path / "report").mkdir()
        (tmp_path / "report" / "index.html").write_text("all tasks")
        assert user.get("/traube/").text == "all tasks"
