"""How often is a difference called significant that is none? By simulation, where the truth is known.

1. The test: splits drawn from one corpus as benchmarks draw them (28 subsamples of 10 to 100 %), paired differences made of
   effects of the texts and noise of the splits, no true difference. The plain paired t-test beside the corrected one.
2. The gate: copies of one model, clustered with different seeds by the real engine, judged as the registry does, on tasks of
   several splits and on tasks of one split, with one newcomer or the best of several. No promotion is right. Beside it, how
   often a newcomer is promoted that is truly better: a gate that never opens would be no help.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.progress import track

from traube import comparison
from traube.evaluate import evaluate
from traube.metrics.significance import paired_t, shared
from traube.params import Promotion, Protocol
from traube.plan import Cell, cells
from traube.provenance import record
from traube.store import Store
from traube.task import Task, TaskCard, text_id

LEVEL = 0.05
METHOD = "none/minibatch_kmeans"
TEXTS, CLASSES, DIMENSIONS, SPLITS = 400, 6, 16, 10
NOISE, BETTER = (
    1.5,
    1.2,
)  # of the vectors around their class' centre: of all models, and of newcomers that are truly better


def main() -> int:
    """Print both tables; 1 if a level is exceeded by more than chance (99 %) explains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="of the gate")
    parser.add_argument("--draws", type=int, default=4000, help="of the test")
    arguments = parser.parse_args()
    rows = [row for noise in (0.0, 0.5, 2.0) for row in _tests(noise, arguments.draws)]
    print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=".3f"), "\n")
    equal = [(SPLITS, 1, 1), (SPLITS, 3, 1), (SPLITS, 1, 4), (1, 3, 1), (1, 5, 1), (1, 3, 4)]
    gates = [_gate(*case, NOISE, arguments.trials) for case in equal]
    gates += [_gate(*case, BETTER, arguments.trials) for case in ((SPLITS, 3, 1), (1, 3, 1))]
    print(pd.DataFrame(gates).to_markdown(index=False, floatfmt=".3f"))
    promoted = max(row["promoted"] for row in gates if row["truth"] == "equal")
    corrected = max(row["rejected"] for row in rows if row["test"] == "corrected")
    return int(_exceeds(promoted, arguments.trials) or _exceeds(corrected, arguments.draws))


def _exceeds(share: float, n: int) -> bool:
    return share > LEVEL + 2.33 * (LEVEL * (1 - LEVEL) / n) ** 0.5


# 1. the test


def _tests(noise: float, draws: int) -> Iterator[dict[str, object]]:
    """Rejections of a true null; `noise` is the splits' own, relative to the effects' in a split of a tenth."""
    rng = np.random.default_rng(0)
    rejected: Counter[str] = Counter()
    splits = _subsamples(rng, 1000, 28)
    covariance = shared(splits)
    for _ in track(range(draws), f"the test, noise {noise}", transient=True):
        effects = rng.normal(size=1000)
        d = np.array([effects[s].mean() for s in splits]) + noise * 0.1 * rng.normal(size=len(splits))
        rejected["plain"] += paired_t(d).p < LEVEL
        rejected["corrected"] += paired_t(d, covariance).p < LEVEL
    for name in ("plain", "corrected"):
        yield {"noise": noise, "test": name, "rejected": rejected[name] / draws, "level": LEVEL}


def _subsamples(rng: np.random.Generator, n: int, count: int) -> list[NDArray[np.int64]]:
    """Random subsamples of 10 to 100 % of a corpus."""
    sizes = np.linspace(0.1, 1, count) * n
    return [rng.permutation(n)[: int(size)] for size in sizes]


# 2. the gate


class Copy:
    """One of two copies of a model: the same vectors under another name."""

    corpus_bound = False

    def __init__(self, name: str, vectors: NDArray[np.float32]) -> None:
        self.name = self.fingerprint = name
        self.vectors = vectors

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        return self.vectors[[int(t.split()[1]) for t in texts]]

    def encode_batches(self, texts: list[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        yield np.arange(len(texts)), self.encode(texts)


def _gate(splits: int, seeds: int, newcomers: int, noise: float, trials: int) -> dict[str, object]:
    decisions: Counter[str] = Counter()
    gains = []
    for trial in track(range(trials), f"the gate, {splits} split(s), {seeds} seed(s)", transient=True):
        decision, gain = _judge(np.random.default_rng(trial), splits, seeds, newcomers, noise)
        decisions[decision] += 1
        gains.append(gain)
    shares = {name: decisions[name] / trials for name in ("promote", "keep", "hold")}
    return {
        "truth": "equal" if noise == NOISE else "better",
        "splits": splits,
        "seeds": seeds,
        "newcomers": newcomers,
        "trials": trials,
        "points": 100 * float(np.mean(gains)),
        "promoted": shares["promote"],
        "kept": shares["keep"],
        "undecided": shares["hold"],
        "level": LEVEL,
    }


def _judge(rng: np.random.Generator, splits: int, seeds: int, newcomers: int, noise: float) -> tuple[str, float]:
    """A new corpus, a champion and newcomers on it: what becomes of the best of these, and by how much it scores higher."""
    task, champions, others = _task(rng, splits, noise)
    with TemporaryDirectory(prefix="false-promotions-") as name:
        store = Store(Path(name) / "results")
        store.save_corpus(task.name, task.corpus, task.corpus[["text_id"]], "simulated")
        store.complete(task.card, store.save_splits(task.card, task.splits))
        drawn = tuple(int(s) for s in rng.choice(2**31, (1 + newcomers) * seeds, replace=False))
        protocol = Protocol(reducers=("none",), clusterers=("minibatch_kmeans",), seeds=drawn)
        for i in range(1 + newcomers):
            model = Copy(f"newcomer {i}", others) if i else Copy("champion", champions)
            own = drawn[i * seeds : (i + 1) * seeds]
            _save(store, task, model, cells(task, model, protocol, seeds=own), Path(name))
        found = comparison.candidates(store, task.name, "own", protocol, task.card.main_metric)
        champion = next(c for c in found if c.model == "champion")
        newcomer = next(c for c in found if c.model != "champion")  # the best comes first
        tables, rules = {task.name: task}, Promotion(level=LEVEL, minimum_effect=0)
        one, other, among = {task.name: newcomer}, {task.name: champion}, {task.name: newcomers}
        (verdict,) = comparison.judge(store, tables, {task.name: found}, one, other, rules, newcomers=among)
    return verdict.decision, newcomer.mean - champion.mean


def _save(store: Store, task: Task, model: Copy, asked: list[Cell], folder: Path) -> None:
    scores, assignments = evaluate(task, model, asked, folder)
    for cell in asked:
        store.save_assignments(task.name, cell.cell_id, assignments[assignments["cell_id"] == cell.cell_id], 0.0)
        store.save_scores(task.name, cell.cell_id, scores[scores["cell_id"] == cell.cell_id])
        store.save_cell(record(cell, "done"))


def _task(rng: np.random.Generator, splits: int, noise: float) -> tuple[Task, NDArray[np.float32], NDArray[np.float32]]:
    """Overlapping Gaussian classes, so that k-means depends on its start, and random subsamples of them; and the vectors of the
    champion and of newcomers, whose noise is another.
    """
    labels = rng.integers(0, CLASSES, TEXTS)
    centres, around = rng.normal(size=(CLASSES, DIMENSIONS))[labels], rng.normal(size=(TEXTS, DIMENSIONS))
    champions, others = ((centres + scale * around).astype(np.float32) for scale in (NOISE, noise))
    texts = [f"text {i}" for i in range(TEXTS)]
    corpus = pd.DataFrame({"text_id": [text_id(t) for t in texts], "text": texts})
    drawn = _subsamples(rng, TEXTS, splits) if splits > 1 else [np.arange(TEXTS)]
    frames = [
        pd.DataFrame(
            {
                "split_set": "default",
                "split": f"s{j:02}",
                "level": "class",
                "item": np.arange(len(rows)),
                "text_id": corpus["text_id"].to_numpy()[rows],
                "label": labels[rows].astype(str),
                "query_id": None,
                "part": "test",
            }
        )
        for j, rows in enumerate(drawn)
    ]
    task = Task(TaskCard(name="simulated"), corpus, pd.concat(frames, ignore_index=True))
    return task, champions, others


if __name__ == "__main__":
    sys.exit(main())
