"""Real servers: `traube dev` on a small benchmark, in a home of its own."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.platform.conftest import PARAMS, copy_template, word_rows, write_task
from tests.waiting import PATIENCE, wait_for

TRAUBE = Path(sys.executable).with_name("traube")
CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
NEEDS_BROWSER = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver (see CONTRIBUTING.md)"
)


@dataclass
class Running:
    """`traube dev` at work.

    Attributes
    ----------
    dagster, mlflow : addresses
    home, checkpoints : folders
    """

    dagster: str
    mlflow: str
    home: Path
    checkpoints: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def environment_in(folder: Path) -> dict[str, str]:
    """Everything below one folder."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("DAGSTER_HOME", "MLFLOW_TRACKING"))}
    return {
        **ours,
        "TRAUBE_WORKERS": "2",
        "TRAUBE_HOME": str(folder / "home"),
        "TRAUBE_CARDS": str(folder / "cards"),
        "TRAUBE_PARAMS": str(folder / "params.yaml"),
        "TRAUBE_CHECKPOINTS": str(folder / "checkpoints"),
    }


ADDRESSES = re.compile(r"Dagster: http://127\.0\.0\.1:(?P<dagster>\d+)\S* MLflow: http://127\.0\.0\.1:(?P<mlflow>\d+)")


class Servers:
    """`traube dev`, started and stopped."""

    def __init__(self, folder: Path, ports: tuple[int, int] | None = None) -> None:
        self.folder = folder
        self.ports = ports or (free_port(), free_port())
        self.log = folder / "dev.log"
        with self.log.open("a") as file:
            self.before = file.tell()  # what others in the folder wrote
            command = [TRAUBE, "dev", "--port", str(self.ports[0]), "--mlflow-port", str(self.ports[1])]
            self.process = subprocess.Popen(
                command, env=environment_in(folder), stdout=file, stderr=file, start_new_session=True
            )

    def wait(self) -> "Servers":
        """Until both answer, at other ports than those requested where another process took one meanwhile."""
        found = wait_for(lambda: ADDRESSES.search(self.said()), "starting the servers")
        self.ports = int(found["dagster"]), int(found["mlflow"])
        assert all(map(answers, self.ports))
        return self

    def said(self) -> str:
        """Return what was written since these servers were started, in one line."""
        return " ".join(self.log.read_bytes()[self.before :].decode().split())

    def stop(self, by: signal.Signals = signal.SIGINT) -> None:
        """Ctrl-C, or another signal, after which nothing may be left."""
        self.process.send_signal(by)
        assert self.process.wait(PATIENCE) == 128 + by, self.log.read_text()[-2000:]
        wait_for(lambda: not self.processes(), "the end of what the servers started")

    def processes(self, part: str = "") -> list[psutil.Process]:
        """Return the processes of this data directory with these words in their command."""
        return [p for p in psutil.process_iter() if belongs(p, self.folder) and part in " ".join(p.cmdline())]

    def kill(self, part: str = "") -> int:
        """kill -9; returns how many processes."""
        found = self.processes(part)
        for process in found:
            process.kill()
        return len(found)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, templates: Path) -> Iterator[Running]:
    """Two models evaluated on a good task, and a task with bad data; then the servers."""
    folder = tmp_path_factory.mktemp("e2e")
    copy_template(templates, "new", folder / "home")
    (folder / "cards").mkdir()
    write_task(folder / "cards", "words", word_rows())
    write_task(
        folder / "cards",
        "holes",
        [*word_rows(), ("GrÃ¼ne Ã„pfel fÃ¼r den Garten", "birds")],
        "blocking: [no_mojibake]\n",
    )
    (folder / "params.yaml").write_text(PARAMS.replace("[bow]", "[bow, tfidf]").replace("[words]", "[words, holes]"))
    done = subprocess.run([TRAUBE, "run"], env=environment_in(folder), capture_output=True, text=True)
    assert "no_mojibake" in done.stderr, done.stdout + done.stderr
    servers = Servers(folder).wait()
    addresses = [f"http://127.0.0.1:{port}" for port in servers.ports]
    yield Running(*addresses, folder / "home", folder / "checkpoints")
    servers.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real browser."""
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def fresh_browser(tmp_path: Path) -> Iterator[Any]:
    """A real browser that has been nowhere yet."""
    driver = start_browser(tmp_path)
    yield driver
    driver.quit()


def start_browser(profile: Path) -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1500,1000",
        "--host-resolver-rules=MAP evil.example 127.0.0.1",  # a name of somebody else's that leads here
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    return webdriver.Chrome(options, webdriver.ChromeService(executable_path=str(DRIVER)))


def belongs(process: psutil.Process, folder: Path) -> bool:
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and process.environ().get("TRAUBE_HOME") == str(folder / "home")
    except psutil.Error:
        return False
