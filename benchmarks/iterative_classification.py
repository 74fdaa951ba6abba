"""Clusterers that train no encoder, on the eight short-text sets: iterative classification beside the clusters that it
starts from, GSDMM, and clusterers that find the number of clusters by themselves.

Every result is a row of a csv file, written as soon as it is there; what is in the file is not computed again. Then the
means over the seeds are printed. Seconds are of the CPU: run it with OMP_NUM_THREADS=1. Raw data: TRAUBE_RAW (see
`traube tasks`). Vectors are kept in TRAUBE_HOME.
"""

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traube._core import paths
from traube._pipeline.workbench import Workbench
from traube.components import TextView, VectorView
from traube.components._estimators.stable_kmeans import StableKMeans
from traube.components._fit import fit_clusterer
from traube.metrics import _clustering as clustering
from traube.models import load_model
from traube.papers.aecl.ecic import IterativeClassification
from traube.tasks import load_task

TASKS = (
    *("tweet", "agnews", "googlenews_ts", "googlenews_t", "googlenews_s", "searchsnippets", "stackoverflow"),
    "biomedical",
)
MODELS = ("minilm", "tfidf")
STARTS = ("kmeans", "agglomerative_average")
SEEDED = ("kmeans",)
# as the paper ends it, and as the authors' public code does: after all 50 iterations
ENDS: dict[str, dict[str, Any]] = {"ecic": {}, "ecic50": {"steady": 0.0}}
SEEDS = range(5)
COLUMNS = (
    *("task", "model", "method", "seed", "acc", "nmi", "ari", "purity", "clusters", "classes", "seconds"),
    *("iterations", "score"),
)
KEY = ["task", "model", "method", "seed"]


class Table:
    """The csv file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            with path.open("w", newline="") as file:
                csv.writer(file).writerow(COLUMNS)
        self.done = {tuple(map(str, row)) for row in pd.read_csv(path, dtype=str)[KEY].to_numpy()}

    def has(self, *key: Any) -> bool:
        return tuple(map(str, key)) in self.done

    def add(self, gold: Any, found: Any, seconds: float, *key: Any, **more: Any) -> None:
        if self.has(*key):
            return
        scores = clustering.score(gold, found)
        row = {
            **dict(zip(KEY, key, strict=True)),
            "acc": scores["acc/noise_as_cluster"],
            "nmi": scores["nmi_arithmetic/noise_as_cluster"],
            "ari": scores["ari/noise_as_cluster"],
            "purity": scores["purity/noise_as_cluster"],
            "clusters": int(scores["clusters"]),
            "classes": len(set(gold)),
            "seconds": round(seconds, 2),
            **more,
        }
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS).writerow(row)
        self.done.add(tuple(map(str, key)))
        print(*(f"{name}={value:.3f}" if type(value) is float else f"{name}={value}" for name, value in row.items()))
        sys.stdout.flush()


def timed(function: Any, *arguments: Any) -> tuple[Any, float]:
    """Return the result, and the CPU seconds that it took."""
    began = time.process_time()
    return function(*arguments), time.process_time() - began


def on_vectors(table: Table, task: str, model: str, X: Any, gold: Any, seeds: range, only: set[str]) -> None:
    k = len(set(gold))
    for start in STARTS:
        trials = [
            (seed, end)
            for seed in seeds
            for end in ENDS
            if (not only or end in only) and not table.has(task, model, f"{end}:{start}", seed)
        ]
        begun: dict[int, tuple[Any, float]] = {}
        for seed, end in trials:
            same = seed if start in SEEDED else 0
            if same not in begun:
                begun[same] = timed(fit_clusterer, start, None, VectorView(X), k, same)
            found, seconds = begun[same][0].labels, begun[same][1]
            table.add(gold, found, seconds, task, model, start, same)
            classified, more = timed(IterativeClassification(k, start=found, random_state=seed, **ENDS[end]).fit, X)
            labels, key = classified.labels_, (task, model, f"{end}:{start}", seed)
            table.add(gold, labels, seconds + more, *key, iterations=classified.n_iter_)
    for seed in seeds:
        if (not only or "stable_kmeans" in only) and not table.has(task, model, "stable_kmeans", seed):
            fitted, seconds = timed(StableKMeans(random_state=seed).fit, X)
            table.add(gold, fitted.labels_, seconds, task, model, "stable_kmeans", seed, score=fitted.score_)
            given, seconds = timed(StableKMeans(k, random_state=seed).fit, X)
            table.add(gold, given.labels_, seconds, task, model, "stable_kmeans:true_k", seed)
            found, seconds = timed(fit_clusterer, "kmeans", None, VectorView(X), fitted.n_clusters_, seed)
            table.add(gold, found.labels, seconds, task, model, "kmeans:auto", seed, score=fitted.score_)


def problems(tasks: list[str], models: list[str]) -> Iterator[tuple[str, str, Any, Any, list[str]]]:
    bench = Workbench.at(paths.home())
    for name in tasks:
        task = load_task(name)
        (split,) = task.test_splits("default")
        assert split.labels is not None
        for model in models:
            X = bench.vectors(task, load_model(model)).subset(split.rows).load()
            yield name, model, X, np.asarray(split.labels), task.texts_at(split.rows)


def printed(path: Path) -> None:
    rows = pd.read_csv(path)
    grouped = rows.groupby(["task", "model", "method"], sort=False)
    table = grouped[["acc", "nmi"]].agg(["mean", "std"]).mul(100).round(1)
    table.columns = [f"{metric} {what}" for metric, what in table.columns]
    table["clusters"] = grouped["clusters"].mean().round(1)
    table["classes"] = grouped["classes"].first()
    table["purity"] = grouped["purity"].mean().mul(100).round(1)
    table["seconds"] = grouped["seconds"].mean().round(1)
    table["iterations"] = grouped["iterations"].mean().round(1)
    table["score"] = grouped["score"].mean().round(2)
    table["seeds"] = grouped.size()
    print(table.reset_index().to_markdown(index=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the csv file")
    parser.add_argument("--task", action="append", choices=TASKS)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--only", action="append", default=[], help="such as ecic:kmeans, stable_kmeans, gsdmm")
    arguments = parser.parse_args()
    table, seeds, only = Table(arguments.file), range(arguments.seeds), set(arguments.only)
    for task, model, X, gold, texts in problems(arguments.task or list(TASKS), arguments.model or list(MODELS)):
        on_vectors(table, task, model, X, gold, seeds, only)
        for seed in seeds:
            if (not only or "gsdmm" in only) and not table.has(task, "words", "gsdmm", seed):
                found, seconds = timed(fit_clusterer, "gsdmm", None, TextView(texts), None, seed)
                table.add(gold, found.labels, seconds, task, "words", "gsdmm", seed)
    printed(arguments.file)


if __name__ == "__main__":
    main()
