"""Savings of the engine by doing shared work once: a task's cells evaluated together, beside the same cells each by itself.

Together, a text is encoded once and a reduction is computed once for all clusterers and levels. Alone, every (cell, split) encodes
the split's texts and reduces them again; a lexical model, which is fitted on the whole corpus, is evaluated cell by cell. The
clusterings are the same, so V-measures must be too, and the time is CPU time of all processes.
"""

import argparse
import resource
import sys
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from traube._pipeline.cell import Cell
from traube._pipeline.evaluate import evaluate_cells
from traube._pipeline.params import load_params
from traube._pipeline.plan import cells
from traube.models import Model, load_model
from traube.tasks import load_task
from traube.tasks._task import Task

METRIC = "v_measure/noise_as_cluster"
KEYS = ["method", "split", "level"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", action="append", help="may be repeated; by default blurbs_s2s and tenkgnad_p2p")
    parser.add_argument("--model", action="append", help="may be repeated; by default bow, tfidf, lsa and minilm")
    parser.add_argument("--protocol", default="paper")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.task or ("blurbs_s2s", "tenkgnad_p2p"):
        task = load_task(name)
        for model_name in arguments.model or ("bow", "tfidf", "lsa", "minilm"):
            rows.append(compare(task, model_name, arguments.protocol))
            print(rows[-1], file=sys.stderr, flush=True)
    table = pd.DataFrame(rows)
    print(table.round(3).to_markdown(index=False))
    print(f"\nall: {table['alone, CPU s'].sum() / table['together, CPU s'].sum():.2f}x")
    return int((table["max abs dV"] > 0.01).any())


def compare(task: Task, name: str, protocol_name: str) -> dict[str, object]:
    """CPU seconds of both ways, and how far their V-measures are apart."""
    protocol = load_params().chosen(protocol_name)
    model = load_model(name, precision=protocol.precision)
    if not model.corpus_bound:
        model.encode(task.texts[:2])  # loading is the same for both
    seconds, found = [], []
    for make in (together, alone):
        began = cpu_seconds()
        found.append(pd.concat(make(task, model, protocol)))
        seconds.append(cpu_seconds() - began)
    apart = (found[0].set_index(KEYS)["value"] - found[1].set_index(KEYS)["value"]).abs()
    return {
        "task": task.name,
        "model": name,
        "together, CPU s": seconds[0],
        "alone, CPU s": seconds[1],
        "ratio": seconds[1] / seconds[0],
        "max abs dV": float(apart.max()),
        "scores": len(apart.dropna()),
    }


def together(task: Task, model: Model, protocol: object) -> Iterator[pd.DataFrame]:
    yield v_measures(task, model, possible(task, model, protocol))


def alone(task: Task, model: Model, protocol: object) -> Iterator[pd.DataFrame]:
    for piece in [task] if model.corpus_bound else pieces(task):
        for cell in possible(piece, model, protocol):
            yield v_measures(piece, model, [cell])


def possible(task: Task, model: Model, protocol: object) -> list[Cell]:
    return [cell for cell in cells(task, model, protocol) if cell.method.unsupported() is None]


def pieces(task: Task) -> Iterator[Task]:
    """A task for each split and level."""
    for _, splits in task.splits[task.splits["part"] == "test"].groupby(["split", "level"], sort=False):
        corpus = task.corpus[task.corpus["text_id"].isin(splits["text_id"])].reset_index(drop=True)
        yield replace(task, corpus=corpus, rows=splits.reset_index(drop=True))


def v_measures(task: Task, model: Model, requested: list[Cell]) -> pd.DataFrame:
    """DataFrame method, split, level, value; nothing is kept."""
    scores, _ = evaluate_cells(task, model, requested)
    methods = {cell.cell_id: cell.method.name for cell in requested}
    scores = scores[scores["metric"] == METRIC]
    return scores.assign(method=scores["cell_id"].map(methods))[[*KEYS, "value"]]


def cpu_seconds() -> float:
    """Of this process and of those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


if __name__ == "__main__":
    sys.exit(main())
