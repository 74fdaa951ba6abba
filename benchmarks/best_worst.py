"""Time to score 100,000 judgments, with alpha and 100 split halves; the claim is
under 5 seconds.

python benchmarks/best_worst.py
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traube.metrics._agreement import Judgments, alpha, counting_scores, split_half, strong_agreement
from traube.tasks._best_worst import read_judgments

ITEMS, SIZE, TUPLES, ANNOTATORS = 10_000, 4, 20_000, 5


def made() -> Judgments:
    """20,000 random tuples, judged by five annotators with noise."""
    rng = np.random.default_rng(0)
    drawn = np.argsort(rng.random((TUPLES + 100, 40)), axis=1)[:, :SIZE]
    tuples = np.unique(np.sort(drawn + rng.integers(0, ITEMS // 40, (len(drawn), 1)) * 40, axis=1), axis=0)[:TUPLES]
    shown = np.repeat(tuples, ANNOTATORS, axis=0)
    seen = shown / ITEMS + rng.normal(0, 0.002, shown.shape)
    rows = np.arange(len(shown))
    names = np.array([f"item {i}" for i in range(ITEMS)], dtype=object)
    best, worst = (names[shown[rows, choice]] for choice in (seen.argmax(axis=1), seen.argmin(axis=1)))
    columns = {f"item_{i + 1}": names[shown[:, i]] for i in range(SIZE)}
    table = pd.DataFrame({"annotator": [f"a{i % ANNOTATORS}" for i in rows], **columns, "best": best, "worst": worst})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answers.csv"
        table.to_csv(file, index=False)
        judged: Judgments = timed("read and checked", lambda: read_judgments([file]).judgments)
    return judged


def timed(name: str, work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    found = work()
    print(f"{name:>20}: {time.perf_counter() - began:6.2f} s")
    return found


def main() -> None:
    judged = made()
    print(f"{len(judged):,} judgments of {TUPLES:,} tuples of {SIZE} of {len(judged.items):,} items")
    began = time.perf_counter()
    timed("scores", lambda: counting_scores(judged))
    found = timed("alpha", lambda: alpha(judged))
    timed("strong agreement", lambda: strong_agreement(judged))
    halves = timed("100 split halves", lambda: split_half(judged, 100))
    print(f"{'together':>20}: {time.perf_counter() - began:6.2f} s; alpha {found:.3f}, split half {halves.mean():.3f}")


if __name__ == "__main__":
    main()
