"""Cost of reading in a data directory that has grown: 270 checkpoints on five tasks, 20,250 cells with replicates, read by whole processes.

The home is made by the script: small tables as tasks, checkpoints that sentence-transformers loads (each with a sparse file of
`--megabytes`, so that its fingerprint costs what a real encoder's does, and no disk), and cells whose ids the real plan gives, so
that nothing is missing. Values are made up: a quality of each model, an effect of each method, chance.

Measured are `traube leaderboard`, `traube run --dry-run` and, as `publish`, `traube run` where only the tables are missing: each
as a process of its own, `--rounds` times, the first round with nothing kept from an earlier reading. Ends with status 1 if a later
round exceeds a limit.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from traube._core.files import write_text
from traube._pipeline.cell import Cell
from traube._pipeline.params import Params, load_params
from traube._pipeline.plan import cells_of
from traube._pipeline.record import Recorder, make_scores, record
from traube._pipeline.request import Request
from traube._storage import Storage, open_storage
from traube.metrics import FULL_NAMES, GROUPS
from traube.models import load_model
from traube.tasks import get_source
from traube.tasks.source import Source
from traube.tasks.stored import complete_task, get_manifest, read_task, save_corpus, save_rows
from traube.tasks.task import Task, index_texts

PROJECT = Path(__file__).resolve().parents[1]
LIMITS = {"leaderboard": 3.0, "run --dry-run": 3.0, "publish": 15.0}  # seconds
# name, splits, levels
TASKS = (("ten", 10, 1), ("five", 5, 2), ("four", 4, 1), ("whole", 1, 1), ("pair", 1, 2))
ROWS = 120  # a split
WORDS = [f"word{i}" for i in range(400)]
DIMENSIONS = 16
PROTOCOL = {
    "reducers": ["none", "pca"],
    "clusterers": ["minibatch_kmeans", "kmeans", "agglomerative", "agglomerative_cosine"],
    "seeds": [42, 1],
    "precision": "fp32",
}
BESIDE = {"methods": ["none/kmeans"], "seeds": [7]}  # requested beside the protocol's own


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=270)
    parser.add_argument("--megabytes", type=int, default=90, help="weights of a checkpoint; they are holes in a file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, help="where the home is made, or lies already; by default it is thrown away"
    )
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="scale-") as temporary:
        folder = (arguments.folder or Path(temporary)).resolve()
        os.environ |= places(folder)
        if not (folder / "made").exists():
            make(folder, arguments.models, arguments.megabytes)
        number = len(open_storage(folder / "home").read_cells())
        rows = list(measure(folder, arguments.rounds))
    table = pd.DataFrame(rows)
    print(f"{number:,} cells of {arguments.models} models with {arguments.megabytes} MB of weights each\n")
    print(table.round(2).to_markdown(index=False))
    later = table[table["round"] == table["round"].max()]
    return int((later["wall, s"] > later["command"].map(LIMITS)).any())


def places(folder: Path) -> dict[str, str]:
    """The environment of a home of one's own."""
    return {
        "TRAUBE_HOME": str(folder / "home"),
        "TRAUBE_CHECKPOINTS": str(folder / "checkpoints"),
        "TRAUBE_CARDS": str(folder / "cards"),
        "TRAUBE_PARAMS": str(folder / "params.yaml"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'home' / 'mlflow.db'}",
        "DAGSTER_HOME": str(folder / "home" / "dagster"),
    }


# the home


def make(folder: Path, models: int, megabytes: int) -> None:
    """Tasks, checkpoints and cells."""
    rng = np.random.default_rng(0)
    for name, splits, levels in TASKS:
        write_task(folder / "cards", name, splits, levels, rng)
    for i in range(models):
        write_checkpoint(folder / "checkpoints" / f"model_{i:03d}", rng, megabytes)
    params = {
        "protocol": "wide",
        "tasks": [name for name, *_ in TASKS],
        "models": ["bow"],
        "protocols": {"wide": PROTOCOL},
    }
    write_text(folder / "params.yaml", yaml.safe_dump(params))
    storage, requested = open_storage(folder / "home"), load_params()
    names = [f"model_{i:03d}" for i in range(models)]
    write_text(folder / "params.yaml", yaml.safe_dump({**params, "models": names[:1]}))
    quality = dict(zip(names, rng.normal(0.5, 0.08, models), strict=True))
    for name, *_ in TASKS:
        task = read(storage, get_source(name))
        for model in names:
            for cell in wanted(task, model, requested, storage):
                write_cell(storage, task, cell, quality[model], rng)
        print(f"{name}: {len(storage.read_cells(name)):,} cells", file=sys.stderr)
    write_text(folder / "made", "")


def write_task(cards: Path, name: str, splits: int, levels: int, rng: np.random.Generator) -> None:
    """A table with a card: `splits` splits of ROWS texts."""
    n = splits * ROWS
    frame = pd.DataFrame(
        {
            "text": [" ".join([*rng.choice(WORDS, 6), f"{name}{i}"]) for i in range(n)],
            "split": np.repeat([f"s{j:02d}" for j in range(splits)], ROWS),
            **{f"level{k}": rng.choice([f"label{c}" for c in range(4 + k)], n) for k in range(levels)},
        }
    )
    write_text(cards / f"{name}.csv", frame.to_csv(index=False))
    labels = [f"level{k}" for k in range(levels)]
    card = {"file": f"{name}.csv", "text": "text", "labels": labels, "split": "split", "family": "made"}
    write_text(cards / f"{name}.yaml", yaml.safe_dump(card))


def write_checkpoint(folder: Path, rng: np.random.Generator, megabytes: int) -> None:
    """A vector for each word, as sentence-transformers saves it, and a file of holes."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    folder.mkdir(parents=True)
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, **{word: i for i, word in enumerate(WORDS, 1)}}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    weights = rng.standard_normal((len(WORDS) + 1, DIMENSIONS), dtype=np.float32)
    save_file({"embedding.weight": weights}, folder / "model.safetensors")
    kind = "sentence_transformers.sentence_transformer.modules.static_embedding.StaticEmbedding"
    write_text(folder / "modules.json", json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))
    with (folder / "more.safetensors").open("wb") as file:
        file.truncate(megabytes * 10**6)


def read(storage: Storage, source: Source) -> Task:
    """A task, read and stored as the graph does it."""
    corpus, records = index_texts(source.read())
    save_corpus(storage, source.name, corpus, records, source.raw_version())
    save_rows(storage, source.card, source.draw(records))
    complete_task(storage, source.card)
    return read_task(storage, source.name)


def wanted(task: Task, name: str, params: Params, storage: Storage) -> list[Cell]:
    """The cells of a task and a model: the protocol's, and a method and a seed beside them."""
    manifest, protocol = get_manifest(storage, task.name), params.chosen()
    assert manifest is not None
    model = load_model(name, precision=protocol.precision)
    methods, seeds = [protocol.method(m) for m in BESIDE["methods"]], BESIDE["seeds"]
    requested = Request([task.name], [name], params.protocol, protocol)
    beside = Request([task.name], [name], params.protocol, protocol, methods, seeds)
    return [cell for request in (requested, beside) for cell in cells_of(manifest, model, request)]


def write_cell(storage: Storage, task: Task, cell: Cell, quality: float, rng: np.random.Generator) -> None:
    """Made-up assignments and scores of every metric, and the record that makes them count."""
    if reason := cell.method.unsupported():
        Recorder(storage).save_failure(cell, "unsupported", reason)
        return
    splits = list(task.test_splits())
    sizes = [split.size for split in splits]
    assignments = pd.DataFrame(
        {
            "split": np.repeat([s.split for s in splits], sizes),
            "level": np.repeat([s.level for s in splits], sizes),
            "item": np.concatenate([s.items for s in splits]),
            "cluster": rng.integers(0, 4, sum(sizes)),
        }
    )
    effect = 0.02 * len(cell.method.clusterer) / 10
    values = np.repeat(quality + effect + rng.normal(0, 0.03, len(splits)), len(FULL_NAMES))
    scores = pd.DataFrame(
        {
            "split": np.repeat([s.split for s in splits], len(FULL_NAMES)),
            "level": np.repeat([s.level for s in splits], len(FULL_NAMES)),
            "metric": np.tile(FULL_NAMES, len(splits)),
            "value": values,
            "replicates": list(replicates(values, rng)),
        }
    )
    made = make_scores(scores, storage.read_splits(cell.data_version, cell.split_set))
    storage.save_cell(record(cell, "done", seconds=0.1), assignments, made)


def replicates(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    return np.asarray(values[:, None] + rng.normal(0, 0.004, (len(values), GROUPS)))


# the commands


def measure(folder: Path, rounds: int) -> Iterator[dict[str, object]]:
    """Measure each command, round by round."""
    home = folder / "home"
    (home / "hashes.jsonl").unlink(missing_ok=True)
    for number in range(1, rounds + 1):
        for name, command in (("leaderboard", "leaderboard"), ("run --dry-run", "run --dry-run"), ("publish", "run")):
            (home / "tables" / "published.json").unlink(missing_ok=True)
            row = {"round": number, "command": name, **cost(command.split(), folder / f"{name.split()[0]}.txt")}
            print(row, file=sys.stderr, flush=True)
            yield row


def cost(command: list[str], log: Path) -> dict[str, float]:
    """Seconds and memory of a process; what it prints goes into a file."""
    began = time.perf_counter()
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "traube._cli", *command], cwd=PROJECT, stdout=file, stderr=file
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"traube {' '.join(command)} ended with {process.returncode}: {log.read_text()[-2000:]}")
    seconds = time.perf_counter() - began
    return {"wall, s": seconds, "CPU, s": usage.ru_utime + usage.ru_stime, "peak, MB": usage.ru_maxrss / 1024}


if __name__ == "__main__":
    sys.exit(main())
