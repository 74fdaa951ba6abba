"""Real servers on this machine, which a test can stop and start again."""

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest

PASSWORD = "sesame"


@contextmanager
def serve(answer: Callable[[BaseHTTPRequestHandler], object]) -> Iterator[str]:
    """Answer whatever is requested from a web server on this machine; yields its URL, without a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            answer(self)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def read_json(request: BaseHTTPRequestHandler) -> Any:
    """Return what was posted."""
    return json.loads(request.rfile.read(int(request.headers["Content-Length"])))


def respond(
    request: BaseHTTPRequestHandler,
    status: int = 200,
    body: bytes = b"",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Answer a request."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


class Postgres:
    """A Postgres of its own; `url` lacks a database's name and the password."""

    def __init__(self) -> None:
        pytest.importorskip("psycopg2", reason="psycopg2 is not installed: `make setup-scale`")
        programs = [_program("initdb"), _program("pg_ctl")]
        if None in programs:
            pytest.skip("the programs of Postgres (initdb, pg_ctl) are not on this machine")
        initdb, self._pg_ctl = map(str, programs)
        self.folder = Path(f"/tmp/traube-postgres-{uuid4().hex[:8]}")
        self.folder.mkdir(mode=0o755)
        self._as_user: list[str] = []
        if os.getuid() == 0:  # it refuses to run as root
            self._as_user = ["runuser", "-u", "nobody", "--"]
            shutil.chown(self.folder, "nobody")
        (self.folder / "password").write_text(PASSWORD)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"postgresql://traube@127.0.0.1:{self.port}"
        data, password = self.folder / "data", self.folder / "password"
        self._call(initdb, "-D", data, "-U", "traube", "-A", "scram-sha-256", "--pwfile", password, "-N")
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        folder = self.folder
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        self._call(self._pg_ctl, "-D", folder / "data", "-o", options, "-l", folder / "log", "-w", "start")

    def stop(self) -> None:
        """Stop the server as if its machine had lost its power."""
        self._call(self._pg_ctl, "-D", self.folder / "data", "-m", "immediate", "stop")

    def create_database(self) -> str:
        """Return the URL of an empty database."""
        import psycopg2

        name = f"team_{uuid4().hex[:8]}"
        connection = psycopg2.connect(f"{self.url}/postgres", password=PASSWORD)
        connection.autocommit = True
        connection.cursor().execute(f"CREATE DATABASE {name}")
        connection.close()
        return f"{self.url}/{name}"

    def _call(self, *command: object) -> None:
        subprocess.run([*self._as_user, *map(str, command)], check=True, capture_output=True, cwd=self.folder)


def _program(name: str) -> str | None:
    """A program of Postgres: on the path, or where Debian puts it."""
    return shutil.which(name) or next((str(path) for path in Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), None)
