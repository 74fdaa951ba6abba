"""The console script: of a wheel, which holds the library alone, and of a checkout. `deploy/check_wheel.py` uses a wheel
in an environment that holds nothing else.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import traube
from tests.errors import check_names
from traube._core import paths
from traube._core.config import read_yaml
from traube._core.plugins import PAPERS

pytestmark = pytest.mark.slow
NOTES = "text,topic\n" + "".join(f"word{i} t{i % 3},t{i % 3}\n" for i in range(30))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=paths.PROJECT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def in_unpacked(wheel: Path, folder: Path, code: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run some code with the unpacked wheel, and nothing of the checkout, to import Traube from."""
    site = folder / "site-packages"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    ours = {key: value for key, value in os.environ.items() if not key.startswith("TRAUBE_")}
    environment = {**ours, "PYTHONPATH": str(site), "HOME": str(folder), **variables}
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_a_wheel_holds_the_library_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        tops = {name.split("/")[0] for name in packed.namelist()}
        scripts = next(packed.read(name).decode() for name in packed.namelist() if name.endswith("entry_points.txt"))
        data = ("catalogue.yaml", "catalogue_mteb.yaml", "published_scores.csv")
        assert {f"traube/models/{name}" for name in data} <= set(packed.namelist())
        assert {"traube/py.typed", "traube/_pipeline/params.yaml"} <= set(packed.namelist())
        for paper in PAPERS.iterdir():
            of_paper = {f"traube/papers/{paper.name}/{name}" for name in ("README.md", "tasks.yaml", "paper.py")}
            assert not (paper / "__init__.py").exists() or of_paper <= set(packed.namelist())
        assert "traube/papers/cob/published/results.csv" in packed.namelist()
    assert {top for top in tops if not top.endswith(".dist-info")} == {"traube"}
    assert "traube = traube._cli.console:main" in scripts


def test_the_version_stands_in_one_place(wheel: Path) -> None:
    citation, _ = read_yaml(paths.PROJECT / "CITATION.cff")
    assert wheel.name.startswith(f"traube-{traube.__version__}-")
    assert citation["version"] == traube.__version__


def test_the_command_of_a_wheel_offers_what_works_there(wheel: Path, tmp_path: Path) -> None:
    """The platform's commands are named by entry points that a wheel does not hold; they are passed over."""
    code = "import sys; sys.argv = ['traube', '--help']; from traube._cli.console import main; main()"
    done = in_unpacked(wheel, tmp_path, code, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    offered = {word for line in done.stdout.splitlines() for word in line.strip("│ ").split()[:1]}
    assert {"cluster", "run", "leaderboard", "pairs"} <= offered
    assert not offered & {"dev", "doctor", "release", "registry"}


def test_a_wheel_brings_the_benchmark_of_whoever_has_written_none(wheel: Path, tmp_path: Path) -> None:
    code = "from traube._pipeline.params import load_params; print(load_params().protocol)"
    assert in_unpacked(wheel, tmp_path, code).stdout == "paper\n"
    own = (paths.PROJECT / "params.yaml").read_text(encoding="utf-8").replace("protocol: paper", "protocol: own", 1)
    (tmp_path / ".traube").mkdir()
    (tmp_path / ".traube" / "params.yaml").write_text(own, encoding="utf-8")
    assert in_unpacked(wheel, tmp_path, code).stdout == "own\n"


def test_a_wheel_writes_below_the_persons_home_and_never_into_site_packages(wheel: Path, tmp_path: Path) -> None:
    code = "from traube._core import paths as p; print(p.home(), p.raw(), p.cards(), p.checkpoints(), sep='\\n')"
    places = in_unpacked(wheel, tmp_path, code).stdout.splitlines()
    assert places[0] == str(tmp_path / ".traube")
    assert all(Path(place).is_relative_to(tmp_path / ".traube") for place in places)
    given = in_unpacked(wheel, tmp_path, "from traube._core import paths as p; print(p.raw())", TRAUBE_RAW="data")
    assert given.stdout.strip() == str(tmp_path / "data")  # as a notebook means it


def test_the_command_of_a_checkout_runs_from_whatever_folder(tmp_path: Path) -> None:
    (tmp_path / "cli.py").write_text("raise SystemExit('another package that is called cli')")
    code = "import sys; sys.argv = ['traube', '--help']; from traube._cli.console import main; main()"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{paths.PROJECT}"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "leaderboard" in done.stdout


def command(arguments: str, home: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "TRAUBE_HOME": str(home), **variables}
    line = arguments.replace("traube", f"{Path(sys.executable).with_name('traube')}", 1)
    return subprocess.run(["bash", "-c", line], env=environment, cwd=home.parent, capture_output=True, text=True)


def test_a_terminal_that_has_no_such_letters_shows_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("".join(f"{word} number {i}\n" for i in range(9) for word in ("שלום", "חתול")))
    done = command("traube cluster notes.txt -m tfidf", tmp_path / "home", PYTHONIOENCODING="latin1")
    assert done.returncode == 0 and r"\u05e9" in done.stdout, done.stderr


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    done = command("ulimit -v 900000; exec traube leaderboard", tmp_path / "home")
    assert len(done.stderr.splitlines()) == 1
    check_names(done.stderr, "error: ", "879 MiB", "`ulimit -v`", 2048)


@pytest.mark.parametrize("verb", ["cluster", "run", "recommend", "leaderboard -t", "report --print"])
@pytest.mark.parametrize("closed", ["<&-", "</dev/null", "</dev/zero"])
def test_standard_input_that_gives_nothing_or_never_ends_is_one_line(tmp_path: Path, verb: str, closed: str) -> None:
    done = command(f"traube {verb} - {closed}", tmp_path / "home")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith("error: -: ")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_a_command_works_though_its_streams_are_closed(tmp_path: Path, closed: str) -> None:
    (tmp_path / "notes.csv").write_text(NOTES)
    done = command(f"traube cluster notes.csv -m tfidf -k 3 --no-report {closed}", tmp_path / "home")
    assert (done.returncode, bool(done.stdout), done.stderr) == (0, ">&-" not in closed.split(), "")
    assert (tmp_path / "notes.csv.clusters.csv").read_text().startswith("text,topic,group,")
    done = command(f"traube cluster gone.csv {closed}", tmp_path / "home")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, "2>&-" not in closed)


def test_no_database_becomes_standard_output(tmp_path: Path) -> None:
    """The next file that is opened gets the number of a closed stream, unless the null device has it."""
    code = """
import atexit, os, sys
from pathlib import Path
from traube._cli.console import main
kinds = lambda: [os.path.samestat(os.fstat(number), os.stat(os.devnull)) for number in range(3)]
atexit.register(lambda: Path("kinds").write_text(str(kinds())))
sys.argv = ["traube", "leaderboard"]
main()
"""
    for closed, expected in (("<&- >&- 2>&-", [True, True, True]), (">&-", [False, True, False])):
        line = f"{sys.executable} -c '{code}' {closed}"
        environment = {**os.environ, "TRAUBE_HOME": str(tmp_path / "home")}
        subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, input=b"", capture_output=True)
        assert (tmp_path / "kinds").read_text() == str(expected)


@pytest.mark.parametrize("arguments", ["tasks", "tasks --json", "--help", "cluster --help", "--version"])
def test_output_that_finds_no_room_is_one_line(tmp_path: Path, arguments: str) -> None:
    done = command(f"traube {arguments} > /dev/full", tmp_path / "home")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("error: the disk is full")
    assert command(f"traube {arguments} > /dev/null", tmp_path / "home").returncode == 0


def test_what_a_shell_has_opened_is_read_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("text,group\n" + "cats purr,cats\ndogs bark,dogs\n" * 5)
    done = command(
        'traube cluster <(printf "cats purr here\\ndogs bark there\\n") --like <(cat old.csv) -m tfidf --json --no-report',
        tmp_path / "home",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {group["name"]: group["typical"] for group in found["groups"]} == {
        "cats": ["cats purr here"],
        "dogs": ["dogs bark there"],
    }
    assert Path(found["file"]).parent == Path()  # beside nothing: where the command was called


def test_the_command_imports_nothing_heavy_before_it_knows_what_is_wanted() -> None:
    code = "import sys, traube._cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pandas", "sqlalchemy", "sklearn", "torch", "dagster"} & set(loaded)
    assert "typer" in loaded


@pytest.mark.parametrize("command", [["tasks"], ["methods", "--json"], ["--version"]])
def test_a_reader_that_is_gone_ends_a_command_as_it_ends_others(command: list[str], tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    started = [sys.executable, "-m", "traube._cli", *command]
    environment = {**os.environ, "TRAUBE_HOME": str(tmp_path)}
    done = subprocess.run(
        started, stdout=writing, stderr=subprocess.PIPE, cwd=paths.PROJECT, env=environment, text=True
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
