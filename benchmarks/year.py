"""Live through a year in an hour: a checkpoint a night on five tasks, published and cleaned up, by the clock of libfaketime.

Each night puts a checkpoint (a tiny encoder with other weights) into its folder, removes that of a week ago, and does
what the daemon would: ticks of the checkpoint sensor, the runs that these ask for, a publication, `nightly_clean`. What
the data directory takes, and how long a night, `traube leaderboard` and Dagster's pages take, is printed beside the
first week's.

Examples
--------
python benchmarks/year.py --days 365
python benchmarks/year.py --days 30 --tasks 1
python benchmarks/year.py --folder year  # which is kept, with a line for each night in days.jsonl; again to go on
"""

import argparse
import csv
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1")
BEGIN = datetime(2025, 1, 1, 2, tzinfo=UTC)  # a year that is over: what is written today is from its future
WEEK = 7  # checkpoints whose folders stay, and days after which all is compared with
TOPICS = {
    "fruit": ["apple", "pear", "plum", "cherry", "grape", "peach", "quince", "fig", "melon", "berry"],
    "tools": ["hammer", "saw", "drill", "wrench", "chisel", "plane", "file", "clamp", "anvil", "screw"],
    "birds": ["owl", "robin", "swift", "crane", "heron", "stork", "finch", "raven", "eagle", "wren"],
}
PARAMS = """
protocol: tiny
tasks: [{tasks}]
models: [bow, tfidf]
keep: {{challengers: 1, nightly_runs: 7, deleted_checkpoints: false}}
protocols:
  tiny:
    reducers: [none]
    clusterers: [minibatch_kmeans, agglomerative]
"""


def find_library() -> str | None:
    """Return libfaketime (Debian: `apt install faketime`); None without it."""
    return next((str(path) for pattern in LIBRARIES for path in Path("/").glob(pattern.lstrip("/"))), None)


def live_through(days: int, tasks: int, folder: Path) -> list[dict[str, float]]:
    """Run a year in a process whose clock is ours; return a row for each night."""
    library = find_library()
    assert library, "libfaketime is not installed"
    clock = folder / "clock"
    if not clock.exists():
        write_clock(clock, BEGIN)
    places = {"HOME": "home", "CHECKPOINTS": "home/checkpoints", "CARDS": "cards", "PARAMS": "params.yaml"}
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("DAGSTER_HOME", "MLFLOW_TRACKING"))},
        **{f"TRAUBE_{name}": str(folder / place) for name, place in places.items()},
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "NO_FAKE_STAT": "1",
        "DONT_FAKE_MONOTONIC": "1",  # what waits and what measures does so in real seconds
        "TRAUBE_WORKERS": "1",
    }
    command = [sys.executable, __file__, "--inside", str(folder), "--days", str(days), "--tasks", str(tasks)]
    subprocess.run(command, env=environment, check=True)
    return [json.loads(line) for line in (folder / "days.jsonl").read_text().splitlines()]


def write_clock(file: Path, now: datetime) -> None:
    """Set the clock; it goes on from there."""
    aside = file.with_suffix(".new")
    aside.write_text(now.strftime("@%Y-%m-%d %H:%M:%S\n"))
    aside.replace(file)


def make_benchmark(folder: Path, tasks: int) -> None:
    """Write the cards of some small tasks, and a params.yaml that asks for them."""
    (folder / "cards").mkdir(exist_ok=True)
    for number in range(tasks):
        order = random.Random(number)
        rows = [
            (" ".join(order.sample(words, 3)) + f" {topic} {i}", topic)
            for topic, words in TOPICS.items()
            for i in range(20)
        ]
        with (folder / "cards" / f"words_{number}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("text", "topic"), *rows])
        card = f"file: words_{number}.csv\ntext: text\nlabels: topic\n"
        (folder / "cards" / f"words_{number}.yaml").write_text(card)
    names = ", ".join(f"words_{number}" for number in range(tasks))
    (folder / "params.yaml").write_text(PARAMS.format(tasks=names))


def put_checkpoint(folder: Path, seed: int) -> None:
    """Write a tiny encoder with weights of its own."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *TOPICS,
        *(word for some in TOPICS.values() for word in some),
    ]
    torch.manual_seed(seed)
    sizes: dict[str, int] = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=32, **sizes)).save_pretrained(folder)
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)


@contextmanager
def timed(row: dict[str, float], name: str) -> Iterator[None]:
    """Note the seconds that a block takes."""
    began = time.monotonic()
    yield
    row[name] = time.monotonic() - began


class Year:
    """The daemon's work of each night, in this process."""

    def __init__(self, launcher: Any, kept: Path) -> None:
        import dagster as dg

        self.dg, self.launcher, self.instance, self.kept = dg, launcher, launcher.instance, kept
        self.cursor = kept.read_text() if kept.exists() else None

    def tick(self) -> list[Any]:
        """Let the checkpoint sensor look, and do what it asks of partitions; return its run requests."""
        definitions = self.launcher.definitions
        sensor = definitions.resolve_sensor_def("new_checkpoints")
        with self.dg.build_sensor_context(self.instance, self.cursor, definitions=definitions) as context:
            result = sensor(context)
        if isinstance(result, self.dg.SkipReason):
            return []
        self.cursor = result.cursor
        self.kept.write_text(result.cursor)
        for request in result.dynamic_partitions_requests or []:
            for name in request.partition_keys:
                if isinstance(request, self.dg.AddDynamicPartitionsRequest):
                    self.instance.add_dynamic_partitions(request.partitions_def_name, [name])
                else:
                    self.instance.delete_dynamic_partition(request.partitions_def_name, name)
        return result.run_requests or []

    def run(self, job: str, **options: Any) -> None:
        """Run a job to its end."""
        definition = self.launcher.definitions.resolve_job_def(job)
        assert definition.execute_in_process(instance=self.instance, **options).success, job

    def night(self, number: int) -> dict[str, float]:
        """Do the work of a night, and measure."""
        from assets.common import NIGHT
        from traube._core import paths

        row = {"night": float(number)}
        tags = {NIGHT: datetime.now(UTC).date().isoformat()}
        put_checkpoint(paths.checkpoints() / f"night-{number:03}", number)
        shutil.rmtree(paths.checkpoints() / f"night-{number - WEEK:03}", ignore_errors=True)
        with timed(row, "night_s"):
            self.tick()
            for request in self.tick():
                options = {"partition_key": request.partition_key, "asset_selection": request.asset_selection}
                self.run("evaluate", **options, tags={**request.tags, **tags})
            self.run("publish", tags=tags)
            self.run("clean")
        set_back(paths.home())
        with timed(row, "leaderboard_s"):
            self.show_leaderboard()
        with timed(row, "pages_s"):
            self.read_pages()
        return row | {f"{name}_mb": size for name, size in measure(paths.home()).items()}

    def show_leaderboard(self) -> None:
        """Make the leaderboard as the command does."""
        from typer.testing import CliRunner

        from traube._cli.main import app

        assert CliRunner().invoke(app, ["leaderboard"]).exit_code == 0

    def read_pages(self) -> None:
        """Read what Dagster's pages of runs and of all assets read: the last runs, and each asset's partitions and event."""
        self.instance.get_run_records(limit=25)
        for key in self.launcher.definitions.resolve_asset_graph().get_all_asset_keys():
            self.instance.get_materialized_partitions(key)
            self.instance.get_latest_materialization_event(key)


def set_back(home: Path) -> None:
    """Give what was written in this night its date, by which the clean-up tells what is older than a day."""
    now = time.time()
    for folder in ("embeddings", "weights"):
        for path in (home / folder).rglob("*"):
            if path.lstat().st_mtime > now:
                os.utime(path, (now, now), follow_symlinks=False)


def measure(home: Path) -> dict[str, float]:
    """Return the megabytes of the data directory, and of its parts that grow."""
    parts = {"home": "**/*", "catalog": "catalog.db*", "mlflow": "mlflow.db*", "dagster": "dagster/**/*"}
    return {
        name: sum(file.lstat().st_size for file in home.glob(pattern) if file.is_file()) / 1e6
        for name, pattern in parts.items()
    }


def live_inside(folder: Path, days: int, tasks: int) -> None:
    """Live through the days that are left; a line of the file for each."""
    from operations.launch import DagsterLauncher
    from traube._core.progress import SILENT
    from traube._pipeline.params import load_params
    from traube._pipeline.request import make_request

    time.sleep = lambda seconds: Event().wait(seconds) and None  # Python's own is refused by libfaketime
    written = folder / "days.jsonl"
    lived = len(written.read_text().splitlines()) if written.exists() else 0
    if not lived:
        make_benchmark(folder, tasks)
    params = load_params()
    with DagsterLauncher(SILENT) as launcher, written.open("a", buffering=1) as file:
        assert launcher.datasets(list(params.tasks)) == []
        for model in params.models:
            assert launcher.evaluate(model, list(params.tasks), replace(make_request(params), models=[model])) == []
        year = Year(launcher, folder / "cursor")
        for number in range(lived, days):
            write_clock(folder / "clock", BEGIN + timedelta(days=number + 1))
            file.write(json.dumps(year.night(number)) + "\n")


def compare_weeks(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the ratio of the last week's mean to that of the first week after it is full, for each measure."""
    first, last = rows[WEEK : 2 * WEEK], rows[-WEEK:]
    names = [name for name in rows[0] if name != "night"]
    return {name: sum(row[name] for row in last) / sum(row[name] for row in first) for name in names}


def main() -> None:
    """Print the first and the last week, and the ratio of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365, help="Number of days.")
    parser.add_argument("--tasks", type=int, default=5, help="Number of tasks.")
    parser.add_argument("--folder", type=Path, help="Folder to live in, which is kept; one from before goes on.")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        live_inside(options.inside, options.days, options.tasks)
        return
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        rows = live_through(options.days, options.tasks, options.folder.absolute())
    else:
        with TemporaryDirectory(prefix="traube-year-") as folder:
            rows = live_through(options.days, options.tasks, Path(folder))
    for name, ratio in compare_weeks(rows).items():
        print(f"{name:14} {rows[WEEK][name]:10.2f} -> {rows[-1][name]:10.2f}   last week / second week {ratio:.2f}")


if __name__ == "__main__":
    main()
