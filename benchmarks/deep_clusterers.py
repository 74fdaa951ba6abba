"""Deep clusterers on short texts beside k-means on the same encoder: ACC and NMI in percent, by seed.

`python benchmarks/deep_clusterers.py aecl tweet --seeds 0 1 2 --set frozen=true scaled=true`, with TRAUBE_RAW at
the raw data and TRAUBE_HOME at a folder of one's own. Texts are augmented as published. A training
that was stopped goes on from below TRAUBE_HOME.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from sklearn.metrics import normalized_mutual_info_score

from traube import load_model, load_task
from traube._core import paths
from traube._core.hashing import digest
from traube._core.progress import Progress
from traube._pipeline.workbench import Workbench
from traube.components import VectorView
from traube.components._deep import DEEP
from traube.components._fit import fit_clusterer
from traube.metrics._clustering import acc
from traube.models._augmentation import Published
from traube.tasks import get_source


def percent(gold: Any, found: Any) -> str:
    return f"ACC {100 * acc(gold, found):.2f}  NMI {100 * normalized_mutual_info_score(gold, found):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clusterer", choices=DEEP)
    parser.add_argument("task")
    parser.add_argument("--rows", type=int, help="a random sample of the texts, the same for all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", nargs="*", default=[], help="values of the recipe, like epochs=20")
    parser.add_argument("--say", action="store_true", help="a line for each epoch")
    arguments = parser.parse_args()
    task = load_task(arguments.task)
    (split,) = task.test_splits()
    chosen = np.sort(np.random.default_rng(0).permutation(split.size)[: arguments.rows])
    texts, gold = task.texts_at(split.rows[chosen]), split.labels[chosen]
    k = len(set(gold))
    values = {name: yaml.safe_load(value) for name, value in (pair.split("=", 1) for pair in arguments.set)}
    base = load_model("minilm_32", precision="fp32")
    vectors = Workbench.at(paths.home()).vectors_of_texts(texts, base).load()
    print(f"{arguments.task}: {len(texts)} texts, {k} classes; {arguments.clusterer} {values}", flush=True)
    for seed in arguments.seeds:
        found = fit_clusterer("kmeans", {"n_init": 1}, VectorView(vectors), k, seed).labels
        print(f"seed {seed}  kmeans  {percent(gold, found)}", flush=True)
        clusterer = DEEP[arguments.clusterer].with_values(**values)
        if clusterer.augmentations:
            clusterer.augment = Published(get_source(arguments.task).read_augmentations())
        work: Path = (
            paths.home() / "trainings" / digest([arguments.clusterer, arguments.task, arguments.rows, seed, values])
        )
        began = time.perf_counter()
        said = Progress(said=lambda words: print(words, flush=True)) if arguments.say else Progress()
        found = clusterer.fit_predict(texts, k, base, seed, work, said, gold)
        seconds = time.perf_counter() - began
        last = clusterer.history[-1]
        attention = f"  NS {last['ns']:.3f}" if "ns" in last else ""  # similarity to other classes
        print(
            f"seed {seed}  {arguments.clusterer}  {percent(gold, found)}  {len(set(found))} clusters{attention}  {seconds:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
