"""Plug-ins: a package that pip installs adds a reader, a method, a trainer and a paper; faults name it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.errors import check_names, refused
from traube._core.errors import Conflict, Failed
from traube._core.plugins import PAPERS, find_plugins, import_plugins

PACKAGE = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "verse"
version = "1.0"

[project.entry-points."traube.plugins"]
verse = "verse"
""",
    "verse/__init__.py": "",
    "verse/readers.py": """
from traube.tasks.source import Source
from traube.tasks.task import TaskCard

class Verse(Source):
    def files(self): return []
    def read(self): raise NotImplementedError
    def draw(self, records): raise NotImplementedError

def sources():
    about = dict(description="Verse.", language="en", license="CC0", citation="you", source="a desk")
    return [Verse(TaskCard(name="verse", **about))]
""",
    "verse/methods/__init__.py": "",
    "verse/methods/birch.py": """
from traube.components import register_clusterer

def birch(threshold=0.5, n_clusters=None):
    from sklearn.cluster import Birch

    return Birch(threshold=threshold, n_clusters=n_clusters)

register_clusterer("birch", birch, {"threshold": 0.5})
""",
    "verse/trainers.py": """
from traube.training._trainers.triplet import Triplet

class Verse(Triplet):
    name = "verse"

TRAINER = Verse
""",
    "verse/paper.py": """
from traube._reports.papers import Paper

PAPER = Paper("You: Verse. Nowhere, 2026.", tasks=("verse",))
""",
}
FOUND = """
import json
import verse.trainers  # first of all: what imports Traube may be imported before it
from traube._reports.papers import papers
from traube.components import CLUSTERERS
from traube.tasks import sources
from traube.training import TRAINERS
found = {"task": sources(), "method": CLUSTERERS, "trainer": TRAINERS, "paper": papers()}
print(json.dumps({kind: list(names) for kind, names in found.items()}))
"""


def test_an_installed_package_adds_a_reader_a_method_a_trainer_and_a_paper(tmp_path: Path) -> None:
    for name, text in PACKAGE.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_text(text)
    site = tmp_path / "site"
    options = ["--no-index", "--no-deps", "--no-build-isolation", "-q", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(tmp_path / "source")], check=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PAPERS.parents[1]), str(site)])}

    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = json.loads(run("-c", FOUND))
    assert "birch" in found.pop("method")
    assert all("verse" in names for names in found.values())
    assert {"tweet", "newsgroups", "pydocs_s2s"} <= set(found["task"]) and "cob" in found["trainer"]
    assert "birch" in run("-m", "traube._cli", "methods")
    (site / "verse" / "commands.py").write_text("import no_such_package")
    done = subprocess.run([sys.executable, "-m", "traube", "--help"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    check_names(done.stderr, "error: ", "'verse'", "'no_such_package'")


def test_the_papers_are_plugins_and_come_first(install: Callable[..., None]) -> None:
    install("verse", readers="")
    assert list(find_plugins()) == ["aecl", "cob", "german", "giccs", "qs3m", "verse"]
    assert [name for name, _ in import_plugins("paper")] == ["aecl", "cob", "german", "giccs", "qs3m"]


def test_a_plugin_that_cannot_be_imported_is_named(install: Callable[..., None]) -> None:
    install("verse", readers="import no_such_package")
    with refused(Failed, "verse", "no_such_package"):
        import_plugins("readers")
    assert import_plugins("paper")  # what it does not have is no fault


def test_a_plugin_that_is_gone_is_named(install: Callable[..., None], tmp_path: Path) -> None:
    install("verse")
    (tmp_path / "site-packages" / "verse" / "__init__.py").unlink()
    (tmp_path / "site-packages" / "verse").rmdir()
    with refused(Failed, "verse"):
        import_plugins("readers")


def test_two_plugins_of_a_name_are_an_error(install: Callable[..., None]) -> None:
    install("cob")
    with refused(Conflict, "cob"):
        find_plugins()
