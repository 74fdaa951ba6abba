"""Seconds of `traube cluster` of 4,000 question titles, as whole processes in turns, beside another checkout.

Cold is a new data directory; cached has the vectors, and the machine code, of an earlier command. The other checkout is run by
this environment, so that libraries are the same: what is compared is the code alone.
"""

import argparse
import gzip
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).resolve().parent.parent
TITLES = "shorttext/stc2/StackOverflow.txt.gz"
EVERY = 5  # of 20,000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=4)
    chosen = parser.parse_args()
    trees = {"this": PROJECT, "other": chosen.other.resolve()}
    taken: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    with TemporaryDirectory() as folder:
        texts = Path(folder, "titles.txt")
        with gzip.open(Path(os.environ["TRAUBE_RAW"], TITLES), "rt", encoding="utf-8") as file:
            texts.write_text("".join(list(file)[::EVERY]), encoding="utf-8")
        for turn in range(chosen.rounds):
            for tree, project in trees.items():
                home = Path(folder, f"{tree}{turn}")
                taken["cold"][tree].append(run(project, home, texts))
                taken["cached, with the report"][tree].append(run(project, home, texts))
                taken["cached, without"][tree].append(run(project, home, texts, "--no-report"))
    print("| | CPU s | CPU s, other | ratio | wall s | wall s, other | ratio |\n|---|---|---|---|---|---|---|")
    for what, found in taken.items():
        (cpu, wall), (other_cpu, other_wall) = (
            [statistics.median(v) for v in zip(*found[t], strict=True)] for t in trees
        )
        print(f"| {what} | {cpu:.1f} | {other_cpu:.1f} | {cpu / other_cpu:.2f} |", end="")
        print(f" {wall:.1f} | {other_wall:.1f} | {wall / other_wall:.2f} |")


def run(project: Path, home: Path, texts: Path, *options: str) -> tuple[float, float]:
    """Return the CPU and wall seconds of a command and its children."""
    environment = {**os.environ, "TRAUBE_HOME": str(home), "PYTHONPATH": str(project)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "traube", "cluster", str(texts), *options]
    subprocess.run(command, cwd=texts.parent, env=environment, check=True, capture_output=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


if __name__ == "__main__":
    main()
