"""The guides `docs/how-to/adding_a_*.md`, followed to the letter in a copy of the project: what they promise is what happens.

Blocks whose first line names a file (`# cards/seasons.yaml`) are written there, `# in FILE` is appended to it, and the
commands of `console` blocks are run.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.made import copy_project

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
PLACE = re.compile(r"# (in )?([\w./]+\.\w+)\n")


class Copy:
    """A copy of the project with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**copy_project(folder, without=("tests/",)), "COLUMNS": "100"}
        # a package is as good as installed in place: pip leaves its entry points in `site`, and its modules are read here
        self.environment["PYTHONPATH"] += f":{folder / 'verse'}:{folder / 'site'}"

    def follow(self, guide: str) -> str:
        """Do what a guide says; what its commands print."""
        said = ""
        for language, content in BLOCK.findall((self.folder / "docs" / "how-to" / guide).read_text(encoding="utf-8")):
            place = PLACE.match(content)
            if place:
                self._write(place[2], content[place.end() :], appended=bool(place[1]))
            elif language == "console":
                said += "".join(self.run(line.partition(" #")[0]) for line in content.splitlines())
        return said

    def _write(self, name: str, content: str, appended: bool) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") + "\n\n" if appended else ""
        path.write_text(before + content, encoding="utf-8")

    def run(self, command: str) -> str:
        """Run a line of a console block."""
        words = shlex.split(command)
        if words[:3] == ["pip", "install", "-e"]:
            options = ("--no-index", "--no-deps", "--no-build-isolation", "-q", "--target", str(self.folder / "site"))
            words = [sys.executable, "-m", "pip", "install", *options, str(self.folder / words[3])]
        command_ = [sys.executable, "-m", "traube._cli", *words[1:]] if words[0] == "traube" else words
        done = subprocess.run(command_, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def python(self, code: str) -> str:
        """Return what code prints in the copy."""
        return self.run(f"{sys.executable} -c {shlex.quote(code)}")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A copy with a plug-in, in which one guide is followed after the other."""
    copy = Copy(tmp_path_factory.mktemp("project"))
    copy.follow("adding_a_plugin.md")
    return copy


def test_a_data_set_is_a_card_or_a_reader(copy: Copy) -> None:
    said = copy.follow("adding_a_data_set.md")
    assert "none/minibatch_kmeans" in said
    assert "haikus.tsv" in "".join(said.split())  # `traube tasks` names the file that is missing, in lines of any width
    graph = "from assets.used import find_used; from definitions import build_defs; defs = build_defs(find_used(['haikus']))"
    assert "haikus" in copy.python(f"{graph}; print([asset.keys for asset in defs.assets])")


def test_a_model_is_a_card(copy: Copy) -> None:
    said = copy.follow("adding_a_model.md")
    assert "e5" in said and "bow_500" in said


def test_a_method_comes_with_a_plugin(copy: Copy) -> None:
    said = copy.follow("adding_a_method.md")
    assert "none/birch" in said and "rounded" in said


def test_a_trainer_comes_with_a_plugin(copy: Copy) -> None:
    said = copy.follow("adding_a_trainer.md")
    assert "simcse" in said
    assert list((copy.folder / "checkpoints").glob("simcse__pydocs_s2s__minilm*-last/checkpoint.json"))


def test_a_paper_comes_with_a_plugin(copy: Copy) -> None:
    copy.follow("adding_a_paper.md")
    (table,) = (copy.folder / ".traube" / "papers").glob("verse/table_1.csv") or [None]
    assert table is not None
    rows = table.read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("model,task,published,measured")
    assert rows[2].endswith("not evaluated here")  # minilm, which was not run


def test_a_metric_is_a_function_in_one_file(copy: Copy) -> None:
    copy.follow("adding_a_metric.md")
    scored = copy.python(
        "from traube.metrics import clustering, full_name\n"
        "full_name('inverse_purity/noise_dropped')\n"
        "print(clustering.score(['a', 'a', 'b', 'b'], [0, 1, 1, 1])['inverse_purity/noise_as_cluster'])"
    )
    assert float(scored) == 0.75
