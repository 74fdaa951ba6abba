"""Traube beside MTEB: the same splits, the same model, the same k-means; what differs is what is encoded, and how.

Each measurement is a fresh process. The work is timed, from texts in memory to V-measures; imports and the loading of the
model are left out on both sides and reported by themselves. The rows take turns, several rounds of them. Ends with status 1
if the two do not agree on the V-measures; a target that is missed is reported and no failure.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median, stdev
from tempfile import TemporaryDirectory
from typing import Any

import psutil

import data
from traube._core import paths
from traube.models import load_model
from traube.tasks.task import Task

MTEB = "2.26.24"
SAME = (
    "torch",
    "sentence-transformers",
    "transformers",
    "tokenizers",
    "scikit-learn",
    "numpy",
)  # versions on both sides
AGREEMENT = 0.01  # largest difference of a split's V-measure
MEAN_AGREEMENT = 0.003  # of the mean V-measure, in another precision
HERE = Path(__file__).parent
ROWS = {
    "mteb": "MTEB",
    "mteb_wrapped": "MTEB, cache wrapper, cold",
    "mteb_cached": "MTEB, cache wrapper, embeddings cached",
    "traube": "Traube, cold, fp32",
    "traube_auto": "Traube, cold, precision auto",
    "traube_cached": "Traube, embeddings cached",
}

OTHER = "traube_auto"  # the row whose vectors are of another precision, where that is faster


@dataclass(frozen=True)
class Target:
    """`slow` shall take at least `ratio` times the CPU time of `fast`; None: of interest, no target."""

    slow: str
    fast: str
    ratio: float | None


TARGETS = (
    Target("mteb", "traube", 10),
    Target("mteb", "traube_auto", 25),
    Target("mteb", "traube_cached", 50),
    Target("mteb_wrapped", "traube", 1.3),
    Target("mteb_cached", "traube_cached", None),
)
Runs = dict[str, list[dict[str, Any]]]


def main() -> int:
    """Measure and report; 1 if the V-measures differ."""
    arguments = _arguments()
    python = arguments.mteb_python or install()
    check_versions(python)
    what, task = data.load()
    with TemporaryDirectory(prefix="vs-mteb-") as name:
        bench = Bench(Path(name), python, arguments.threads)
        print(f"Data: {what}: {write(task, bench.folder / 'all')}")
        write(task, bench.folder / "few", splits=2)
        print("Warming up, and filling the caches of the cached rows", flush=True)
        bench.warm_up()
        runs: Runs = {row: [] for row in ROWS}
        for i in range(arguments.rounds):
            for row in ROWS:
                runs[row].append(bench.run(row))
                print(f"Round {i + 1}: {ROWS[row]}: {_seconds(runs[row][-1])}", flush=True)
            if arguments.save:
                arguments.save.write_text(json.dumps(runs, indent=1), encoding="utf-8")
    print("\n" + "\n".join(report(runs, arguments.threads)))
    worst = max(difference(runs, row)[0] for row in ROWS if row != OTHER)
    gain, error = mean_difference(runs, OTHER)
    differs = abs(gain) - 2 * error > MEAN_AGREEMENT
    print(f"\nV-measures agree within {AGREEMENT}: {'yes' if worst <= AGREEMENT else f'NO, {worst:.4f}'}")
    print(
        f"{ROWS[OTHER]}: mean difference {gain:+.4f}, standard error {error:.4f} (one start of k-means a split; "
        f"encoding.py has several seeds): {f'MORE than {MEAN_AGREEMENT}' if differs else 'agrees'}"
    )
    return int(worst > AGREEMENT or differs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="on both sides; in Traube also the number of workers")
    parser.add_argument(
        "--mteb-python", type=Path, help=f"Python of an environment with mteb {MTEB}; by default it is made"
    )
    parser.add_argument("--save", type=Path, help="write every measurement to this JSON file")
    return parser.parse_args()


def install() -> Path:
    """MTEB in an environment of its own, since its dependencies are not Traube's; the Python of it."""
    folder = paths.PROJECT / ".venv-mteb"
    python, ready = folder / "bin" / "python", folder / f".ready-{MTEB}"
    if ready.exists():
        return python
    print(f"Installing mteb {MTEB} into {folder.name}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "install", "-q"]
    torch, *others = (f"{name}=={version(name).split('+')[0]}" for name in SAME)
    subprocess.run([*pip, *os.environ.get("TORCH_ARGS", "").split(), torch], check=True)
    subprocess.run([*pip, f"mteb=={MTEB}", *others], check=True)
    ready.touch()
    return python


def check_versions(python: Path) -> None:
    """Refuse to compare two environments that differ in more than mteb."""
    code = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    there = subprocess.run(
        [python, "-c", code, "mteb", *SAME], check=True, text=True, stdout=subprocess.PIPE
    ).stdout.split()
    here = [MTEB, *map(version, SAME)]
    if there != here:
        raise SystemExit(f"{python}: mteb, {', '.join(SAME)} are {there}; expected {here}")
    print(", ".join(f"{name} {v}" for name, v in zip(("mteb", *SAME), here, strict=True)))


def write(task: Task, folder: Path, splits: int | None = None) -> str:
    """Write a task, or the first of its splits, in both sides' forms; say how redundant it is."""
    folder.mkdir()
    names = task.splits["split"].unique()[:splits]
    task.corpus.to_parquet(folder / "corpus.parquet")
    task.splits[task.splits["split"].isin(names)].to_parquet(folder / "splits.parquet")
    text = dict(zip(task.corpus["text_id"], task.corpus["text"], strict=True))
    rows = [
        {"split": name, "texts": [text[i] for i in split["text_id"]], "labels": split["label"].tolist()}
        for name, split in task.splits.groupby("split", sort=False)
        if name in names
    ]
    (folder / "splits.json").write_text(json.dumps(rows), encoding="utf-8")
    total, unique = sum(len(row["texts"]) for row in rows), len({t for row in rows for t in row["texts"]})
    return f"{len(rows)} splits, {total:,} rows, {unique:,} unique texts: {total / unique:.2f} x redundant"


class Bench:
    """Starts the runs.

    Parameters
    ----------
    folder : holds the data (`all`, and `few` for the warm-up) and the caches
    python : of MTEB's environment
    """

    def __init__(self, folder: Path, python: Path, threads: int) -> None:
        self.folder = folder
        self.python = python
        self.model = load_model("minilm").folder
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "TRAUBE_WORKERS")
        self.environment = {
            **os.environ,
            **dict.fromkeys(names, str(threads)),
            "OMP_WAIT_POLICY": "passive",  # as Traube sets it
            "GOMP_SPINCOUNT": "10000",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
        }

    def warm_up(self) -> None:
        """Bring every file into the page cache, and fill the caches of the cached rows."""
        for row in ("mteb", "mteb_wrapped", "traube", OTHER):
            self.run(row, "few")
        self._start("mteb_wrapped", "all", self.folder / "mteb_cached")
        self._start("traube", "all", self.folder / "traube_cached")
        for row in ("mteb_cached", "traube_cached"):
            self.run(row)

    def run(self, row: str, splits: str = "all") -> dict[str, Any]:
        """One measurement, in a fresh process; a cold row begins with an empty cache."""
        if row.endswith("_cached"):
            return self._start(row, splits, self.folder / row)
        cache = self.folder / "cold"
        shutil.rmtree(cache, ignore_errors=True)
        return self._start(row, splits, cache)

    def _start(self, row: str, splits: str, cache: Path) -> dict[str, Any]:
        if row.startswith("mteb"):
            command = [self.python, HERE / "mteb_side.py", self.folder / splits, self.model]
            command += [] if row == "mteb" else ["--cache", cache]
        else:
            command = [sys.executable, HERE / "traube_side.py", self.folder / splits, cache]
            command += ["--cached"] if row == "traube_cached" else []
            command += ["--precision", "auto"] if row == OTHER else []
        began = time.time()
        done = subprocess.run(command, env=self.environment, text=True, capture_output=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-3000:]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        result["startup_wall"] = result.pop("ready") - began
        return result


def report(runs: Runs, threads: int) -> Iterable[str]:
    """The tables, as lines of Markdown."""
    rounds = len(runs["mteb"])
    yield f"{rounds} rounds, {threads} thread(s), {psutil.cpu_count()} cores; median [least to most] seconds"
    yield "\n| | CPU s | wall s | start-up CPU s / wall s | max abs dV | mean abs dV | mean dV |"
    yield "|---|---|---|---|---|---|---|"
    for row, title in ROWS.items():
        startup = " / ".join(f"{median(r[key] for r in runs[row]):.1f}" for key in ("startup_cpu", "startup_wall"))
        worst, absolute, mean = difference(runs, row)
        agreement = f"{worst:.4f} | {absolute:.5f} | {mean:+.5f}"
        yield f"| {title} | {_spread(runs[row], 'cpu')} | {_spread(runs[row], 'wall')} | {startup} | {agreement} |"
    yield "\n| pair by pair | CPU time | wall time | target (CPU, median) |"
    yield "|---|---|---|---|"
    for target in TARGETS:
        cpu, wall = (ratios(runs, target, key) for key in ("cpu", "wall"))
        met = "" if target.ratio is None else f"{target.ratio}x: {'met' if median(cpu) >= target.ratio else 'MISSED'}"
        yield f"| {ROWS[target.slow]} : {ROWS[target.fast]} | {_range(cpu, 'x')} | {_range(wall, 'x')} | {met} |"


def ratios(runs: Runs, target: Target, key: str) -> list[float]:
    """Return how many times as long the slow row took, round by round."""
    return [slow[key] / fast[key] for slow, fast in zip(runs[target.slow], runs[target.fast], strict=True)]


def difference(runs: Runs, row: str) -> tuple[float, float, float]:
    """V-measures against MTEB's over all splits and rounds: largest and mean absolute difference, mean difference."""
    pairs = [(run["v"], other["v"]) for run, other in zip(runs[row], runs["mteb"], strict=True)]
    found = [v[split] - reference[split] for v, reference in pairs for split in reference]
    absolute = [abs(d) for d in found]
    return max(absolute), sum(absolute) / len(found), sum(found) / len(found)


def mean_difference(runs: Runs, row: str) -> tuple[float, float]:
    """The mean over splits of V-measures less MTEB's, and its standard error: another rounding leads
    k-means elsewhere, which changes a single split's V-measure by points.
    """
    means = [
        mean(run["v"][split] - other["v"][split] for run, other in zip(runs[row], runs["mteb"], strict=True))
        for split in runs["mteb"][0]["v"]
    ]
    return mean(means), stdev(means) / len(means) ** 0.5


def _seconds(run: dict[str, Any]) -> str:
    return f"{run['cpu']:.2f} s CPU, {run['wall']:.2f} s wall"


def _spread(runs: list[dict[str, Any]], key: str) -> str:
    return _range([run[key] for run in runs])


def _range(values: list[float], unit: str = "") -> str:
    return f"{median(values):.2f}{unit} [{min(values):.2f} to {max(values):.2f}]"


if __name__ == "__main__":
    sys.exit(main())
