"""Alerts go to https or to this machine, to nobody else, and their address is shown to nobody."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from resources.webhook import post
from tests.servers import read_json, respond, serve


class Receiver:
    """A webhook on this machine, which remembers what it got and gives prepared answers."""

    def __init__(self, servers: ExitStack, status: int = 204, location: str = "") -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []

        def answer(request: BaseHTTPRequestHandler) -> None:
            posted = read_json(request) if request.command == "POST" else {}
            self.received.append((request.path, posted))
            respond(request, status, headers={"Location": location} if location else {})

        self.address = servers.enter_context(serve(answer))
        self.url = f"{self.address}/hook/secret?token=secret"


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    with ExitStack() as servers:
        yield lambda *answer: Receiver(servers, *answer)


def test_a_message_is_posted_as_json(receive: Callable[..., Receiver]) -> None:
    receiver = receive()
    assert post(receiver.url, {"text": "a run failed"}) == ""
    assert receiver.received == [("/hook/secret?token=secret", {"text": "a run failed"})]


def test_a_proxy_gets_nothing_for_this_machine(
    receive: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, proxy = receive(), receive()
    monkeypatch.setenv("http_proxy", proxy.address)
    monkeypatch.setenv("no_proxy", "")
    assert post(receiver.url, {}) == ""
    assert receiver.received and not proxy.received


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receive: Callable[..., Receiver], status: int) -> None:
    elsewhere = receive()
    receiver = receive(status, elsewhere.url)
    assert post(receiver.url, {}) == f"http://127.0.0.1 answered with status {status}; the alert was not posted"
    assert receiver.received and not elsewhere.received


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/secret",  # anyone on the way reads it
        "http://localhost.example/secret",
        "http://127.0.0.1@hooks.example/secret",
        "http://127.0.0.1.hooks.example/secret",
        "ftp://127.0.0.1/secret",
        "file:///secret",
        "//127.0.0.1/secret",
        "secret",
        "https://",
        "http://[x",
        "http://[x]/secret",
        "https://hooks.example:port/secret",
        "https://hooks.example:99999/secret",
    ],
)
def test_any_other_address_is_refused(url: str) -> None:
    error = post(url, {})
    assert error and "secret" not in error and ":99999" not in error


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:9/secret?token=secret",
        "https://user:secret@127.0.0.1:9/",
        "http://localhost:9/secret",
        "http://[::1]:9/secret",
        "https://127.0.0.1:9/s\u00e9cret secret",
        "https://127.0.0.1:9/secret\nsecret",
        "https://\u200bsecret.\udc80",
    ],
)
def test_what_cannot_be_reached_is_one_line_without_path_or_port(url: str) -> None:
    error = post(url, {})
    assert "could not be reached" in error and "\n" not in error
    assert ":9" not in error and "/s" not in error and "token" not in error and "user" not in error
