"""Build wheel and sdist, install the wheel into empty environments, and check that it works there.

There are two: one has the highest versions that the wheel allows, one the lowest of what pyproject.toml names itself. The
first is used once more with pandas 3, which datamapplot's own requirements rule out and Traube does not. MLflow serves a
champion in another environment, which it makes from what the champion names.

What a person does first is done: texts are grouped, a labeled table is evaluated, and the results
are looked at. Nothing of the platform may be importable, and the environment's size and the
command's start are measured. Needs an environment with hatchling, uv and the package index.
"""

import argparse
import csv
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from install import PROJECT, environment, installer

ABSENT = (
    "dagster",
    "mlflow",
    "dvc",
    "great_expectations",
    "ray",
    "pytest",
    "operations",
    "assets",
    "resources",
)
IMPORT_MS = 50  # at most, of the processor's time
HELP_RATIO = 1.5  # at most: CPU seconds of `traube --help`, as a multiple of those of `pip --help` on the same machine
MEGABYTES = 1100  # at most, without torch and what torch needs
OFFERED = (
    *(
        "run",
        "leaderboard",
        "recommend",
        "compare",
        "cluster",
        "report",
        "export",
        "import",
        "tasks",
        "models",
        "methods",
    ),
    *("provenance", "annotate", "pairs"),
)
OF_PLATFORM = ("dev", "doctor", "release", "registry")
TOPICS = {
    "space": "orbit moon star rocket planet comet telescope galaxy crater lander",
    "kitchen": "bread soup oven knife flour butter kettle pepper recipe dough",
    "garden": "rose hedge spade mower tulip fern compost shed lawn seed",
}
IMPORT_ALL = """
import importlib, pkgutil, sys, traube
for module in pkgutil.walk_packages(traube.__path__, "traube."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
START = "import time; began = time.process_time(); import traube; print(1000 * (time.process_time() - began))"
EXAMPLES = "import doctest, traube; print(traube.__version__, doctest.testmod(traube).failed)"
VERSIONS = """
from importlib.metadata import version
print(*(f"{name} {version(name)}," for name in ("pandas", "numpy", "scikit-learn", "torch")), "and the rest")
"""
SIZE = """
import re
from importlib.metadata import PackageNotFoundError, distribution

def needed(name, found):
    name = re.sub(r"[-_.]+", "-", name).lower()
    try:
        packed = distribution(name)
    except PackageNotFoundError:  # of another system, or of an extra
        return found
    if name not in found:
        found[name] = sum(path.stat().st_size for f in packed.files or () if (path := packed.locate_file(f)).is_file()
                          and path.suffix != ".pyc")
        for line in packed.requires or ():
            if "extra ==" not in line:
                needed(re.match(r"[A-Za-z0-9._-]+", line)[0], found)
    return found

torch, own = needed("torch", {}), needed("traube", {})
sizes = {name: size for name, size in own.items() if name not in torch}
print(sum(sizes.values()) / 1e6, *(f"{n}={s / 1e6:.0f}" for n, s in sorted(sizes.items(), key=lambda e: -e[1])[:8]))
"""


def main() -> None:
    """Parse the command line and check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", default="torch", help="torch's version, and where to find it, as for pip")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="traube-wheel-") as folder:
        check(Path(folder), shlex.split(arguments.torch))


def check(folder: Path, torch: list[str]) -> None:
    """Do all of it in a folder."""
    wheel = build(folder / "dist")
    python = create(folder / "highest")
    install(python, folder, [torch, [str(wheel)]])
    person = Person(folder / "person", python)
    check_versions(person)
    measure(person)
    install(python, folder, [["--no-deps", "pandas>=3,<4"]])
    use(Person(folder / "person-pandas-3", python))
    python = create(folder / "lowest")
    install(python, folder, [*list_lowest(python, folder, torch), ["--no-deps", str(wheel)]])
    check_versions(Person(folder / "person-lowest", python))
    serve(Person(folder / "platform", Path(sys.executable)))


def check_versions(person: "Person") -> None:
    """Check that the wheel works with the versions of an environment, and needs nothing of the platform."""
    found = person.python(f"import importlib.util as u; print([m for m in {ABSENT!r} if u.find_spec(m)])")
    _expect(found.strip() == "[]", f"can be imported, and should not: {found}")
    person.python(IMPORT_ALL)
    use(person)


def build(folder: Path) -> Path:
    """Build the sdist, and the wheel from what the sdist holds, as a package index's users may."""
    hatch = [sys.executable, "-m", "hatchling", "build", "-d"]
    for kind in ("wheel", "sdist"):
        _run([*hatch, str(folder), "-t", kind], PROJECT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder / "sdist", filter="data")
    (unpacked,) = (folder / "sdist").iterdir()
    _run([*hatch, str(folder / "again"), "-t", "wheel"], unpacked)
    (again,) = (folder / "again").glob("*.whl")
    names = [sorted(zipfile.ZipFile(built).namelist()) for built in (wheel, again)]
    _expect(names[0] == names[1], "the wheel of the sdist holds other files than the wheel of the checkout")
    tops = {name.split("/")[0] for name in names[0] if ".dist-info/" not in name}
    _expect(tops == {"traube"}, f"the wheel holds {sorted(tops)}")
    print(f"built {wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB) and {sdist.name}", flush=True)
    return wheel


def create(folder: Path) -> Path:
    """Create an empty environment; return its interpreter."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def install(python: Path, folder: Path, steps: list[list[str]]) -> None:
    """Install into an environment, step by step, by arguments as for pip."""
    command, began = installer(python), time.monotonic()
    for arguments in steps:
        _run([*command, *arguments], folder, environment(arguments))
    versions = _run([str(python), "-c", VERSIONS], folder).strip()
    print(f"installed {versions} in {time.monotonic() - began:.0f} s", flush=True)


def list_lowest(python: Path, folder: Path, torch: list[str]) -> list[list[str]]:
    """Return what installs the lowest versions of all that pyproject.toml names, torch first and from its own index."""
    uv, file = installer(python)[0], folder / "lowest.txt"
    lowest = ["pip", "compile", "--quiet", "--python", str(python), "--resolution", "lowest-direct"]
    _run([uv, *lowest, "--output-file", str(file), str(PROJECT / "pyproject.toml")], folder)
    (version,) = re.findall(r"^torch==([\w.]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [[*torch[:-1], f"torch=={version}"], ["-r", str(file)]]


class Person:
    """Somebody with nothing but the environment, in an empty folder."""

    def __init__(self, folder: Path, python: Path) -> None:
        folder.mkdir()
        self.folder, self._python = folder, python
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("TRAUBE_", "PYTHON", "DAGSTER_", "MLFLOW_"))}
        self.environment = {**ours, "HOME": str(folder), "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
        self.environment["NUMBA_CACHE_DIR"] = str(folder.parent / "compiled")  # by versions; for all persons

    def python(self, code: str) -> str:
        """Return what some code prints."""
        return _run([str(self._python), "-c", code], self.folder, self.environment)

    def pip_help(self) -> str:
        """Return what `pip --help` prints: a start to compare Traube's with."""
        return _run([str(self._python), "-m", "pip", "--help"], self.folder, self.environment)

    def traube(self, line: str) -> str:
        """Return what a command prints."""
        return _run([str(self._python.with_name("traube")), *shlex.split(line)], self.folder, self.environment)


def write_topics(cards: Path) -> list[tuple[str, str]]:
    """Write a table of sixty texts on three topics, and its card; return the table's rows."""
    rows = [
        (" ".join(words.split()[(i + j * (1 + i // 10)) % 10] for j in range(3)), topic)
        for topic, words in TOPICS.items()
        for i in range(20)
    ]
    cards.mkdir(parents=True)
    with (cards / "topics.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "topic"), *rows])
    (cards / "topics.yaml").write_text("file: topics.csv\ntext: text\nlabels: topic\n", encoding="utf-8")
    return rows


def use(person: Person) -> None:
    """Do what a person does first."""
    cards = person.folder / ".traube" / "cards"
    rows = write_topics(cards)
    (person.folder / "notes.txt").write_text("\n".join(text for text, _ in rows), encoding="utf-8")

    listed = person.traube("--help")
    names = {word for line in listed.splitlines() for word in line.strip("│| ").split()[:1]}
    _expect(set(OFFERED) <= names, f"--help lacks {sorted(set(OFFERED) - names)}")
    _expect(not names & set(OF_PLATFORM), f"--help offers {sorted(names & set(OF_PLATFORM))}")

    _expect("3 groups" in person.traube("cluster notes.txt"), "three topics are not three groups")
    report = person.folder / "notes.txt.clusters.html"
    _expect(report.exists() and "deck.gl" in report.read_text(encoding="utf-8"), "there is no report with a map")
    person.traube(f"cluster {shlex.quote(str(cards / 'topics.csv'))} --text text -m tfidf -k 3")
    _expect("failed" not in person.traube("run -t topics -m tfidf -m minilm"), "a run failed")
    _expect("Nothing is missing" in person.traube("run -t topics -m tfidf -m minilm"), "a finished run is run again")
    rows_of_board = json.loads(person.traube("leaderboard -t topics --format json"))
    _expect({row["model"] for row in rows_of_board} == {"tfidf", "minilm"}, f"the leaderboard is {rows_of_board}")
    for line in (
        *("recommend topics", "compare minilm tfidf -t topics", "provenance topics minilm", "report topics --print"),
        *("tasks", "models", "methods", "pairs", "clean", "reproduce --help"),
    ):
        _expect(person.traube(line).strip() != "", f"traube {line} says nothing")
    person.traube("run -t topics -m tfidf --method none/minibatch_kmeans --protocol mteb-v1")
    _expect("1 file written" in person.traube("export -o results -p mteb-v1"), "nothing is exported")
    _expect("imported" in person.traube("import results"), "nothing is imported")
    annotate(person, [text for text, _ in rows[:12]])
    print(
        "cluster, run, leaderboard, recommend, compare, provenance, report, export, import, annotate: work", flush=True
    )


def annotate(person: Person, texts: list[str]) -> None:
    """Design forms, answer one as a spreadsheet, and score it."""
    with (person.folder / "items.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("item", "text"), *enumerate(texts)])
    person.traube("annotate design items.csv -n 1")
    sheet = person.folder / "annotation" / "annotator_1.csv"
    with sheet.open(newline="", encoding="utf-8-sig") as file:
        answers = [{**row, "best": row["item_1"], "worst": row["item_2"]} for row in csv.DictReader(file)]
    with sheet.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(answers[0]))
        writer.writeheader()
        writer.writerows(answers)
    _expect("24 judgments" in person.traube("annotate score annotation/annotator_1.csv"), "the items have no scores")


def serve(platform: Person) -> None:
    """Have a champion of the checkout's predict in an environment that MLflow makes, where no checkout is."""
    home = platform.folder / "home"
    places = {"HOME": home, "CARDS": platform.folder / "cards", "PARAMS": platform.folder / "params.yaml"}
    platform.environment |= {f"TRAUBE_{name}": str(path) for name, path in places.items()}
    write_topics(places["CARDS"])
    params = {
        "protocol": "own",
        "tasks": ["topics"],
        "models": ["tfidf"],
        "protocols": {"own": {"reducers": ["none"], "clusterers": ["kmeans"], "seeds": [42]}},
    }
    places["PARAMS"].write_text(json.dumps(params), encoding="utf-8")  # which is YAML, too
    platform.traube("run")
    texts = platform.folder / "texts.json"
    texts.write_text(
        json.dumps({"inputs": ["moon star comet", "bread soup oven", "planet crater star"]}), encoding="utf-8"
    )
    programs = Path(sys.executable).parent
    elsewhere = {
        **platform.environment,
        "TRAUBE_HOME": str(platform.folder / "elsewhere"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{home / 'mlflow.db'}",
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),  # where uv is
    }
    options = ["-m", "models:/traube-topics@champion", "--env-manager", "uv", "-i", str(texts), "-t", "json"]
    answer = _run([str(programs / "mlflow"), "models", "predict", *options], platform.folder, elsewhere)
    sky, kitchen, again = (
        row["cluster"] for row in json.loads(answer[answer.index('{"predictions"') :])["predictions"]
    )
    _expect(sky == again != kitchen, f"the champion predicts {answer}")
    print("a champion predicts in an environment that MLflow made", flush=True)


def measure(person: Person) -> None:
    """Measure size and start, and hold them against what is promised."""
    version, failed = person.python(EXAMPLES).split()
    _expect(person.traube("--version").split()[-1] == version, "two versions")
    _expect(failed == "0", "the examples of traube's docstring fail")
    imported = min(float(person.python(START)) for _ in range(5))
    pairs = [(_cpu_seconds(lambda: person.traube("--help")), _cpu_seconds(person.pip_help)) for _ in range(5)]
    helped, reference = (min(seconds) for seconds in zip(*pairs, strict=True))
    megabytes, *largest = person.python(SIZE).split()
    print(
        f"traube {version}: import {imported:.0f} ms, --help {helped:.2f} CPU s (pip --help {reference:.2f}), "
        f"{float(megabytes):.0f} MB beyond torch"
    )
    print("largest, in MB:", *largest, flush=True)
    _expect(imported < IMPORT_MS, f"importing traube takes more than {IMPORT_MS} ms")
    _expect(helped < HELP_RATIO * reference, f"traube --help takes more than {HELP_RATIO} times what pip --help takes")
    _expect(float(megabytes) < MEGABYTES, f"the environment takes more than {MEGABYTES} MB beyond torch")


def _cpu_seconds(work: Callable[[], object]) -> float:
    """Return what the processes of some work took: time on the clock depends on what else runs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\nended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"the wheel is not as it should be: {otherwise}")


if __name__ == "__main__":
    main()
