"""One run of Traube for vs_mteb.py, in a process of its own. Prints its measurements as JSON."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from traube import components
from traube._pipeline import units
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.executors import Executor, ProcessExecutor
from traube._pipeline.params import Protocol
from traube._pipeline.plan import cells
from traube.metrics import GROUPS
from traube.models import load_model
from traube.tasks._task import Task, TaskCard

METHOD = "none/minibatch_kmeans"
PROTOCOL = Protocol(
    reducers=("none",),
    clusterers=("minibatch_kmeans",),
    parameters={"minibatch_kmeans": {"batch_size": 500, "n_init": "auto"}},
    seeds=(42,),  # MTEB's
)


def main() -> None:
    """Evaluate the task in `folder`, and keep the embeddings in `cache` or find them there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--precision", default="fp32", help="fp32, bf16 or auto")
    parser.add_argument("--cached", action="store_true", help="the embeddings are there: the network is not loaded")
    arguments = parser.parse_args()
    task = read_task(arguments.folder)
    model: Any = load_model("minilm", device="cpu", precision=arguments.precision)
    model.fingerprint  # noqa: B018 (hashes the weights, which is part of loading them)
    if not arguments.cached:
        model.encode(["warm up", "the network"])
    executor = ProcessExecutor()
    _start_workers(executor)

    cpu, wall = cpu_seconds(), time.perf_counter()
    startup = {"startup_cpu": cpu, "ready": time.time()}
    requested = cells(task, model, PROTOCOL, methods=[PROTOCOL.method(METHOD)])
    scores, _ = evaluate_cells(task, model, requested, arguments.cache, executor)
    work = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
    executor.close()

    v = scores[scores["metric"] == "v_measure/noise_as_cluster"].set_index("split")["value"]
    print(json.dumps({**startup, **work, "v": v.to_dict()}))


def read_task(folder: Path) -> Task:
    return Task(
        TaskCard(name="vs_mteb"), pd.read_parquet(folder / "corpus.parquet"), pd.read_parquet(folder / "splits.parquet")
    )


def _start_workers(executor: Executor) -> None:
    """Let every worker import what it needs: imports are no part of the work on either side."""
    points = np.random.default_rng(0).random((50, 4), dtype=np.float32)
    executor.start()
    jobs = [executor.submit(_warm_up, points, memory=0) for _ in range(executor.n_workers)]
    assert len({job.result() for job in jobs}) == executor.n_workers, "a worker was not warmed up"


def _warm_up(points: np.ndarray, memory: int) -> int:
    clusters = components.fit(components.parse_method("minibatch_kmeans"), components.VectorView(points), 2, 0).labels
    labels = np.arange(50).astype(str).astype(object)
    units.score_split(labels, clusters, np.arange(50) % GROUPS, None, memory)
    time.sleep(0.5)  # so that the next job goes to another worker
    return os.getpid()


def cpu_seconds() -> float:
    """CPU time of this process and its living children."""
    this = psutil.Process()
    times = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return sum(t.user + t.system for t in times)


if __name__ == "__main__":
    main()
