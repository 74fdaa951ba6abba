"""Peak memory of the engine on many texts: first a whole run with all methods, then each method by itself.

One split holds all the texts, and every method runs for two seeds, so that two fits of the dearest method may meet. Sampled
is the resident memory of the process and its workers; pages that they share count once in each, so the sum is an upper
bound. Ends with status 1 if the whole run exceeds the limit.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import psutil
from numpy.typing import NDArray

from traube._core.hashing import digest
from traube._pipeline.cluster import cluster_cells
from traube._pipeline.executors import Executor, ProcessExecutor
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube._pipeline.score import score_assignments
from traube._pipeline.workbench import Workbench
from traube._storage import Storage, open_storage
from traube.components import parse_method
from traube.models import load_model
from traube.tasks._readers.pydocs import FULL, read_docstrings
from traube.tasks._splitting import split_whole
from traube.tasks._stored import complete_task, read_task, save_corpus, save_rows
from traube.tasks._task import Task, TaskCard, index_texts

GIB = 2**30
CARD = TaskCard(name="memory")
RUNS = (  # encoder ("dense" is --encoder), method
    ("dense", "none/minibatch_kmeans"),
    ("dense", "none/kmeans"),
    ("dense", "pca/agglomerative"),
    ("dense", "umap/hdbscan"),
    ("dense", "umap/minibatch_kmeans"),
    ("bow", "none/minibatch_kmeans"),
)
SEEDS = (42, 43)


class RandomProjection:
    """Words, hashed and projected at random: vectors as large as MiniLM's, in no time."""

    name = "random"
    corpus_bound = False
    dimensions = 384
    numerics: ClassVar[dict[str, str]] = {"random projection": "1"}

    @property
    def fingerprint(self) -> str:
        return digest(["random projection", self.dimensions])

    @cached_property
    def _parts(self) -> tuple[Any, NDArray[np.float32]]:
        from sklearn.feature_extraction.text import HashingVectorizer

        words = HashingVectorizer(n_features=2**14, dtype=np.float32)
        return words, np.random.default_rng(0).standard_normal((2**14, self.dimensions), dtype=np.float32)

    def load(self) -> int:
        return self._parts[1].nbytes

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        words, projection = self._parts
        return np.asarray(words.transform(texts) @ projection, dtype=np.float32)

    def encode_batches(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        for start in range(0, len(texts), 1_000):
            positions = np.arange(start, min(start + 1_000, len(texts)))
            yield positions, self.encode([texts[i] for i in positions])


@dataclass
class Peak:
    """Peak memory of a process and its descendants, in bytes, by stage of its work.

    Attributes
    ----------
    together : sum over all the processes
    largest : of a single process
    """

    together: dict[str, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)

    def sample(self, process: psutil.Process, stage: str) -> None:
        sizes = []
        with suppress(psutil.NoSuchProcess):
            for member in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    sizes.append(member.memory_info().rss)
        self.together[stage] = max(self.together.get(stage, 0), sum(sizes))
        self.largest[stage] = max(self.largest.get(stage, 0), *sizes, 0)


def main() -> int:
    """Measure and report; 1 if the whole run held more than the limit."""
    arguments = _arguments()
    print(f"Reading {arguments.texts:,} texts", flush=True)
    with TemporaryDirectory(prefix="traube-memory-") as name:
        folder = Path(name)
        print(write_task(folder, arguments.texts))
        peak, lines = measure(folder, arguments.encoder, RUNS)
        print("\n| the whole run, by stage | all processes, GiB | largest process, GiB |\n|---|---|---|")
        for stage, size in peak.together.items():
            print(f"| {stage} | {size / GIB:.2f} | {peak.largest[stage] / GIB:.2f} |")
        print("", *dict.fromkeys(lines), sep="\n")
        print(
            "\n| a method by itself, embeddings cached | all processes, GiB | largest process, GiB | |\n|---|---|---|---|"
        )
        for run in RUNS:
            alone, lines = measure(folder, arguments.encoder, [run])
            sizes = f"{max(alone.together.values()) / GIB:.2f} | {max(alone.largest.values()) / GIB:.2f}"
            print(
                f"| {run[1] if run[0] == 'dense' else ' '.join(run)} | {sizes} | {', '.join(dict.fromkeys(lines))} |",
                flush=True,
            )
    stage = max(peak.together, key=peak.together.__getitem__)
    highest = peak.together[stage] / GIB
    print(f"\nPeak of the whole run: {highest:.2f} GiB, in stage '{stage}'; limit {arguments.limit:.2f} GiB")
    return int(highest > arguments.limit)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", choices=["minilm", "random"], default="minilm")
    parser.add_argument("--texts", type=int, default=40_000)
    parser.add_argument("--limit", type=float, default=3.0, help="GiB")
    return parser.parse_args()


def write_task(folder: Path, count: int) -> str:
    """Store a task of `count` unique texts, and say what it holds."""
    docs = read_docstrings(FULL)
    texts = pd.concat([docs[["coarse", "fine"]].assign(text=docs[kind]) for kind in ("s2s", "p2p")])
    corpus, records = index_texts(texts.drop_duplicates("text")[:count])
    storage = open_storage(folder)
    save_corpus(storage, CARD.name, corpus, records, raw_version="")
    splits = split_whole(records, "all", "fine")
    save_rows(storage, CARD, splits)
    complete_task(storage, CARD)
    return f"{len(corpus):,} unique texts in one split of {splits['label'].nunique()} classes"


def measure(folder: Path, encoder: str, runs: Iterable[tuple[str, str]]) -> tuple[Peak, list[str]]:
    """Run in a fresh process, sampling the memory of it and its workers; and what became of each method."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=evaluate, args=(there, folder, encoder, list(runs)))
    child.start()
    there.close()
    process, peak, stage, lines = psutil.Process(child.pid), Peak(), "start", list[str]()
    with suppress(EOFError):  # the end of the child
        while True:
            peak.sample(process, stage)
            if here.poll(0.05):
                kind, message = here.recv()
                stage = message if kind == "stage" else stage
                lines += [message] if kind == "line" else []
                print(f"  {message}", file=sys.stderr, flush=True)
    child.join()
    if child.exitcode:
        raise SystemExit(f"the run ended with status {child.exitcode}")
    return peak, lines


def evaluate(pipe: Connection, folder: Path, encoder: str, runs: list[tuple[str, str]]) -> None:
    """Embed, cluster and score, telling the parent of each stage. Reductions are not kept from run to run."""
    task = read_task(open_storage(folder), CARD.name)
    with TemporaryDirectory(dir=folder) as name, ProcessExecutor() as executor:
        for kind in dict.fromkeys(kind for kind, _ in runs):
            model: Any = RandomProjection() if (kind, encoder) == ("dense", "random") else None
            model = model or load_model("minilm" if kind == "dense" else kind)
            methods = [method for k, method in runs if k == kind]
            _evaluate(pipe, folder, open_storage(Path(name)), task, model, methods, executor)


def _evaluate(
    pipe: Connection, folder: Path, storage: Storage, task: Task, model: Any, names: list[str], executor: Executor
) -> None:
    protocol = Protocol(reducers=("none",), clusterers=("minibatch_kmeans",), precision="fp32")
    requested = cells(task, model, protocol, methods=[parse_method(name) for name in names], seeds=SEEDS)
    pipe.send(("stage", f"{model.name}: embed"))
    vectors = Workbench(open_storage(folder)).vectors(task, model)
    pipe.send(("stage", f"{model.name}: cluster"))
    began, done = time.monotonic(), []
    for result in cluster_cells(task, vectors, requested, storage, executor):
        pipe.send(("line", f"{result.cell.method.name} {result.status} {result.reason}".strip()))
        if result.assignments is not None:
            done.append(result.assignments.assign(cell_id=result.cell.cell_id))
    pipe.send(("line", f"{time.monotonic() - began:.0f} s"))
    pipe.send(("stage", f"{model.name}: score"))
    if done:
        score_assignments(task, pd.concat(done, ignore_index=True), executor, vectors)


if __name__ == "__main__":
    sys.exit(main())
