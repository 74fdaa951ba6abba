"""Pipes that nobody writes to, devices, sockets and folders: each command that takes a file refuses them in a line."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from traube._cli.main import app

TABLE = "text,topic,group\n" + "".join(f"word{i} other{i % 3},t{i % 3},g{i % 3}\n" for i in range(30))
COMMANDS = [
    "cluster {}", "cluster {} -m tfidf --text text", "cluster notes.csv --like {}", "cluster notes.csv --groups {} -m tfidf",
    "cluster notes.csv --name-with ./{}", "run {}", "run -t {}", "leaderboard -t {}", "recommend {}",
    "report {} --print", "provenance {} tfidf", "annotate design {}", "annotate score {}",
    "annotate score notes.csv --design {}", "import {}", "restore {}",
]  # fmt: skip
KINDS = ["pipe", "device", "socket", "folder"]


@pytest.fixture(autouse=True)
def _ends_soon() -> Iterator[None]:
    """Fail where a command waits for what never comes."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("still reading"))
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "notes.csv").write_text(TABLE)
    monkeypatch.setenv("TRAUBE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(kind: str, path: Path) -> None:
    """Make something that is no plain file."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case _:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)  # a whole path would be too long


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_plain_file_is_refused_in_a_line(folder: Path, command: str, kind: str) -> None:
    put(kind, folder / "odd.csv")
    done = CliRunner().invoke(app, command.format("odd.csv").split())
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.output
    assert done.stderr.startswith("error: ") and re.search(r"odd\.csv|/dev/zero", done.stderr)
    assert not list(folder.glob("*.clusters.*"))


@pytest.mark.parametrize(
    "command",
    ["cluster {} -m tfidf -k 2 --no-report", "cluster notes.csv --like {} -m tfidf --no-report", "annotate design {}"],
)
def test_a_link_to_a_plain_file_is_that_file(folder: Path, command: str) -> None:
    """The twin: what people link is read."""
    (folder / "linked.csv").symlink_to("items.csv")
    (folder / "items.csv").write_text("item," + "\n".join(f"{i},{row}" for i, row in enumerate(TABLE.splitlines()))[2:])
    done = CliRunner().invoke(app, command.format("linked.csv").split())
    assert done.exit_code == 0, done.output
