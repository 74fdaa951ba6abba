"""Accuracy of QS3M by the number of articles that it learns from, and where
that leads: is it the method that is short, or the data?

For each fold of a task, the trainer's own recipe learns from the first articles of the fold's
training part, and all test articles of the fold are scored, as the encoder's Euclidean distance is.
Rows are written to a csv as they are made; what is in it is not made again.

What the gain over the Euclidean distance comes to with more articles is read off two curves that
are fitted to the means over folds: a line in the logarithm of the number of articles, which never
ends, and `a - b / n^c`, which comes to rest at `a`. Intervals: folds drawn with replacement.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from scipy.optimize import curve_fit

from traube import load_model, load_task
from traube._core import paths
from traube._pipeline.workbench import Workbench
from traube.models._similarity import TrainedSimilarity
from traube.models._transformer import Transformer
from traube.papers.qs3m.pages import scores_of
from traube.papers.qs3m.trainers import Qs3m
from traube.tasks._task import Task

FOLDS = [f"fold_{i}" for i in range(1, 6)]
COLUMNS = ["task", "fold", "articles", "auc", "ari", "euclidean_auc", "euclidean_ari"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="csv of what was measured")
    parser.add_argument("--task", default="car_test200_flat")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--articles", type=int, nargs="+", default=[9, 18, 36, 71, 143])
    parser.add_argument("--to", type=int, default=5000, help="articles to extrapolate to; the paper's")
    arguments = parser.parse_args()
    rows = pd.read_csv(arguments.out) if arguments.out.exists() else pd.DataFrame(columns=COLUMNS)
    task, model = load_task(arguments.task), load_model(arguments.model)
    assert isinstance(model, Transformer)
    for fold in FOLDS:
        for articles in arguments.articles:
            known = (rows["task"] == task.name) & (rows["fold"] == fold) & (rows["articles"] == articles)
            if not known.any():
                row = (task.name, fold, articles, *_measured(task, model, fold, articles))
                rows = pd.concat([rows, pd.DataFrame([row], columns=COLUMNS)], ignore_index=True)
                rows.to_csv(arguments.out, index=False)
                print(*row)
    _tell(rows[rows["task"] == task.name], arguments.to)


def _measured(task: Task, model: Transformer, fold: str, articles: int) -> list[float]:
    """AUC and ARI of a similarity that learned from so many articles, and of the Euclidean distance."""
    with TemporaryDirectory() as folder:
        left = Qs3m.with_values(split_set=fold).fit(_with_fewer(task, fold, articles), model, Path(folder))
        scores = _scores(task, model, fold, TrainedSimilarity.at(left.best))
    return [float(mean) for mean in np.nanmean(scores, axis=0)]


def _scores(task: Task, model: Transformer, fold: str, similarity: TrainedSimilarity) -> list[tuple[float, ...]]:
    vectors = Workbench.at(paths.home()).vectors(task, model)
    scores = []
    for split in task.test_splits(fold):
        X = np.asarray(vectors.subset(split.rows).load())
        query = np.asarray(vectors.subset(np.array([split.query])).load())[0]
        euclidean = np.linalg.norm(X[:, None] - X[None], axis=2)
        scores.append((*scores_of(similarity.distances(X, query), split)[1:], *scores_of(euclidean, split)[1:]))
    return scores


def _with_fewer(task: Task, fold: str, articles: int) -> Task:
    """The task with the first articles of a fold's training part; each smaller number is part of
    each larger one.
    """
    splits = task.splits
    learned = (splits["split_set"] == fold) & (splits["part"] == "train")
    names = np.random.default_rng(0).permutation(splits.loc[learned, "split"].drop_duplicates().to_numpy(dtype=object))
    return replace(task, rows=splits[~learned | splits["split"].isin(names[:articles])])


def _tell(rows: pd.DataFrame, to: int) -> None:
    print("\n| articles | AUC | over Euclid | ARI | over Euclid |\n|---:|---:|---:|---:|---:|")
    for articles, of in rows.groupby("articles"):
        auc, ari = of["auc"].mean(), of["ari"].mean()
        gains = auc - of["euclidean_auc"].mean(), ari - of["euclidean_ari"].mean()
        print(f"| {articles} | {auc:.3f} | {gains[0]:+.3f} | {ari:.3f} | {gains[1]:+.3f} |")
    for metric in ("auc", "ari"):
        gained = rows.assign(gain=rows[metric] - rows[f"euclidean_{metric}"])
        gains = gained.pivot_table(index="fold", columns="articles", values="gain")
        for name, curve in (("a line in log n", _line), ("a - b / n^c", _resting)):
            print(f"{metric}, gain at {to:,} articles by {name}: {_extrapolated(gains, curve, to)}")


def _extrapolated(gains: pd.DataFrame, curve: Callable[[np.ndarray, np.ndarray, int], float], to: int) -> str:
    """Return a curve through the means over folds, with the middle 95 % over draws of folds."""
    n, rng = gains.columns.to_numpy(dtype=float), np.random.default_rng(0)
    values = gains.to_numpy(dtype=float)
    draws = [curve(n, values[rng.integers(len(values), size=len(values))].mean(axis=0), to) for _ in range(500)]
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return f"{curve(n, values.mean(axis=0), to):+.3f} [{low:+.3f}, {high:+.3f}]"


def _line(n: np.ndarray, gains: np.ndarray, to: int) -> float:
    slope, constant = np.polyfit(np.log(n), gains, 1)
    return float(constant + slope * np.log(to))


def _resting(n: np.ndarray, gains: np.ndarray, to: int) -> float:
    def curve(x: np.ndarray, a: float, b: float, c: float) -> np.ndarray:
        return np.asarray(a - b * x**-c)

    try:
        found, _ = curve_fit(
            curve, n, gains, p0=(gains.max(), 0.1, 0.5), bounds=([-1, -2, 0.05], [1, 2, 3]), maxfev=5000
        )
    except RuntimeError:  # no fit
        return float("nan")
    return float(curve(np.array([float(to)]), *found)[0])


if __name__ == "__main__":
    main()
