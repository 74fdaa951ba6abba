"""The release pipeline under DVC: in a clone of its own, with real `dvc` commands."""

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tests.made import copy_project
from tests.platform.conftest import PARAMS, word_rows, write_task
from traube._core import paths

BIN = Path(sys.executable).parent


class Clone:
    """A checkout with its own home, a small benchmark, and the environment in which `dvc` and `traube` are found."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = {**environment, "PATH": f"{BIN}{os.pathsep}{environment['PATH']}"}

    @classmethod
    def make(cls, folder: Path) -> "Clone":
        environment = copy_project(folder, without=("tests/", "docs/", "dvc.lock", "release/"))
        (folder / "params.yaml").write_text(PARAMS)
        write_task(folder / "cards", "words", word_rows())
        clone = cls(folder, environment)
        clone.run("git", "init", "-q")
        clone.commit("clone")
        return clone

    def copy(self, folder: Path) -> "Clone":
        """The same at another place, with results, and DVC's cache."""
        shutil.copytree(self.folder, folder, symlinks=True)
        moved = {name: value.replace(str(self.folder), str(folder)) for name, value in self.environment.items()}
        return Clone(folder, moved)

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", message)

    def run(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def repro(self) -> set[str]:
        """The stages that `dvc repro` ran."""
        said = self.run("dvc", "repro")
        return {
            stage for stage in ("datasets", "validate", "benchmark", "report") if f"Running stage '{stage}'" in said
        }

    def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()

    def metrics(self) -> bytes:
        return self.read("release/metrics.json")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A checkout with raw data whose release was made and committed: copy it."""
    clone = Clone.make(tmp_path_factory.mktemp("released") / "one")
    raw = clone.folder / "data" / "raw" / "words"
    raw.mkdir(parents=True)
    shutil.copy2(clone.folder / "cards" / "words.csv", raw)
    clone.run("dvc", "add", "data/raw/words/words.csv")
    assert clone.repro() == {"datasets", "validate", "benchmark", "report"}
    clone.commit("released")
    return clone


def test_the_lock_is_of_the_stages_that_stand() -> None:
    """A dependency that is renamed without `dvc repro` would leave a release that no clone can compare itself with."""
    stages, locked = (yaml.safe_load((paths.PROJECT / name).read_text())["stages"] for name in ("dvc.yaml", "dvc.lock"))
    for name, stage in stages.items():
        assert {*stage["deps"]} == {dep["path"] for dep in locked[name]["deps"]}


@pytest.mark.slow
def test_a_fresh_clone_is_up_to_date(tmp_path: Path) -> None:
    """Without a remote and without data: what is locked are versions and hashes, all of which git holds."""
    clone = tmp_path / "clone"
    environment = copy_project(clone, without=("tests/", "docs/", "benchmarks/"))

    def find_changed() -> set[str]:
        command = [sys.executable, "-m", "dvc", "status", "--json"]
        done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=True)
        return {*json.loads(done.stdout)}

    subprocess.run(["git", "init", "-q"], cwd=clone, check=True)
    assert find_changed() == set()
    with (clone / "traube" / "_pipeline" / "cluster.py").open("a") as file:  # code whose numbers still count
        file.write("\n")
    assert find_changed() == set()
    with (clone / "traube" / "_pipeline" / "cluster.py").open("a") as file:
        file.write('CLUSTERING_VERSION = "a later one"\n')
    assert find_changed() == {"benchmark"}


@pytest.mark.slow
def test_repro_runs_what_has_changed_and_equal_runs_give_equal_bytes(released: Clone, tmp_path: Path) -> None:
    clone = released.copy(tmp_path / "one")
    assert clone.repro() == set()
    metrics = clone.metrics()
    assert b'"bow"' in metrics

    clone.run("dvc", "remote", "add", "-d", "store", str(tmp_path / "remote"))
    stored = ("release/tasks/words/splits.parquet", "release/scores.csv", "data/raw/words/words.csv")
    kept = [clone.read(path) for path in stored]
    clone.run("dvc", "add", "release/tasks", stored[1])
    clone.run("dvc", "push")
    for folder in (".dvc/cache", "release/tasks", ".traube"):
        shutil.rmtree(clone.folder / folder)
    (clone.folder / stored[1]).unlink()
    assert clone.repro() == set()  # what git holds is enough
    (clone.folder / stored[2]).unlink()
    clone.run("dvc", "pull")
    assert [clone.read(path) for path in stored] == kept
    assert clone.repro() == set()
    clone.run("dvc", "repro", "--force")  # in another folder than the first time, and with nothing stored
    assert clone.metrics() == metrics

    other = "  other:\n    reducers: [none]\n    clusterers: [kmeans]\n"
    (clone.folder / "params.yaml").write_text(PARAMS + other)
    assert clone.repro() == set()  # nothing depends on a protocol that is not chosen
    (clone.folder / "params.yaml").write_text(PARAMS + "    seeds: [7]\n" + other)
    assert clone.repro() == {"benchmark", "report"}
    assert "release/metrics.json" in clone.run("dvc", "metrics", "diff", "--all")
    clone.run("dvc", "plots", "diff", "HEAD")
    shown = {file.name: file.read_bytes() for file in (clone.folder / "dvc_plots" / "static").iterdir()}
    chart = "release_leaderboard.svg"  # an image of each: nothing that is read from a network
    assert set(shown) == {f"workspace_{chart}", f"HEAD_{chart}"} and all(b"<svg" in image for image in shown.values())


@pytest.mark.slow
def test_an_experiment_runs_beside_the_checkout(released: Clone, tmp_path: Path) -> None:
    clone = released.copy(tmp_path / "one")
    before, stored = clone.metrics(), sorted((clone.folder / ".traube" / "blobs").rglob("*"))
    (clone.folder / "params.yaml").write_text(PARAMS.replace("models: [bow]", "models: [tfidf]"))
    clone.run("dvc", "exp", "run", "--temp", "--name", "other-model")
    table = list(csv.DictReader(clone.run("dvc", "exp", "show", "--csv").splitlines()))
    scores = {row["Experiment"] or row["rev"]: row["words.topic.tfidf"] for row in table}
    assert scores["other-model"] and not scores["workspace"]
    # all parameters and dependencies are two hundred columns: what differs fits on a screen
    differing = clone.run("dvc", "exp", "show", "--only-changed", "--drop", "release/", "--csv").splitlines()[0]
    assert {*differing.split(",")[5:]} == {"words.topic.tfidf", "models"}
    assert clone.metrics() == before
    assert sorted((clone.folder / ".traube" / "blobs").rglob("*")) == stored


@pytest.mark.slow
def test_a_file_of_somebody_else_is_imported_with_its_checksum(tmp_path: Path) -> None:
    """The commands of docs/how-to/releases.md."""
    served, clone = tmp_path / "served", tmp_path / "clone"
    served.mkdir()
    clone.mkdir()
    (served / "words.csv").write_text("text,topic\nan apple,fruit\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(served))

    def dvc(*command: str) -> None:
        subprocess.run([BIN / "dvc", *command], cwd=clone, check=True, capture_output=True)

    def checksum() -> str:
        return str(yaml.safe_load((clone / "words.csv.dvc").read_text())["outs"][0]["md5"])

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        dvc("init", "--no-scm")
        dvc("import-url", f"http://127.0.0.1:{server.server_port}/words.csv", "words.csv")
        assert checksum() == hashlib.md5((served / "words.csv").read_bytes(), usedforsecurity=False).hexdigest()
        (served / "words.csv").write_text("text,topic\nan owl,bird\n")
        os.utime(served / "words.csv", (0, 0))  # a server tells another file by its date
        dvc("update", "words.csv.dvc")
        assert checksum() == hashlib.md5((served / "words.csv").read_bytes(), usedforsecurity=False).hexdigest()
        server.shutdown()
    assert "owl" in (clone / "words.csv").read_text()
