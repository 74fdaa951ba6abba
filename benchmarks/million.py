"""A million short texts through `traube run` and `traube leaderboard`: seconds and memory by the number of texts.

Texts are pairs of titles of one class of Stack Overflow (TRAUBE_RAW), all different; they are an ordinary task, a CSV with a card.
`hashed` encodes them, mini-batch k-means groups them by the true number of classes. Each size has a home of its own. Sampled
is the resident memory of the command's process and, apart from it, of the processes that it starts, all together; pages of
mapped files count in it. Then the exponents of growth between sizes. Ends with status 1 if the command's own
process exceeds the limit.
"""

import argparse
import csv
import os
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import yaml

from traube._core import paths
from traube.tasks import get_source

GIB = 2**30
NAME = "pairs_of_titles"
SETTINGS = ("-t", NAME, "-m", "hashed", "--method", "none/minibatch_kmeans", "--seed", "42")
Row = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--limit", type=float, default=3.0, help="GiB of the command's own process")
    parser.add_argument("--folder", type=Path, help="where the homes are kept; by default they are removed")
    arguments = parser.parse_args()
    rows = []
    print("| texts | command | wall, s | CPU, s | driver, GiB | its processes, GiB | on disk, GiB |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    with TemporaryDirectory(prefix="traube-million-") as temporary:
        for size in arguments.sizes:
            home = (arguments.folder or Path(temporary)) / str(size)
            write(home / "cards", size)
            for name, command in (
                ("run", ["run", *SETTINGS]),
                ("run again", ["run", *SETTINGS]),
                ("leaderboard", ["leaderboard"]),
            ):
                row = {"texts": size, **measured(home, command)}
                row["disk"] = sum(f.stat().st_size for f in home.rglob("*") if f.is_file()) / GIB
                rows.append((name, row))
                print(
                    f"| {size:,} | {name} | {row['wall']:.1f} | {row['cpu']:.1f} | {row['driver']:.2f} | "
                    f"{row['others']:.2f} | {row['disk']:.2f} |",
                    flush=True,
                )
    print("\n| from, to | command | exponent of CPU s | of the driver's memory |\n|---|---|---:|---:|")
    for name in ("run", "run again", "leaderboard"):
        for small, large in pairwise(row for other, row in rows if other == name):
            grown = [log(large[key] / small[key]) / log(large["texts"] / small["texts"]) for key in ("cpu", "driver")]
            print(f"| {small['texts']:,}, {large['texts']:,} | {name} | {grown[0]:.2f} | {grown[1]:.2f} |")
    return int(max(row["driver"] for _, row in rows) > arguments.limit)


def write(cards: Path, count: int) -> None:
    """A task of `count` different texts: pairs of titles of one class, drawn at random."""
    records = get_source("stackoverflow").read().drop_duplicates("text")
    titles, topics = records["text"].tolist(), records["topic"].tolist()
    of_topic = {topic: np.flatnonzero(records["topic"] == topic) for topic in dict.fromkeys(topics)}
    rng, seen = np.random.default_rng(42), set[tuple[int, int]]()
    cards.mkdir(parents=True, exist_ok=True)
    (cards / f"{NAME}.yaml").write_text(yaml.safe_dump({"file": f"{NAME}.csv", "text": "text", "labels": "topic"}))
    with (cards / f"{NAME}.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["text", "topic"])
        while len(seen) < count:
            for first in rng.permutation(len(titles)).tolist():
                second = int(rng.choice(of_topic[topics[first]]))
                if (first, second) not in seen and len(seen) < count:
                    seen.add((first, second))
                    table.writerow([f"{titles[first]} / {titles[second]}", topics[first]])


def measured(home: Path, command: list[str]) -> Row:
    """Measure a command; it ends the benchmark if it fails."""
    environment = {
        **os.environ,
        "TRAUBE_HOME": str(home / "home"),
        "TRAUBE_CARDS": str(home / "cards"),
        "TRAUBE_CHECKPOINTS": str(home / "checkpoints"),
    }
    log_file, began = home / f"{command[0]}.txt", time.perf_counter()
    own = others = 0
    with log_file.open("a") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "traube._cli", *command],
            cwd=paths.PROJECT,
            env=environment,
            stdout=file,
            stderr=file,
        )
        watched = psutil.Process(process.pid)
        while True:
            with suppress(psutil.NoSuchProcess):
                own = max(own, watched.memory_info().rss)
                others = max(others, sum(map(_resident, watched.children(recursive=True))))
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.1)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"traube {' '.join(command)} ended with {process.returncode}: {log_file.read_text()[-3000:]}")
    return {
        "wall": time.perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "driver": own / GIB,
        "others": others / GIB,
    }


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0


if __name__ == "__main__":
    sys.exit(main())
