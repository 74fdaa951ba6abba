"""COB's own part of a training step: distances, clustering, loss and gradient, beside the encoder's part.

At n = 50 a whole step with MiniLM is timed, and the share of COB's part in it; then how that part grows with n, with the second
clustering and without (the shortcut); and a batch of splits in threads beside one after the other. Ends with
status 1 if COB's part takes more than 10 % of the step at n = 50.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

from traube.models import load_model
from traube.papers.cob.trainers.cob import LOSSES, Blackbox, Cob, cob_loss, linkage, pairwise_distances
from traube.tasks import load_task

LIMIT = 0.10
DIMENSIONS, CLASSES = 256, 18
ROUNDS = 7


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="newsgroups")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--max-length", type=int, default=64)
    arguments = parser.parse_args()
    whole = step_seconds(arguments.task, arguments.model, arguments.max_length)
    share = seconds(50, general=True) / whole
    print(
        f"a step of 50 texts of {arguments.max_length} tokens: {whole:.3f} s; COB's part {share:.2%} (limit {LIMIT:.0%})\n"
    )
    print("| n | general, ms | shortcut, ms | two clusterings of it, ms |\n|---:|---:|---:|---:|")
    for n in (50, 100, 200, 500, 1_000):
        parts = [
            1e3 * value for value in (seconds(n, general=True), seconds(n, general=False), 2 * clustering_seconds(n))
        ]
        print(f"| {n:,} | {parts[0]:.1f} | {parts[1]:.1f} | {parts[2]:.1f} |", flush=True)
    print("\n| batch | one after the other, ms | in threads, ms | |\n|---|---:|---:|---|")
    for n in (50, 200, 500):
        times = {}
        for workers in ("1", str(len(os.sched_getaffinity(0)))):
            os.environ["TRAUBE_WORKERS"] = workers
            times[workers] = 1e3 * seconds(n, general=True, batch=8)
        one, many = times["1"], times[workers]
        print(f"| 8 splits of {n} | {one:.1f} | {many:.1f} | {one / many:.2f}x |", flush=True)
    return int(share > LIMIT)


def step_seconds(task_name: str, model_name: str, max_length: int) -> float:
    """A whole step: encoder forward and backward, COB's part between them, and the optimizer's."""
    trainer = Cob.with_values(max_length=max_length)
    task, base = load_task(task_name), load_model(model_name)
    network = trainer.make_network(base)  # type: ignore[arg-type]
    examples = trainer.make_examples(network, task, trainer.select_texts(task, ()))
    learner = trainer.make_learner(network, examples).train()
    optimizer = torch.optim.AdamW(learner.parameters(), lr=2e-5)
    numbers = iter(range(ROUNDS + 1))

    def step() -> None:
        learner(examples.collate([examples[next(numbers)]])).backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return timed(step)


def seconds(n: int, general: bool, batch: int = 1) -> float:
    """COB's part of a step on splits of n texts; `general` with a lambda that needs the second clustering."""
    rng = np.random.default_rng(n)
    classes = torch.from_numpy(rng.integers(CLASSES, size=n))
    gold = [(classes[:, None] == classes[None, :]).float()] * batch
    vectors = [torch.from_numpy(rng.normal(size=(n, DIMENSIONS)).astype(np.float32)).requires_grad_() for _ in gold]
    box = Blackbox(lam=0.01 if general else 1e4, cluster=linkage("average"))
    found = timed(lambda: cob_loss(box, LOSSES["ri"], 1.0, [pairwise_distances(v) for v in vectors], gold).backward())
    assert (box.shortcuts == 0) == general
    return found


def clustering_seconds(n: int) -> float:
    distances = pairwise_distances(torch.from_numpy(np.random.default_rng(n).normal(size=(n, DIMENSIONS)))).numpy()
    cluster = linkage("average")
    return timed(lambda: cluster(distances, CLASSES))


def timed(work: Callable[[], Any]) -> float:
    """Median seconds, the first call not counted."""
    found = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return median(found[1:])


if __name__ == "__main__":
    sys.exit(main())
